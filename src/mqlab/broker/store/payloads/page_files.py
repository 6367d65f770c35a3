"""Page files: payloads for which there is no room in memory. Nobody needs them after the broker: none is synced."""

import weakref
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from mqlab.broker.store.files.layer import Files
from mqlab.broker.store.payloads.stored import PayloadFile, PayloadReader, StoredPayload, StoredPayloadError, checksum
from mqlab.wire.native.bodies import Payload

__all__ = ["PAGE_SIZE", "PageCounters", "PageFiles", "StoredPayload", "StoredPayloadError"]

# A page goes when nothing in it is needed: small enough that a few payloads do not keep much of the disk, large
# enough that making and removing files costs nothing beside writing them.
PAGE_SIZE: Final = 16 * 1024 * 1024
_NAME: Final = "page-"


@dataclass(slots=True)
class PageCounters:
    # Files there are now, and bytes in them.
    files: int = 0
    bytes: int = 0
    # Bytes ever written.
    written: int = 0


class PageFiles:
    """Keeps payloads in files of a folder. A file is removed when the last `Stored` of it is gone.

    The length and the checksum of a payload are with its `Stored`: nobody else could read it.
    """

    def __init__(self, folder: Path, files: Files) -> None:
        """Makes the folder if it must, and removes the page files that an earlier broker has left there."""
        self.counters = PageCounters()
        self._folder = folder
        self._files = files
        self._reader = PayloadReader(files)
        self._number = 0
        # The newest page: its descriptor, and the bytes in it.
        self._page: PayloadFile | None = None
        self._file = -1
        self._end = 0
        self._sizes: dict[int, int] = {}
        self._removals: dict[int, weakref.finalize[..., PayloadFile]] = {}
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        for path in folder.glob(_NAME + "[0-9]" * 10):
            files.remove(path)

    def write(self, payload: Payload) -> StoredPayload:
        """Raises OSError where the disk cannot take it: then nothing has changed."""
        data = payload.data
        page = self._page
        if page is None or (self._end and self._end + len(data) > PAGE_SIZE):
            page = self._begin_page()
        # What a failed write leaves behind the end is written over by the next.
        self._files.write_at(self._file, data, self._end)
        stored = StoredPayload(page, self._end, len(data), payload.rows, payload.form, checksum(data))
        self._end += len(data)
        self._sizes[self._number] = self._end
        self.counters.bytes += len(data)
        self.counters.written += len(data)
        return stored

    def close(self) -> None:
        """Remove everything. What is stored cannot be loaded any more."""
        self._let_go()
        for removal in [*self._removals.values()]:
            removal()
        self._reader.close()

    def _begin_page(self) -> PayloadFile:
        number = self._number + 1
        path = self._folder / f"{_NAME}{number:010d}"
        file = self._files.create_page(path)
        self._let_go()
        self._file, self._number, self._end = file, number, 0
        self._page = PayloadFile(path, self._reader)
        self._removals[number] = weakref.finalize(self._page, self._remove, path, number)
        self._sizes[number] = 0
        self.counters.files += 1
        return self._page

    def _let_go(self) -> None:
        """No more is written to the newest page: it goes when the last payload in it does."""
        if self._page is not None:
            self._files.close(self._file)
            self._page = None

    def _remove(self, path: Path, number: int) -> None:
        del self._removals[number]
        self.counters.files -= 1
        self.counters.bytes -= self._sizes.pop(number)
        self._reader.forget(path)
        # Comes at any moment and has nobody to tell; what cannot be removed now goes at the next start.
        with suppress(OSError):
            self._files.remove(path)
