"""The file layer: the calls by which the broker touches a disk, and variants of it."""

import ctypes
import errno
import os
import time
from pathlib import Path
from threading import Lock
from typing import Final, TextIO

from mqlab.wire.native.bodies import Buffer

# Errors that may pass, unlike a broken disk: no space, by the disk or by a limit, and no descriptors.
_DISK_FULL: Final = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EMFILE, errno.ENFILE})


# The system or the file system cannot reserve space: only a write shows whether there is any.
_UNSUPPORTED: Final = frozenset({errno.EOPNOTSUPP, errno.ENOSYS, errno.EINVAL})

# More than a number of seconds has.
_DELAY_BYTES: Final = 64

_fallocate = getattr(ctypes.CDLL(None, use_errno=True), "fallocate", None)
if _fallocate is not None:
    _fallocate.argtypes = (ctypes.c_int, ctypes.c_int, ctypes.c_int64, ctypes.c_int64)


def preallocate(file: int, size: int) -> bool:
    """Extend the file to this size with zeros, so that a later write there changes only its content.

    Raises OSError if there is not so much space. False: space cannot be reserved here, and nothing has changed;
    `os.posix_fallocate` would write zeros instead.
    """
    if _fallocate is None:
        return False
    while _fallocate(file, 0, 0, size):
        error = ctypes.get_errno()
        if error in _UNSUPPORTED:
            return False
        if error != errno.EINTR:
            raise OSError(error, os.strerror(error))
    return True


def is_disk_full(error: OSError) -> bool:
    return error.errno in _DISK_FULL


class Files:
    """The real disk. Each call is complete when it returns, or raises OSError."""

    def create(self, path: Path) -> int:
        """Create a file for `append`; there must be none of that name."""
        return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)

    def reopen(self, path: Path) -> int:
        """Another descriptor of a file."""
        return os.open(path, os.O_WRONLY)

    def append(self, file: int, data: bytes) -> None:
        """Append all of the data. After an OSError any part of it may be there: see `cut_back`."""
        view = memoryview(data)
        while view:
            view = view[os.write(file, view) :]

    def cut_back(self, file: int, size: int) -> None:
        """Remove what a failed append has left beyond `size`; the next append continues there."""
        os.ftruncate(file, size)
        os.lseek(file, size, os.SEEK_SET)

    def reserve(self, file: int, size: int) -> bool:
        """Reserve space for so many bytes of a file: they are zeros until something is appended.

        False: the file system cannot reserve space, so only a write shows whether there is any.
        """
        return preallocate(file, size)

    def give_back(self, file: int, size: int) -> None:
        """Release the space that was reserved beyond `size`."""
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
        """Read so many bytes, or fewer where the file ends."""
        return os.pread(file, size, offset)

    def create_page(self, path: Path) -> int:
        """Create a file for `write_at` that is not needed after this process."""
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
        """As `give_back`, for a file that an earlier broker has left."""
        file = os.open(path, os.O_WRONLY)
        try:
            self.give_back(file, size)
        finally:
            os.close(file)

    def sync_path(self, path: Path) -> None:
        """Sync a file that another process may have written."""
        file = os.open(path, os.O_RDONLY)
        try:
            os.fsync(file)
        finally:
            os.close(file)

    def remove(self, path: Path) -> None:
        path.unlink()

    def overwrite(self, file: int, data: bytes, offset: int) -> None:
        """Write a part of a file whose space is reserved already, or is reserved by this."""
        Files.write_at(self, file, data, offset)

    def length(self, file: int) -> int:
        return os.fstat(file).st_size

    def sync_folder(self, path: Path) -> None:
        """Make the names in a folder durable, new ones and removed ones."""
        file = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(file)
        finally:
            os.close(file)


class RotatingDisk(Files):
    """Syncs complete only at marks, as on a disk whose platter must turn to the right position.

    The data is really synced; only the wait is simulated.
    """

    def __init__(self, marks_a_second: int) -> None:
        self._turn_ns = 1_000_000_000 // marks_a_second

    def sync(self, file: int) -> None:
        requested_ns = time.monotonic_ns()
        super().sync(file)
        mark_ns = (requested_ns // self._turn_ns + 1) * self._turn_ns
        while (left_ns := mark_ns - time.monotonic_ns()) > 0:
            time.sleep(left_ns / 1e9)


class DelayedSyncs(Files):
    """Syncs of another file layer take longer, by the seconds that a file holds at that moment."""

    def __init__(self, files: Files, delay: Path) -> None:
        self._files = files
        self._delay = os.open(delay, os.O_RDONLY)

    def sync(self, file: int) -> None:
        self._files.sync(file)
        # Empty while another process writes it.
        time.sleep(float(os.pread(self._delay, _DELAY_BYTES, 0) or 0))


class TracedFiles(Files):
    """Writes each append and sync of another file layer to a trace, with its times (ns), a line for each call."""

    def __init__(self, files: Files, trace: TextIO) -> None:
        self._files = files
        self._trace = trace
        self._names: dict[int, str] = {}
        self._ends: dict[str, int] = {}
        # The broker's loop appends, its worker threads sync.
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
        self._write_line("append", file, begin, offset, len(data))

    def sync(self, file: int) -> None:
        begin, covered = time.monotonic_ns(), self._ends[self._names[file]]
        self._files.sync(file)
        self._write_line("sync", file, begin, 0, covered)

    def _write_line(self, call: str, file: int, begin: int, offset: int, size: int) -> None:
        end = time.monotonic_ns()
        with self._lock:
            self._trace.write(f"{call} {self._names[file]} {begin} {end} {offset} {size}\n")
            self._trace.flush()
