"""The file layer: the few calls by which the broker touches a disk, and two ways to stand in for it."""

import errno
import os
import time
from pathlib import Path
from threading import Lock
from typing import Final, TextIO

from mqlab.broker.store.files.preallocation import reserve
from mqlab.wire.native.bodies import Buffer

# What a caller can wait out, unlike a broken disk: no space, by the disk or by a limit, and no descriptors.
_NO_ROOM: Final = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EMFILE, errno.ENFILE})


def is_disk_full(error: OSError) -> bool:
    return error.errno in _NO_ROOM


class Files:
    """The disk as it is. Each call is done when it returns, or raises OSError."""

    def create(self, path: Path) -> int:
        """A new file, in which one `append` follows the other; there must be none of that name."""
        return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)

    def reopen(self, path: Path) -> int:
        """Another descriptor of a file, for syncs."""
        return os.open(path, os.O_WRONLY)

    def append(self, file: int, data: bytes) -> None:
        """All of it, or an error after any part of it: see `cut_back`."""
        view = memoryview(data)
        while view:
            view = view[os.write(file, view) :]

    def cut_back(self, file: int, size: int) -> None:
        """Take away what a failed append has left behind `size`: the next one goes on from there."""
        os.ftruncate(file, size)
        os.lseek(file, size, os.SEEK_SET)

    def reserve(self, file: int, size: int) -> bool:
        """Take the space for so many bytes of a file: they are zeros until something is appended.

        False: the file system cannot reserve space; whether there is any is found out by a write.
        """
        return reserve(file, size)

    def give_back(self, file: int, size: int) -> None:
        """What was reserved behind `size` and not used is free again."""
        os.ftruncate(file, size)

    def sync(self, file: int) -> None:
        os.fdatasync(file)

    def close(self, file: int) -> None:
        os.close(file)

    def read(self, path: Path) -> bytes:
        return path.read_bytes()

    def open_to_read(self, path: Path) -> int:
        return os.open(path, os.O_RDONLY)

    def read_at(self, file: int, size: int, offset: int) -> bytes:
        """So many bytes, or fewer where the file ends."""
        return os.pread(file, size, offset)

    def create_page(self, path: Path) -> int:
        """A new file for `write_at`, which nobody needs after this process."""
        return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)

    def write_at(self, file: int, data: Buffer, offset: int) -> None:
        view = memoryview(data)
        while view:
            written = os.pwrite(file, view, offset)
            view, offset = view[written:], offset + written

    def truncate(self, path: Path, size: int) -> None:
        file = os.open(path, os.O_WRONLY)
        try:
            os.ftruncate(file, size)
            os.fsync(file)
        finally:
            os.close(file)

    def trim(self, path: Path, size: int) -> None:
        """As `give_back`, for a file that a broker before this one has left."""
        file = os.open(path, os.O_WRONLY)
        try:
            self.give_back(file, size)
        finally:
            os.close(file)

    def sync_path(self, path: Path) -> None:
        """What a file holds, by whomever it was written, is on disk."""
        file = os.open(path, os.O_RDONLY)
        try:
            os.fsync(file)
        finally:
            os.close(file)

    def remove(self, path: Path) -> None:
        path.unlink()

    def overwrite(self, file: int, data: bytes, offset: int) -> None:
        """A part of a file whose space is taken already, or is taken now."""
        Files.write_at(self, file, data, offset)

    def length(self, file: int) -> int:
        return os.fstat(file).st_size

    def sync_folder(self, path: Path) -> None:
        """Makes the names in a folder survive, new ones and removed ones."""
        file = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(file)
        finally:
            os.close(file)


class RotatingDisk(Files):
    """Syncs complete only at marks, as on a disk where the platter must come round.

    The data is synced for real as well: what is imitated is the wait.
    """

    def __init__(self, marks_a_second: int) -> None:
        self._turn = 1_000_000_000 // marks_a_second

    def sync(self, file: int) -> None:
        asked = time.monotonic_ns()
        super().sync(file)
        mark = (asked // self._turn + 1) * self._turn
        while (left := mark - time.monotonic_ns()) > 0:
            time.sleep(left / 1e9)


class TracedFiles(Files):
    """Notes each append and sync of another file layer with its times (ns), one line a call."""

    def __init__(self, files: Files, trace: TextIO) -> None:
        self._files = files
        self._trace = trace
        self._names: dict[int, str] = {}
        self._ends: dict[str, int] = {}
        # Appends come from the broker's loop, syncs from its worker.
        self._lock = Lock()

    def create(self, path: Path) -> int:
        file = self._files.create(path)
        self._names[file], self._ends[path.name] = path.name, 0
        return file

    def reopen(self, path: Path) -> int:
        file = self._files.reopen(path)
        self._names[file] = path.name
        self._ends.setdefault(path.name, 0)
        return file

    def append(self, file: int, data: bytes) -> None:
        begin = time.monotonic_ns()
        self._files.append(file, data)
        offset = self._ends[self._names[file]]
        self._ends[self._names[file]] += len(data)
        self._note("append", file, begin, offset, len(data))

    def sync(self, file: int) -> None:
        begin, covered = time.monotonic_ns(), self._ends[self._names[file]]
        self._files.sync(file)
        self._note("sync", file, begin, 0, covered)

    def _note(self, call: str, file: int, begin: int, offset: int, size: int) -> None:
        end = time.monotonic_ns()
        with self._lock:
            self._trace.write(f"{call} {self._names[file]} {begin} {end} {offset} {size}\n")
            self._trace.flush()
