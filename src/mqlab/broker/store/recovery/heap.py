"""Free memory that the process still holds, because small objects lie between what was freed."""

import ctypes

_trim = getattr(ctypes.CDLL(None), "malloc_trim", None)


def release_free_memory() -> None:
    """Return free pages of the heap to the operating system, where the C library can."""
    if _trim is not None:
        _trim(0)
