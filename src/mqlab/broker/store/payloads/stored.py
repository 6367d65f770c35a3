"""References to payloads that lie in a file and not in memory."""

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

# A consumer that takes a few messages at a time needs the same payload again: so many stay loaded, unless larger.
_MAX_LOADED: Final = 8
_MAX_LOADED_BYTES: Final = 1024 * 1024


class StoredPayloadError(MqlabError):
    """A payload on disk is not what was written there."""


def checksum(data: Buffer) -> int:
    crc: int = google_crc32c.value(np.frombuffer(data, dtype=np.uint8))
    return crc


class PayloadReader:
    """Reads parts of files through one descriptor, that of the file read last: queues are read in order."""

    def __init__(self, files: Files) -> None:
        self.files = files
        self._path: Path | None = None
        self._file = -1
        self._loaded: deque[weakref.ref[PayloadReference]] = deque()

    def note_loaded(self, reference: "PayloadReference", payload: Payload) -> None:
        if len(payload.data) > _MAX_LOADED_BYTES:
            return
        reference.loaded = payload
        self._loaded.append(weakref.ref(reference))
        if len(self._loaded) > _MAX_LOADED and (oldest := self._loaded.popleft()()) is not None:
            oldest.loaded = None

    def read(self, path: Path, begin: int, size: int) -> bytes:
        if path != self._path:
            # Closing first leaves a descriptor for the new file, also at the limit of descriptors.
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
    """A file with stored payloads. It stays readable, even after its removal, as long as a reference uses it."""

    __slots__ = ("__weakref__", "_file", "_path", "_reader")

    def __init__(self, path: Path, reader: PayloadReader) -> None:
        self._path = path
        self._reader = reader
        self._file = -1

    def read(self, begin: int, size: int) -> bytes:
        if self._file >= 0:
            return self._reader.files.read_at(self._file, size, begin)
        return self._reader.read(self._path, begin, size)

    def note_loaded(self, reference: "PayloadReference", payload: Payload) -> None:
        self._reader.note_loaded(reference, payload)

    def open_before_removal(self) -> bool:
        """Keep the file readable after its removal. False: the process has no descriptor left, so it must stay."""
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
    """Stands for a payload on disk. `size` is that of its data, `form` that of the payload when loaded."""

    __slots__ = ("__weakref__", "_file", "form", "loaded", "rows", "size")

    def __init__(self, file: PayloadFile, size: int, rows: int, form: int) -> None:
        self._file = file
        self.size = size
        self.rows = rows
        self.form = form
        # Set while it is one of those that were loaded last.
        self.loaded: Payload | None = None

    def load(self) -> Payload:
        """Raises StoredPayloadError if it is not what was written, OSError if the disk cannot read it."""
        payload = self.loaded
        if payload is None:
            payload = self._read()
            self._file.note_loaded(self, payload)
        return payload

    @abstractmethod
    def _read(self) -> Payload: ...

    def _read_at(self, begin: int, size: int, crc: int) -> bytes:
        data = self._file.read(begin, size)
        if len(data) != size or google_crc32c.value(data) != crc:
            raise StoredPayloadError(
                f"{self._file}: byte {begin}: a payload of {size} bytes is not what was written there"
            )
        return data

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._file}, {self.size} bytes, {self.rows} rows)"


class StoredPayload(PayloadReference):
    """A payload as it was written."""

    __slots__ = ("_begin", "_crc")

    def __init__(self, file: PayloadFile, begin: int, size: int, rows: int, form: int, crc: int) -> None:
        super().__init__(file, size, rows, form)
        self._begin = begin
        self._crc = crc

    def _read(self) -> Payload:
        return Payload(self._read_at(self._begin, self.size, self._crc), self.rows, self.form)
