"""The journal file that is being written."""

from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from contextlib import suppress
from pathlib import Path
from typing import Final

from mqlab.broker.store.files.layer import Files, is_disk_full
from mqlab.broker.store.segments import segment_path
from mqlab.errors import MqlabError

# Where space cannot be reserved.
_UNKNOWN: Final = 1 << 62


class DiskFullError(MqlabError):
    """The disk is full, or there are no more descriptors; nothing has changed."""


class JournalFile:
    """Made by `begin`. All that is written is at its end; `size` counts the bytes of records."""

    def __init__(self, path: Path, number: int, files: Files, file: int) -> None:
        self.number = number
        self.size = 0
        self._path = path
        self._files = files
        self._file = file
        # Descriptors of the same file for syncs that overlap: each learns of an error for itself.
        self._more: list[int] = []
        self._end = 0
        # As far as space was taken for it.
        self._reserved = 0

    @classmethod
    def begin(cls, folder: Path, files: Files, number: int, head: bytes, reserves: Sequence[int]) -> "JournalFile":
        """A new file with its head, all of it on disk, and room for records: the first of `reserves` that can be had.

        Raises DiskFullError where none can be had, and OSError where something is wrong.
        """
        path = segment_path(folder, number)
        try:
            made = cls(path, number, files, files.create(path))
        except OSError as error:
            raise _as_no_room(error) from error
        try:
            made._take_space(len(head), reserves)
            files.append(made._file, head)
        except OSError as error:
            files.close(made._file)
            files.remove(path)
            # The file before goes on: it must not be found with one after it.
            files.sync_folder(folder)
            raise _as_no_room(error) from error
        made._end = len(head)
        # Before any record: a head that cannot be read then means damage, never a torn tail.
        made.sync()
        files.sync_folder(folder)
        return made

    def _take_space(self, head: int, reserves: Sequence[int]) -> None:
        for reserve in reserves:
            try:
                self._reserve(head + reserve)
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
        """Take space for so many bytes. Raises DiskFullError, and then nothing has changed."""
        if self.room < room:
            try:
                self._reserve(self._end + room)
            except OSError as error:
                raise _as_no_room(error) from error

    def write(self, data: bytes) -> None:
        """Raises DiskFullError, and then nothing of it is there; OSError where something is wrong."""
        size = len(data)
        if self._end + size > self._reserved:
            self.grow(size)
        try:
            self._files.append(self._file, data)
        except OSError as error:
            if is_disk_full(error):
                self._files.cut_back(self._file, self._end)
                self._reserved = self._end
            raise _as_no_room(error) from error
        self._end += size
        self.size += size
        if self._end > self._reserved:
            self._reserved = self._end

    @property
    def length(self) -> int:
        """Bytes of the file, with the space that was taken for it."""
        return self._files.length(self._file)

    def sync(self) -> None:
        self._files.sync(self._file)

    def descriptor(self, used: AbstractSet[int]) -> int | None:
        """One for a sync, other than those used by syncs under way; None: wait for the end of one of them."""
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
        """The space that was taken and not used is free again."""
        self._files.give_back(self._file, self._end)
        self._reserved = min(self._reserved, self._end)

    def close(self, *, in_order: bool) -> None:
        if in_order:
            # It only makes room for others: the file is whole without it.
            with suppress(OSError):
                self.give_back()
        for file in (self._file, *self._more):
            self._files.close(file)


def _as_no_room(error: OSError) -> Exception:
    return DiskFullError(error.strerror) if is_disk_full(error) else error
