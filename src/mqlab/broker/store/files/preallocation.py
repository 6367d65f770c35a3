"""Disk space reserved ahead of the data, so that a write there changes only the content of a file.

`os.posix_fallocate` is not used: where a file system cannot reserve space, it fills the file with zeros instead.
"""

import ctypes
import errno
import os
from typing import Final

# The system or the file system cannot reserve space: only a write shows whether there is any.
_UNSUPPORTED: Final = frozenset({errno.EOPNOTSUPP, errno.ENOSYS, errno.EINVAL})

_fallocate = getattr(ctypes.CDLL(None, use_errno=True), "fallocate", None)
if _fallocate is not None:
    _fallocate.argtypes = (ctypes.c_int, ctypes.c_int, ctypes.c_int64, ctypes.c_int64)


def reserve(file: int, size: int) -> bool:
    """Extend the file to this size with zeros. Raises OSError if there is not so much space.

    False: space cannot be reserved here, and nothing has changed.
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
