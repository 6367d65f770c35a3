"""Memory that is free and still with this process, because small objects lie between what was freed."""

import ctypes

_trim = getattr(ctypes.CDLL(None), "malloc_trim", None)


def give_back() -> None:
    """To the operating system, where the C library can: pages in the midst of the heap too, which it does not look
    for by itself."""
    if _trim is not None:
        _trim(0)
