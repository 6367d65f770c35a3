"""Page files: payloads that are paged out of memory. They are not needed after the broker ends, so none is synced."""

import weakref
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from mqlab.broker.store.files.layer import Files
from mqlab.broker.store.payloads.stored import PayloadFile, PayloadReader, StoredPayload, StoredPayloadError, checksum
from mqlab.wire.native.bodies import Payload

__all__ = ["PAGE_SIZE", "PageCounters", "PageFiles", "StoredPayload", "StoredPayloadError"]

# A page file goes when nothing in it is needed: small enough that a few payloads do not keep much of the disk, large
# enough that creating and removing files costs little beside writing them.
PAGE_SIZE: Final = 16 * 1024 * 1024
_PREFIX: Final = "page-"


@dataclass(slots=True)
class PageCounters:
    # Page files that exist now, and the bytes in them.
    files: int = 0
    bytes: int = 0
    # Bytes ever written.
    written: int = 0


class PageFiles:
    """Keeps payloads in files of a folder. A file is removed when the last reference to a payload in it is gone.

    Length and checksum of a payload are only in its reference.
    """

    def __init__(self, folder: Path, files: Files) -> None:
        """Create the folder if necessary, and remove the page files that an earlier broker has left there."""
        self.counters = PageCounters()
        self._folder = folder
        self._files = files
        self._reader = PayloadReader(files)
        self._number = 0
        # The newest page file: its descriptor, and the bytes in it.
        self._page: PayloadFile | None = None
        self._file = -1
        self._end = 0
        self._sizes: dict[int, int] = {}
        self._removals: dict[int, weakref.finalize[..., PayloadFile]] = {}
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        for path in folder.glob(_PREFIX + "[0-9]" * 10):
            files.remove(path)

    def write(self, payload: Payload) -> StoredPayload:
        """Raises OSError if the disk cannot take it: then nothing has changed."""
        data = payload.data
        page = self._page
        if page is None or (self._end and self._end + len(data) > PAGE_SIZE):
            page = self._begin_page()
        # The next write overwrites what a failed one leaves beyond the end.
        self._files.write_at(self._file, data, self._end)
        stored = StoredPayload(page, self._end, len(data), payload.rows, payload.form, checksum(data))
        self._end += len(data)
        self._sizes[self._number] = self._end
        self.counters.bytes += len(data)
        self.counters.written += len(data)
        return stored

    def close(self) -> None:
        """Remove all page files. Stored payloads cannot be loaded any more."""
        self._end_page()
        for removal in [*self._removals.values()]:
            removal()
        self._reader.close()

    def _begin_page(self) -> PayloadFile:
        counters = self.counters
        # In this order: a garbage collection may remove a page file until the sum is made, and not after it.
        assert sum(self._sizes.values()) == counters.bytes, "the counter of page bytes is wrong"
        assert len(self._sizes) == counters.files, "the counter of page files is wrong"
        number = self._number + 1
        path = self._folder / f"{_PREFIX}{number:010d}"
        file = self._files.create_page(path)
        self._end_page()
        self._file, self._number, self._end = file, number, 0
        self._page = PayloadFile(path, self._reader)
        self._removals[number] = weakref.finalize(self._page, self._remove, path, number)
        self._sizes[number] = 0
        counters.files += 1
        return self._page

    def _end_page(self) -> None:
        """Write no more to the newest page file: it goes when the last payload in it does."""
        if self._page is not None:
            self._files.close(self._file)
            self._page = None

    def _remove(self, path: Path, number: int) -> None:
        del self._removals[number]
        self.counters.files -= 1
        self.counters.bytes -= self._sizes.pop(number)
        self._reader.forget(path)
        # This runs at any moment and has no caller to raise to; the next start removes what is left.
        with suppress(OSError):
            self._files.remove(path)
