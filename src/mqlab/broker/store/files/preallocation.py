"""Disk space taken ahead of the data, so that what is written there changes nothing of a file but its content.

The standard library's way to ask for it would write the space full where a file system cannot reserve it.
"""

import ctypes
import errno
import os
from typing import Final

# Not here, or not on this file system: then a write finds out whether there is space.
_CANNOT: Final = frozenset({errno.EOPNOTSUPP, errno.ENOSYS, errno.EINVAL})

_fallocate = getattr(ctypes.CDLL(None, use_errno=True), "fallocate", None)
if _fallocate is not None:
    _fallocate.argtypes = (ctypes.c_int, ctypes.c_int, ctypes.c_int64, ctypes.c_int64)


def reserve(file: int, size: int) -> bool:
    """The file is that long then, with zeros where nothing is. Raises OSError if there is not so much space.

    False: space cannot be reserved here, and nothing has changed.
    """
    if _fallocate is None:
        return False
    while _fallocate(file, 0, 0, size):
        error = ctypes.get_errno()
        if error in _CANNOT:
            return False
        if error != errno.EINTR:
            raise OSError(error, os.strerror(error))
    return True
