"""Payloads that lie in a file and not in memory."""

from pathlib import Path

import google_crc32c
import numpy as np

from mqlab.broker.store.files import Files, is_no_room
from mqlab.wire.bodies import Buffer, Payload


class StoredPayloadError(Exception):
    """A payload that was written to disk cannot be read as it was."""


def checksum(data: Buffer) -> int:
    crc: int = google_crc32c.value(np.frombuffer(data, dtype=np.uint8))
    return crc


class Reader:
    """Reads parts of files through one descriptor, that of the file read last: queues are read in order."""

    def __init__(self, files: Files) -> None:
        self.files = files
        self._path: Path | None = None
        self._file = -1

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


class Home:
    """A file in which stored payloads lie. It can be read as long as one of them is in use, even without a name."""

    __slots__ = ("__weakref__", "_file", "_path", "_reader")

    def __init__(self, path: Path, reader: Reader) -> None:
        self._path = path
        self._reader = reader
        self._file = -1

    def read(self, begin: int, size: int) -> bytes:
        if self._file >= 0:
            return self._reader.files.read_at(self._file, size, begin)
        return self._reader.read(self._path, begin, size)

    def lose_name(self) -> bool:
        """The file is about to be removed. False: there is no descriptor to read it by, so it must stay for now."""
        try:
            self._file = self._reader.files.open_to_read(self._path)
        except OSError as error:
            if is_no_room(error):
                return False
            raise
        self._reader.forget(self._path)
        return True

    def __del__(self) -> None:
        if self._file >= 0:
            self._reader.files.close(self._file)

    def __str__(self) -> str:
        return str(self._path)


class Stored:
    """Stands for a payload on disk. `size` is that of its data."""

    __slots__ = ("_begin", "_crc", "_home", "form", "rows", "size")

    def __init__(self, home: Home, begin: int, size: int, rows: int, form: int, crc: int) -> None:
        self._home = home
        self._begin = begin
        self._crc = crc
        self.size = size
        self.rows = rows
        self.form = form

    def load(self) -> Payload:
        """Raises StoredPayloadError if it is not what was written, OSError if the disk cannot read it."""
        data = self._home.read(self._begin, self.size)
        if len(data) != self.size or google_crc32c.value(data) != self._crc:
            raise StoredPayloadError(
                f"{self._home}: byte {self._begin}: a payload of {self.size} bytes is not what was written there"
            )
        return Payload(data, self.rows, self.form)

    def __repr__(self) -> str:
        return f"Stored({self._home}, {self._begin}, {self.size} bytes, {self.rows} rows)"
