"""The one way in which mqlab reads an input file: a regular file of bounded size, and nothing else.

A FIFO would block the reader, and a device such as /dev/zero never ends.
"""

import errno
import os
import stat
from pathlib import Path
from typing import BinaryIO

# A FIFO opens at once, and a terminal does not become the controlling one.
_FLAGS = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY


def open_regular(path: Path) -> BinaryIO:
    """Open a regular file. Raises OSError, with the reason in `strerror`, also for every other kind of file."""
    # Before the file is opened: opening a device may already have an effect.
    _check_kind(path, os.stat(path).st_mode)
    file = os.fdopen(os.open(path, _FLAGS), "rb")
    try:
        _check_kind(path, os.fstat(file.fileno()).st_mode)
    except BaseException:
        file.close()
        raise
    return file


def read_regular(path: Path, limit_bytes: int) -> bytes:
    """The content of a regular file. Raises OSError as `open_regular` does, and for a file above the limit."""
    with open_regular(path) as file:
        data = file.read(limit_bytes + 1)
    if len(data) > limit_bytes:
        raise OSError(errno.EFBIG, f"is longer than {limit_bytes} bytes", str(path))
    return data


def _check_kind(path: Path, mode: int) -> None:
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    if not stat.S_ISREG(mode):
        raise OSError(errno.EINVAL, "is not a regular file", str(path))
