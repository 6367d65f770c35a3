"""Changes a file atomically, readable by its owner only, one process at a time."""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path


def write_atomically(path: Path, data: bytes) -> None:
    """After any crash the file holds the old bytes or the new ones. Only its owner can read it."""
    # The path may be a link: the file that it points to must change.
    path = path.resolve()
    temporary = path.with_name(f".{path.name}.{os.urandom(8).hex()}")
    file = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with open(file, "wb") as stream:
            os.fchmod(stream.fileno(), 0o600)
            stream.write(data)
            stream.flush()
            os.fsync(stream.fileno())
        temporary.replace(path)
    except BaseException:
        with suppress(OSError):
            temporary.unlink()
        raise
    with _folder(path.parent) as folder:
        os.fsync(folder)


@contextmanager
def exclusive_lock(path: Path) -> Iterator[None]:
    """Wait until no other process holds the lock of the same folder."""
    with _folder(path.resolve().parent) as folder:
        fcntl.flock(folder, fcntl.LOCK_EX)
        yield


@contextmanager
def _folder(path: Path) -> Iterator[int]:
    file = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        yield file
    finally:
        os.close(file)
