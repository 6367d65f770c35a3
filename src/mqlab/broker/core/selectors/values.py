"""A batch of messages as the conditions see it: columns, unpacked when first read."""

from collections.abc import Mapping
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from mqlab.broker.core.selectors.syntax import ValueType

Bools = npt.NDArray[np.bool_]
Numbers = npt.NDArray[np.int64] | npt.NDArray[np.float64]

_NUMBERS: Final = {
    kind.id: np.dtype(kind.to_pandas_dtype())
    for kind in (pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.float32(), pa.float64())
}
_STRING: Final = pa.string().id
_BOOLEAN: Final = pa.bool_().id


class Values(NamedTuple):
    """One value for each message. A literal is one value for all: a Python number or boolean, an Arrow scalar.

    `valid` is False where there is no value, and None where there is one everywhere.
    """

    kind: ValueType
    data: Numbers | Bools | pa.Array | pa.Scalar | int | float | bool
    valid: Bools | None = None


class Batch:
    """The messages that a selector is evaluated over."""

    __slots__ = ("_columns", "_read", "rows")

    def __init__(self, rows: int, columns: Mapping[str, pa.Array]) -> None:
        self.rows = rows
        self._columns = columns
        self._read: dict[str, Values | None] = {}

    def values(self, name: str) -> Values | None:
        """None if no message has it."""
        if name not in self._read:
            self._read[name] = _values(self._columns.get(name))
        return self._read[name]


def bits(buffer: pa.Buffer, offset: int, rows: int) -> Bools:
    """Arrow packs eight booleans in a byte, the first one lowest."""
    start = offset % 8
    packed = np.frombuffer(buffer, np.uint8, (start + rows + 7) // 8, offset // 8)
    return np.unpackbits(packed, count=start + rows, bitorder="little")[start:].view(np.bool_)


def both(one: Bools | None, other: Bools | None) -> Bools | None:
    """Where two values are both there."""
    if one is None:
        return other
    return one if other is None else one & other


def _values(column: pa.Array | None) -> Values | None:
    if column is None:
        return None
    missing = column.null_count
    rows = len(column)
    if missing == rows:
        return None
    kind, offset, buffers = column.type.id, column.offset, column.buffers()
    valid = bits(buffers[0], offset, rows) if missing else None
    if kind == _STRING:
        return Values(ValueType.STRING, column, valid)
    if kind == _BOOLEAN:
        return Values(ValueType.BOOLEAN, bits(buffers[1], offset, rows), valid)
    dtype = _NUMBERS.get(kind)
    if dtype is None:
        return Values(ValueType.OTHER, False, valid)
    numbers = np.frombuffer(buffers[1], dtype, rows, offset * dtype.itemsize)
    # A float that stayed one would be compared as a float: 0.1f equals 0.1 there, but not in Java.
    return Values(ValueType.NUMBER, numbers.astype(np.float64) if dtype == np.float32 else numbers, valid)
