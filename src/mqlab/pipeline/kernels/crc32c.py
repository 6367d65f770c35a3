"""CRC32C with numpy alone: tasks check the event files that only Spark reads, and executors have no package for it.

The content is cut into rows of equal length, which advance together. The checksum of a text is that of its rows,
each shifted by the bytes behind it: a linear map, so that all rows are shifted and added up by halves.
"""

from functools import cache
from typing import Final

import numpy as np

from mqlab.pipeline.kernels.run_events import Array

_POLYNOMIAL: Final = 0x82F63B78
_ROWS: Final = 4096
_ONES: Final = 0xFFFFFFFF


def crc32c(content: bytes | memoryview, crc: int = 0) -> int:
    """`crc`: of the text before the content, whose checksum is continued."""
    data = np.frombuffer(content, np.uint8)
    width = len(data) // _ROWS
    state = _advance(np.array([crc ^ _ONES], np.uint32), data[: len(data) - width * _ROWS].reshape(1, -1))
    if width:
        rows = _advance(np.zeros(_ROWS, np.uint32), data[len(data) - width * _ROWS :].reshape(_ROWS, width))
        # The state before the rows goes through all of them.
        state = _shift(state, width * _ROWS) ^ _joined(rows, width)
    return int(state[0]) ^ _ONES


def _advance(states: Array, rows: Array) -> Array:
    """The states after the bytes of their rows."""
    table = _table()
    for column in np.ascontiguousarray(rows.T):
        states = table[(states ^ column) & 0xFF] ^ (states >> 8)
    return states


def _joined(rows: Array, width: int) -> Array:
    while len(rows) > 1:
        rows = _shift(rows[0::2], width) ^ rows[1::2]
        width *= 2
    return rows


def _shift(states: Array, count: int) -> Array:
    """The states after so many zero bytes."""
    columns = _zero_byte()
    while count:
        if count & 1:
            states = _apply(columns, states)
        columns = _apply(columns, columns)
        count >>= 1
    return states


def _apply(columns: Array, states: Array) -> Array:
    """The linear map that has these columns, one for each bit of a state."""
    bits = (states[:, None] >> np.arange(32, dtype=np.uint32)) & 1
    return np.asarray(np.bitwise_xor.reduce(bits * columns, axis=1))


@cache
def _table() -> Array:
    states: Array = np.arange(256, dtype=np.uint32)
    for _ in range(8):
        states = (states >> 1) ^ (_POLYNOMIAL * (states & 1)).astype(np.uint32)
    return states


@cache
def _zero_byte() -> Array:
    states = np.uint32(1) << np.arange(32, dtype=np.uint32)
    return np.asarray(_table()[states & 0xFF] ^ (states >> 8))
