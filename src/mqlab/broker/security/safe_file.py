"""Changing a file that must never be seen half written, nor by others, nor by two changers at once."""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path


def write_whole(path: Path, data: bytes) -> None:
    """The file holds the old bytes or the new ones, whatever breaks, and only its owner can read it."""
    # The name may be a link to where the file really is; that is what must change.
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
def sole_changer(path: Path) -> Iterator[None]:
    """Waits until nobody else is in here for a file of the same folder."""
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
