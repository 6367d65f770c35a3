"""Payloads that lie in a file and not in memory."""

import weakref
from abc import ABC, abstractmethod
from collections import deque
from pathlib import Path
from typing import Final

import google_crc32c
import numpy as np

from mqlab.broker.store.files.layer import Files, is_disk_full
from mqlab.errors import MqlabError
from mqlab.wire.native.bodies import Buffer, Payload

# Who takes a few messages at a time comes back for the rest of a payload: so many are kept, if they are not too large.
_RECENT: Final = 8
_LARGE: Final = 1024 * 1024


class StoredPayloadError(MqlabError):
    """A payload that was written to disk cannot be read as it was."""


def checksum(data: Buffer) -> int:
    crc: int = google_crc32c.value(np.frombuffer(data, dtype=np.uint8))
    return crc


class PayloadReader:
    """Reads parts of files through one descriptor, that of the file read last: queues are read in order."""

    def __init__(self, files: Files) -> None:
        self.files = files
        self._path: Path | None = None
        self._file = -1
        self._recent: deque[weakref.ref[PayloadReference]] = deque()

    def note_loaded(self, one: "PayloadReference", payload: Payload) -> None:
        if len(payload.data) > _LARGE:
            return
        one.loaded = payload
        self._recent.append(weakref.ref(one))
        if len(self._recent) > _RECENT and (oldest := self._recent.popleft()()) is not None:
            oldest.loaded = None

    def read(self, path: Path, begin: int, size: int) -> bytes:
        if path != self._path:
            # The old one is closed first: at the limit of descriptors there is one for the new.
            self.close()
            self._file = self.files.open_to_read(path)
            self._path = path
        return self.files.read_at(self._file, size, begin)

    def forget(self, path: Path) -> None:
        if path == self._path:
            self.close()

    def close(self) -> None:
        if self._path is not None:
            self._path = None
            self.files.close(self._file)

    def __del__(self) -> None:
        self.close()


class PayloadFile:
    """A file in which stored payloads lie. It can be read as long as one of them is in use, even without a name."""

    __slots__ = ("__weakref__", "_file", "_path", "_reader")

    def __init__(self, path: Path, reader: PayloadReader) -> None:
        self._path = path
        self._reader = reader
        self._file = -1

    def read(self, begin: int, size: int) -> bytes:
        if self._file >= 0:
            return self._reader.files.read_at(self._file, size, begin)
        return self._reader.read(self._path, begin, size)

    def note_loaded(self, one: "PayloadReference", payload: Payload) -> None:
        self._reader.note_loaded(one, payload)

    def open_before_removal(self) -> bool:
        """The file is about to be removed. False: there is no descriptor to read it by, so it must stay for now."""
        try:
            self._file = self._reader.files.open_to_read(self._path)
        except OSError as error:
            if is_disk_full(error):
                return False
            raise
        self._reader.forget(self._path)
        return True

    def __del__(self) -> None:
        if self._file >= 0:
            self._reader.files.close(self._file)

    def __str__(self) -> str:
        return str(self._path)


class PayloadReference(ABC):
    """Stands for a payload. `size` is that of its data, `form` that of what is loaded."""

    __slots__ = ("__weakref__", "_file_of_payload", "form", "loaded", "rows", "size")

    def __init__(self, home: PayloadFile, size: int, rows: int, form: int) -> None:
        self._file_of_payload = home
        self.size = size
        self.rows = rows
        self.form = form
        # As long as it is one of those used last.
        self.loaded: Payload | None = None

    def load(self) -> Payload:
        """Raises StoredPayloadError if it is not what was written, OSError if the disk cannot read it."""
        payload = self.loaded
        if payload is None:
            payload = self._read()
            self._file_of_payload.note_loaded(self, payload)
        return payload

    @abstractmethod
    def _read(self) -> Payload: ...

    def _read_at(self, begin: int, size: int, crc: int) -> bytes:
        data = self._file_of_payload.read(begin, size)
        if len(data) != size or google_crc32c.value(data) != crc:
            raise StoredPayloadError(
                f"{self._file_of_payload}: byte {begin}: a payload of {size} bytes is not what was written there"
            )
        return data

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._file_of_payload}, {self.size} bytes, {self.rows} rows)"


class StoredPayload(PayloadReference):
    """A payload as it was written."""

    __slots__ = ("_begin", "_crc")

    def __init__(self, home: PayloadFile, begin: int, size: int, rows: int, form: int, crc: int) -> None:
        super().__init__(home, size, rows, form)
        self._begin = begin
        self._crc = crc

    def _read(self) -> Payload:
        return Payload(self._read_at(self._begin, self.size, self._crc), self.rows, self.form)
