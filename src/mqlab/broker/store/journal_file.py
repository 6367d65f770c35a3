"""The journal file that is being written."""

from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from contextlib import suppress
from pathlib import Path
from typing import Final

from mqlab.broker.store.files.layer import Files, is_disk_full
from mqlab.broker.store.segments import segment_path
from mqlab.errors import MqlabError

# Reserved bytes where the file system cannot reserve space.
_UNKNOWN: Final = 1 << 62


class DiskFullError(MqlabError):
    """The disk is full, or there are no more descriptors; nothing has changed."""


class JournalFile:
    """Created by `begin`. All writes go to its end; `size` counts the bytes of records."""

    def __init__(self, path: Path, number: int, files: Files, file: int) -> None:
        self.number = number
        self.size = 0
        self._path = path
        self._files = files
        self._file = file
        # More descriptors of the file, for syncs that overlap: each reports an error of its own.
        self._more: list[int] = []
        self._end = 0
        # Space is reserved up to this byte.
        self._reserved = 0

    @classmethod
    def begin(cls, folder: Path, files: Files, number: int, header: bytes, reserves: Sequence[int]) -> "JournalFile":
        """Create a file with its header on disk, and space for records: the first of `reserves` that fits.

        Raises DiskFullError if none fits, OSError for any other failure.
        """
        path = segment_path(folder, number)
        try:
            created = cls(path, number, files, files.create(path))
        except OSError as error:
            raise _as_disk_full(error) from error
        try:
            created._reserve_first(len(header), reserves)
            files.append(created._file, header)
        except OSError as error:
            files.close(created._file)
            files.remove(path)
            # The journal continues in the file before, which must not have a successor after a crash.
            files.sync_folder(folder)
            raise _as_disk_full(error) from error
        created._end = len(header)
        # Before any record is written: an unreadable header then means damage, never a torn tail.
        created.sync()
        files.sync_folder(folder)
        return created

    def _reserve_first(self, header_size: int, reserves: Sequence[int]) -> None:
        for reserve in reserves:
            try:
                self._reserve(header_size + reserve)
                return
            except OSError as error:
                if not is_disk_full(error) or reserve == reserves[-1]:
                    raise

    def _reserve(self, size: int) -> None:
        self._reserved = size if self._files.reserve(self._file, size) else _UNKNOWN

    @property
    def room(self) -> int:
        """Bytes that can be written for certain."""
        return self._reserved - self._end

    def grow(self, room: int) -> None:
        """Reserve space for so many bytes. Raises DiskFullError, and then nothing has changed."""
        if self.room < room:
            try:
                self._reserve(self._end + room)
            except OSError as error:
                raise _as_disk_full(error) from error

    def write(self, data: bytes) -> None:
        """Raises DiskFullError, and then nothing of it is in the file; OSError for any other failure."""
        size = len(data)
        if self._end + size > self._reserved:
            self.grow(size)
        try:
            self._files.append(self._file, data)
        except OSError as error:
            if is_disk_full(error):
                self._files.cut_back(self._file, self._end)
                self._reserved = self._end
            raise _as_disk_full(error) from error
        self._end += size
        self.size += size
        if self._end > self._reserved:
            self._reserved = self._end

    @property
    def length(self) -> int:
        """Bytes of the file, with reserved space."""
        return self._files.length(self._file)

    def sync(self) -> None:
        self._files.sync(self._file)

    def descriptor(self, used: AbstractSet[int]) -> int | None:
        """A descriptor that no sync in progress uses; None: wait until one of them has ended."""
        if not used:
            return self._file
        for file in (self._file, *self._more):
            if file not in used:
                return file
        try:
            self._more.append(self._files.reopen(self._path))
        except OSError as error:
            if is_disk_full(error):
                return None
            raise
        return self._more[-1]

    def give_back(self) -> None:
        """Release the reserved space that is not used."""
        self._files.give_back(self._file, self._end)
        self._reserved = min(self._reserved, self._end)

    def close(self, *, in_order: bool) -> None:
        if in_order:
            assert self.length >= self._end, f"{self._path} is shorter than what was written to it"
            # A failure only wastes space: the file is complete without this.
            with suppress(OSError):
                self.give_back()
        for file in (self._file, *self._more):
            self._files.close(file)


def _as_disk_full(error: OSError) -> Exception:
    return DiskFullError(error.strerror) if is_disk_full(error) else error
