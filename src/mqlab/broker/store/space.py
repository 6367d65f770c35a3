"""Disk space taken ahead of the data, which the standard library cannot ask for without making the file longer."""

import ctypes
import errno
import os
from typing import Final

_KEEP_SIZE: Final = 1
# Not here, or not on this file system: then a write finds out whether there is space.
_CANNOT: Final = frozenset({errno.EOPNOTSUPP, errno.ENOSYS, errno.EINVAL})

_fallocate = getattr(ctypes.CDLL(None, use_errno=True), "fallocate", None)
if _fallocate is not None:
    _fallocate.argtypes = (ctypes.c_int, ctypes.c_int, ctypes.c_int64, ctypes.c_int64)


def reserve(file: int, size: int) -> None:
    """Raises OSError if there is not so much space."""
    if _fallocate is None:
        return
    while _fallocate(file, _KEEP_SIZE, 0, size):
        error = ctypes.get_errno()
        if error in _CANNOT:
            return
        if error != errno.EINTR:
            raise OSError(error, os.strerror(error))
