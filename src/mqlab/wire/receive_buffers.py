"""A pool of receive buffers: a buffer is used again as soon as no view of it exists.

The operating system must clear fresh memory, and fresh memory is not in the processor's cache: at gigabytes a second
that costs more than the messaging. Without the pool, D has 9 to 16 % fewer batches a second of processor time
(`bench/cpu_time.py OLD --key D`).
"""

import sys
from typing import Final

import numpy as np

_GRANULE_BYTES: Final = 64 * 1024
# Bounds of the pool: buffers of one size, number of sizes, and the largest size.
_MAX_PER_SIZE: Final = 32
_MAX_SIZES: Final = 8
_LARGEST_BYTES: Final = 4 * 1024 * 1024
# Bytes in the pool: peers choose the sizes of their frames, and the pool never frees a buffer that fits.
_MAX_POOL_BYTES: Final = 16 * 1024 * 1024

_Memory = np.ndarray[tuple[int], np.dtype[np.uint8]]
_pool: dict[int, list[_Memory]] = {}


def _first_unused(buffers: list[_Memory], references: int) -> _Memory | None:
    for buffer in buffers:
        if sys.getrefcount(buffer) <= references:
            return buffer
    return None


def _references_when_unused() -> int:
    """The reference count of a buffer that only a list refers to; it depends on the version of Python."""
    single = [np.empty(1, dtype=np.uint8)]
    return next(count for count in range(1, 10) if _first_unused(single, count) is not None)


_UNUSED: Final = _references_when_unused()


def receive_buffer(size: int) -> memoryview:
    """A buffer of at least `size` bytes, not cleared. It is the caller's as long as a view of it exists."""
    rounded = -(-size // _GRANULE_BYTES) * _GRANULE_BYTES
    if rounded > _LARGEST_BYTES:
        return np.empty(rounded, dtype=np.uint8).data
    buffers = _pool.get(rounded)
    if buffers is None:
        if len(_pool) >= _MAX_SIZES:
            _pool.pop(next(iter(_pool)))
        buffers = _pool[rounded] = []
    unused = _first_unused(buffers, _UNUSED)
    if unused is not None:
        return unused.data
    fresh = np.empty(rounded, dtype=np.uint8)
    if len(buffers) < _MAX_PER_SIZE:
        buffers.append(fresh)
        _trim(rounded)
    return fresh.data


def _trim(keep_size: int) -> None:
    """Drop buffers of other sizes, oldest size first, then of this one, until the pool is within its bound."""
    excess = sum(size * len(buffers) for size, buffers in _pool.items()) - _MAX_POOL_BYTES
    for size in sorted(_pool, key=lambda size: size == keep_size):
        buffers = _pool[size]
        while buffers and excess > 0:
            buffers.pop(0)
            excess -= size
