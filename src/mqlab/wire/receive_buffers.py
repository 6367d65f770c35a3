"""Memory for what is received, used again as soon as nobody looks at it.

Fresh memory is cold, and the operating system must clear it first: at gigabytes a second that costs more than the
messaging. The same few buffers stay in the processor's cache.
"""

import sys
from typing import Any, Final

import numpy as np

_ROUNDED_TO: Final = 64 * 1024
# Buffers kept of one size, and sizes kept: what a broker needs at full rate, and no more than some MiB each.
_MOST_OF_A_SIZE: Final = 32
_MOST_SIZES: Final = 8
_LARGEST: Final = 4 * 1024 * 1024
# Bytes kept of all sizes: peers choose the sizes of their frames, and what is kept is not given back.
_MOST_BYTES: Final = 16 * 1024 * 1024

_kept: dict[int, list[Any]] = {}


def _first_unused(buffers: list[Any], references: int) -> Any | None:
    for buffer in buffers:
        if sys.getrefcount(buffer) <= references:
            return buffer
    return None


def _references_without_a_view() -> int:
    """How many references the interpreter counts to a buffer that only the list above has: versions differ."""
    single: list[Any] = [np.empty(1, dtype=np.uint8)]
    return next(count for count in range(1, 10) if _first_unused(single, count) is not None)


_UNUSED: Final = _references_without_a_view()


def receive_buffer(size: int) -> memoryview:
    """At least so many bytes, with anything in them. They are the caller's as long as any view of them lives."""
    rounded = -(-size // _ROUNDED_TO) * _ROUNDED_TO
    if rounded > _LARGEST:
        return np.empty(rounded, dtype=np.uint8).data
    buffers = _kept.get(rounded)
    if buffers is None:
        if len(_kept) >= _MOST_SIZES:
            _kept.pop(next(iter(_kept)))
        buffers = _kept[rounded] = []
    unused = _first_unused(buffers, _UNUSED)
    if unused is not None:
        return memoryview(unused)
    fresh = np.empty(rounded, dtype=np.uint8)
    if len(buffers) < _MOST_OF_A_SIZE:
        buffers.append(fresh)
        _forget(rounded)
    return fresh.data


def _forget(wanted: int) -> None:
    """Buffers of other sizes, the size that was first used first, and then of this one, until few enough are kept."""
    excess = sum(size * len(buffers) for size, buffers in _kept.items()) - _MOST_BYTES
    for size in sorted(_kept, key=lambda size: size == wanted):
        buffers = _kept[size]
        while buffers and excess > 0:
            buffers.pop(0)
            excess -= size
