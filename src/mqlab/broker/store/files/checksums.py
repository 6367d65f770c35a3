"""Checksums of many short records at once.

A CRC is linear: that of a record is the CRC of as many zeros, XORed with a term for each byte that depends only on the
byte's value and its distance from the end. Records of one length form a matrix, with a table of terms for each column.
"""

from functools import lru_cache
from typing import Final

import google_crc32c
import numpy as np
import numpy.typing as npt

Bytes = npt.NDArray[np.uint8]
Numbers = npt.NDArray[np.int64]

# The longest record for which table lookups cost less than a call, and how many records there must be.
_MAX_TABLE_BYTES: Final = 320
_MIN_RECORDS: Final = 128
# So many records at a time fit into the processor's cache.
_CHUNK_RECORDS: Final = 16_384
# For a call, a copy of fewer bytes costs less than a view.
_MAX_COPY_BYTES: Final = 1024
_POLYNOMIAL: Final = 0x82F63B78


def checksums(data: bytes, array: Bytes, begins: Numbers, ends: Numbers) -> npt.NDArray[np.uint32]:
    """The CRC32C of each piece [begin, end) of the data; `array` is the same data."""
    if len(begins) < _MIN_RECORDS:
        return np.array(_by_calls(data, array, begins.tolist(), ends.tolist()), dtype=np.uint32)
    crcs = np.empty(len(begins), dtype=np.uint32)
    lengths = ends - begins
    for length in np.unique(lengths).tolist():
        indexes = np.flatnonzero(lengths == length)
        if length > _MAX_TABLE_BYTES or not length or len(indexes) < _MIN_RECORDS:
            crcs[indexes] = _by_calls(data, array, begins[indexes].tolist(), ends[indexes].tolist())
        else:
            for at in range(0, len(indexes), _CHUNK_RECORDS):
                chunk = indexes[at : at + _CHUNK_RECORDS]
                crcs[chunk] = _by_tables(np.lib.stride_tricks.sliding_window_view(array, length)[begins[chunk]])
    return crcs


def _by_calls(data: bytes, array: Bytes, begins: list[int], ends: list[int]) -> list[int]:
    value, pieces = google_crc32c.value, zip(begins, ends, strict=True)
    return [value(data[begin:end] if end - begin < _MAX_COPY_BYTES else array[begin:end]) for begin, end in pieces]


def _by_tables(pieces: Bytes) -> npt.NDArray[np.uint32]:
    """The checksums of pieces of one length, given as the rows of a matrix."""
    length = pieces.shape[1]
    crcs = np.full(len(pieces), google_crc32c.value(bytes(length)), dtype=np.uint32)
    columns, terms = np.ascontiguousarray(pieces.T), np.empty_like(crcs)
    for column, table in zip(columns, _tables()[:length][::-1], strict=True):
        # Each table has an entry for every byte; "clip" saves the bounds check.
        crcs ^= np.take(table, column, out=terms, mode="clip")
    return crcs


@lru_cache(maxsize=1)
def _tables() -> npt.NDArray[np.uint32]:
    """The term of a byte, by the number of bytes that follow it and by its value."""
    first = np.arange(256, dtype=np.uint32)
    for _ in range(8):
        first = np.where(first & 1, (first >> 1) ^ np.uint32(_POLYNOMIAL), first >> 1)
    tables = [first]
    while len(tables) < _MAX_TABLE_BYTES:
        last = tables[-1]
        tables.append((last >> 8) ^ first[last & 0xFF])
    return np.array(tables)
