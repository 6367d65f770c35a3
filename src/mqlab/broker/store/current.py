"""The journal file that is being written."""

from collections.abc import Set as AbstractSet
from contextlib import suppress
from pathlib import Path

from mqlab.broker.store.files import Files, is_no_room
from mqlab.broker.store.segments import path_of


class NoRoomError(Exception):
    """The disk is full, or there are no more descriptors; nothing has changed."""


class CurrentFile:
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

    @classmethod
    def begin(cls, folder: Path, files: Files, number: int, head: bytes, reserve: int) -> "CurrentFile":
        """A new file with its head, all of it on disk, and room for `reserve` bytes of records.

        Raises NoRoomError where that cannot be had, and OSError where something is wrong.
        """
        path = path_of(folder, number)
        try:
            made = cls(path, number, files, files.create(path))
        except OSError as error:
            raise _as_no_room(error) from error
        try:
            if reserve:
                files.reserve(made._file, len(head) + reserve)
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

    def write(self, data: bytes) -> None:
        """Raises NoRoomError, and then nothing of it is there; OSError where something is wrong."""
        try:
            self._files.append(self._file, data)
        except OSError as error:
            if is_no_room(error):
                self._files.cut_back(self._file, self._end)
            raise _as_no_room(error) from error
        self._end += len(data)
        self.size += len(data)

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
            if is_no_room(error):
                return None
            raise
        return self._more[-1]

    def close(self, *, in_order: bool) -> None:
        if in_order:
            # It only makes room for others: the file is whole without it.
            with suppress(OSError):
                self._files.give_back(self._file, self._end)
        for file in (self._file, *self._more):
            self._files.close(file)


def _as_no_room(error: OSError) -> Exception:
    return NoRoomError(error.strerror) if is_no_room(error) else error
