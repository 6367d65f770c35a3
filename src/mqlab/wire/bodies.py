"""The payload of a message frame: one Arrow record batch, or the bare body of a lone message.

Encoding or decoding a record batch costs the same few microseconds for one row or for thousands, which a lone
message cannot afford: a frame with the flag LONE holds just its body. There is no third form.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

import numpy as np
import pyarrow as pa

Buffer = bytes | bytearray | memoryview
Bytes = np.ndarray[tuple[int], np.dtype[np.uint8]]
Offsets = np.ndarray[tuple[int], np.dtype[np.int32]]

_BINARY: Final = pa.binary()
_SCHEMA: Final = pa.schema([pa.field("body", _BINARY, nullable=False)])


class MalformedPayloadError(ValueError):
    """The payload is not the record batch that its frame announced."""


@dataclass(frozen=True, slots=True)
class Payload:
    """What a message frame carries: `rows` messages, encoded."""

    data: Buffer
    rows: int
    lone: bool


def encode(bodies: Sequence[Buffer]) -> Payload:
    """Any bodies, one message each."""
    if len(bodies) == 1:
        return Payload(bytes(bodies[0]), 1, True)
    column = pa.array(bodies, type=_BINARY)
    return Payload(_serialized(column, len(bodies)), len(bodies), False)


def encode_equal(data: Bytes, rows: int) -> Payload:
    """`rows` bodies of one size that lie one after the other in `data`: no row is touched."""
    if rows == 1:
        return Payload(data.tobytes(), 1, True)
    size = len(data) // rows
    column = pa.Array.from_buffers(_BINARY, rows, [None, _equal_offsets(rows, size), pa.py_buffer(data)])
    return Payload(_serialized(column, rows), rows, False)


def check(payload: Payload) -> None:
    """Raises MalformedPayloadError unless anybody could decode it."""
    if payload.rows < 1:
        raise MalformedPayloadError("a payload has at least one row")
    if not payload.lone:
        _column(payload)
    elif payload.rows != 1:
        raise MalformedPayloadError(f"a lone message cannot have {payload.rows} rows")


def decode(payload: Payload) -> "Bodies":
    """The bodies of a payload, without a copy."""
    if payload.lone:
        check(payload)
        data = np.frombuffer(payload.data, dtype=np.uint8)
        return Bodies(data, np.array((0, len(data)), dtype=np.int32))
    column = _column(payload)
    _, offsets, values = column.buffers()
    first = column.offset
    bounds = np.frombuffer(offsets, dtype=np.int32)[first : first + payload.rows + 1]
    empty = values is None
    return Bodies(np.empty(0, dtype=np.uint8) if empty else np.frombuffer(values, dtype=np.uint8), bounds)


def cut(payload: Payload, start: int, rows: int) -> Payload:
    """`rows` of the payload's messages from `start` on, as a payload of their own."""
    if rows == payload.rows:
        return payload
    part = _column(payload).slice(start, rows)
    if rows == 1:
        return Payload(part[0].as_py(), 1, True)
    return Payload(_serialized(part, rows), rows, False)


class Bodies:
    """Message bodies as they lie in memory: body i is `data[offsets[i]:offsets[i + 1]]`."""

    __slots__ = ("data", "offsets")

    def __init__(self, data: Bytes, offsets: Offsets) -> None:
        self.data = data
        self.offsets = offsets

    def __len__(self) -> int:
        return len(self.offsets) - 1

    @property
    def nbytes(self) -> int:
        return int(self.offsets[-1]) - int(self.offsets[0])

    def __getitem__(self, row: int) -> bytes:
        return self.data[self.offsets[row] : self.offsets[row + 1]].tobytes()

    def tolist(self) -> list[bytes]:
        rows = len(self)
        if rows == 1:
            return [self[0]]
        buffers = [None, pa.py_buffer(np.ascontiguousarray(self.offsets)), pa.py_buffer(self.data)]
        bodies: list[bytes] = pa.Array.from_buffers(_BINARY, rows, buffers).to_pylist()
        return bodies

    def table(self) -> "np.ndarray[tuple[int, int], np.dtype[np.uint8]] | None":
        """The bodies as the rows of one matrix, if they all have the same size."""
        rows, begin = len(self), int(self.offsets[0])
        size, rest = divmod(self.nbytes, rows) if rows else (0, 0)
        if rest or (rows > 1 and not np.array_equal(self.offsets, _equal_steps(rows, size) + begin)):
            return None
        return self.data[begin : begin + rows * size].reshape(rows, size)


def _column(payload: Payload) -> pa.Array:
    try:
        batch = pa.ipc.read_record_batch(pa.py_buffer(payload.data), _SCHEMA)
        batch.validate(full=True)
    except (pa.ArrowInvalid, pa.ArrowKeyError, pa.ArrowNotImplementedError, OSError, EOFError) as error:
        raise MalformedPayloadError(f"not a record batch: {error}") from error
    if batch.num_rows != payload.rows:
        raise MalformedPayloadError(f"{batch.num_rows} rows where the frame says {payload.rows}")
    return batch.column(0)


def _serialized(column: pa.Array, rows: int) -> memoryview:
    batch = pa.RecordBatch.from_arrays([column], schema=_SCHEMA)
    assert batch.num_rows == rows
    return memoryview(batch.serialize())


@lru_cache(maxsize=64)
def _equal_steps(rows: int, size: int) -> Offsets:
    steps = np.arange(rows + 1, dtype=np.int32) * np.int32(size)
    steps.flags.writeable = False
    return steps


@lru_cache(maxsize=64)
def _equal_offsets(rows: int, size: int) -> pa.Buffer:
    return pa.py_buffer(_equal_steps(rows, size))
