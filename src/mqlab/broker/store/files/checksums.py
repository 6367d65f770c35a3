"""Checksums of many short records at once.

A CRC is linear: that of a record is that of as many zeros, and what each of its bytes adds by its value and its place
counted from the end. Records of one length are thus a matrix, and a table for each column gives what it adds.
"""

from functools import lru_cache
from typing import Any, Final

import google_crc32c
import numpy as np

Numbers = np.ndarray[Any, np.dtype[Any]]

# The longest record for which a table for each byte costs less than a call, and how many there must be.
_SHORT: Final = 320
_FEW: Final = 128
# So many at a time fit into the fast memory.
_AT_ONCE: Final = 16_384
# Up to here a copy costs less than a view, for a call.
_COPIED: Final = 1024
_POLYNOMIAL: Final = 0x82F63B78


def checksums(data: bytes, array: Numbers, begins: Numbers, ends: Numbers) -> Numbers:
    """Of each piece [begin, end) of the data, which is given as an array, too."""
    if len(begins) < _FEW:
        return np.array(_called(data, array, begins.tolist(), ends.tolist()), dtype=np.uint32)
    found = np.empty(len(begins), dtype=np.uint32)
    lengths = ends - begins
    for length in np.unique(lengths).tolist():
        chosen = np.flatnonzero(lengths == length)
        if length > _SHORT or not length or len(chosen) < _FEW:
            found[chosen] = _called(data, array, begins[chosen].tolist(), ends[chosen].tolist())
        else:
            for at in range(0, len(chosen), _AT_ONCE):
                some = chosen[at : at + _AT_ONCE]
                found[some] = _alike(np.lib.stride_tricks.sliding_window_view(array, length)[begins[some]])
    return found


def _called(data: bytes, array: Numbers, begins: list[int], ends: list[int]) -> list[int]:
    value, pieces = google_crc32c.value, zip(begins, ends, strict=True)
    return [value(data[begin:end] if end - begin < _COPIED else array[begin:end]) for begin, end in pieces]


def _alike(pieces: Numbers) -> Numbers:
    """Pieces of one length, a row each."""
    length = pieces.shape[1]
    found = np.full(len(pieces), google_crc32c.value(bytes(length)), dtype=np.uint32)
    columns, added = np.ascontiguousarray(pieces.T), np.empty_like(found)
    for column, adds in zip(columns, _tables()[:length][::-1], strict=True):
        # No byte is beyond a table; to say so saves the check of each.
        found ^= np.take(adds, column, out=added, mode="clip")
    return found


@lru_cache(maxsize=1)
def _tables() -> Numbers:
    """What a byte adds, by the bytes that follow it and by its value."""
    first = np.arange(256, dtype=np.uint32)
    for _ in range(8):
        first = np.where(first & 1, (first >> 1) ^ np.uint32(_POLYNOMIAL), first >> 1)
    tables = [first]
    while len(tables) < _SHORT:
        last = tables[-1]
        tables.append((last >> 8) ^ first[last & 0xFF])
    return np.array(tables)
