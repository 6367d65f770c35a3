"""Memory that was freed and that the process still holds, because small objects lie between what was freed."""

import ctypes
import os
from pathlib import Path
from typing import Final

_libc = ctypes.CDLL(None)
_trim = getattr(_libc, "malloc_trim", None)
_mallopt = getattr(_libc, "mallopt", None)
# From malloc.h.
_M_MMAP_THRESHOLD: Final = -3
# The size of the buffers into which the broker reads; payloads of this size stay in them.
_LARGE_BLOCK: Final = 64 * 1024
_STATM: Final = Path("/proc/self/statm")
_PAGE_BYTES: Final = os.sysconf("SC_PAGE_SIZE")
# Free memory is returned when the process has grown by this share of the memory limit, and by no more than a number of
# bytes: returning them takes some milliseconds, in which the broker does nothing else.
_GROWTH_SHARE: Final = 16
_MOST_GROWTH: Final = 16 * 1024 * 1024
# Above this share of the memory limit, it is returned at every check.
_LARGE_SHARE: Final = 2


def release_free_memory() -> None:
    """Return free pages of the heap to the operating system, where the C library can."""
    if _trim is not None:
        _trim(0)


def keep_large_blocks_out_of_the_heap() -> None:
    """Let the C library give large blocks pages of their own, which it returns when they are freed.

    By default it raises the limit of what is large to 32 MiB, as soon as such a block is freed.
    """
    if _mallopt is not None:
        _mallopt(_M_MMAP_THRESHOLD, _LARGE_BLOCK)


def resident_bytes() -> int:
    return int(_STATM.read_text().split()[1]) * _PAGE_BYTES


class HeapTrimmer:
    """Keeps the memory of the process near what the broker counts against its memory limit.

    Clients that come and go leave holes in the heap. Without this, half of the resident memory was free under attack,
    and the process grew to several times its memory limit within an hour (tests/torture/hostile.py).
    """

    def __init__(self, memory_limit: int) -> None:
        self._growth = min(memory_limit // _GROWTH_SHARE, _MOST_GROWTH)
        self._first = self._least = resident_bytes()
        self._large = self._least + memory_limit // _LARGE_SHARE

    def check(self) -> int:
        """Return by how many bytes the process has grown since its start."""
        resident = resident_bytes()
        if resident > self._large or resident > self._least + self._growth:
            release_free_memory()
            # The rest is in use: the process may keep it, and grow from there.
            self._least = resident = resident_bytes()
        else:
            self._least = min(self._least, resident)
        return resident - self._first
