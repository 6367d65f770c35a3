"""Memory that was freed and that the process still holds, because small objects lie between what was freed."""

import ctypes
import os
from pathlib import Path
from typing import Final

_trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
_STATM: Final = Path("/proc/self/statm")
_PAGE_BYTES: Final = os.sysconf("SC_PAGE_SIZE")
# Free memory is returned when the process has grown by this share of the memory limit, and by no more than a number of
# bytes: returning them takes some milliseconds, in which the broker does nothing else.
_GROWTH_SHARE: Final = 16
_MOST_GROWTH: Final = 16 * 1024 * 1024


def release_free_memory() -> None:
    """Return free pages of the heap to the operating system, where the C library can."""
    if _trim is not None:
        _trim(0)


def resident_bytes() -> int:
    return int(_STATM.read_text().split()[1]) * _PAGE_BYTES


class HeapTrimmer:
    """Keeps the memory of the process near what the broker counts against its memory limit.

    Clients that come and go leave holes in the heap. Without this, half of the resident memory was free under attack,
    and the process grew to 135 % of its memory limit (tests/torture/hostile.py --seconds 3600).
    """

    def __init__(self, memory_limit: int) -> None:
        self._growth = min(memory_limit // _GROWTH_SHARE, _MOST_GROWTH)
        self._least = resident_bytes()

    def check(self) -> None:
        resident = resident_bytes()
        if resident > self._least + self._growth:
            release_free_memory()
            # The rest is in use. The broker checks again when the process has grown.
            self._least = resident_bytes()
        else:
            self._least = min(self._least, resident)
