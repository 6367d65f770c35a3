"""The payload of a message frame: one Arrow record batch, or the bare body of a lone message.

Encoding or decoding a record batch costs the same few microseconds for one row or for thousands, which a lone
message cannot afford: a frame with the flag LONE holds just its body. There is no third form.
"""

import struct
from collections.abc import Sequence
from functools import lru_cache
from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa

Buffer = bytes | bytearray | memoryview
Bytes = np.ndarray[tuple[int], np.dtype[np.uint8]]
Offsets = np.ndarray[tuple[int], np.dtype[np.int32]]

_BINARY: Final = pa.binary()
_SCHEMA: Final = pa.schema([pa.field("body", _BINARY, nullable=False)])


def as_body(body: Buffer) -> bytes:
    """A copy, unless it is bytes: what its owner does to it later is not sent."""
    if not isinstance(body, bytes | bytearray | memoryview):
        raise TypeError(f"a message body is bytes, bytearray or memoryview, not {type(body).__name__}")
    return bytes(body)


class MalformedPayloadError(ValueError):
    """The payload is not the record batch that its frame announced."""


class Payload(NamedTuple):
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
    before, after = _around_equal(rows, len(data) // rows)
    return Payload(b"".join((before, data.data, after)), rows, False)


def check(payload: Payload) -> None:
    """Raises MalformedPayloadError unless anybody could decode it."""
    if payload.lone:
        if payload.rows != 1:
            raise MalformedPayloadError(f"a lone message cannot have {payload.rows} rows")
        return
    layout = _layout_of(payload)
    offsets = _offsets(payload, layout)
    if offsets[0] < 0 or offsets[-1] > layout.values_size or bool((offsets[1:] < offsets[:-1]).any()):
        raise MalformedPayloadError("its bodies overlap or reach beyond its end")


def decode(payload: Payload) -> "Bodies":
    """The bodies of a payload that was checked (a broker checks before it passes on), without a copy."""
    if payload.lone:
        check(payload)
        data = np.frombuffer(payload.data, dtype=np.uint8)
        return Bodies(data, np.array((0, len(data)), dtype=np.int32))
    layout = _layout_of(payload)
    data = np.frombuffer(payload.data, dtype=np.uint8, count=layout.values_size, offset=layout.values_at)
    return Bodies(data, _offsets(payload, layout))


def cut(payload: Payload, start: int, rows: int) -> Payload:
    """`rows` of the payload's messages from `start` on, as a payload of their own."""
    if rows == payload.rows:
        return payload
    bodies = decode(payload)
    if rows == 1:
        return Payload(bodies[start], 1, True)
    return Payload(_serialized(bodies.column().slice(start, rows), rows), rows, False)


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
        if len(self) == 1:
            return [self[0]]
        bodies: list[bytes] = self.column().to_pylist()
        return bodies

    def column(self) -> pa.Array:
        return pa.Array.from_buffers(_BINARY, len(self), [None, pa.py_buffer(self.offsets), pa.py_buffer(self.data)])

    def table(self) -> "np.ndarray[tuple[int, int], np.dtype[np.uint8]] | None":
        """The bodies as the rows of one matrix, if they all have the same size."""
        rows, begin = len(self), int(self.offsets[0])
        size, rest = divmod(self.nbytes, rows) if rows else (0, 0)
        offsets = self.offsets - begin if begin else self.offsets
        if rest or (rows > 1 and not bool((offsets == _equal_steps(rows, size)).all())):
            return None
        return self.data[begin : begin + rows * size].reshape(rows, size)


class _Layout(NamedTuple):
    """Where a record batch has its columns."""

    rows: int
    offsets_at: int
    values_at: int
    values_size: int


# A record batch says where everything is in its metadata, before its columns: four bytes of marker, four of length,
# then so many bytes. Batches of equal shape have equal metadata, so what was found once holds for all of them.
_PREFIX: Final = struct.Struct("<II")
_MARKER: Final = 0xFFFFFFFF
_MOST_METADATA: Final = 4096


def _layout_of(payload: Payload) -> _Layout:
    data = payload.data
    try:
        marker, length = _PREFIX.unpack_from(data)
        if marker != _MARKER or length > _MOST_METADATA:
            raise MalformedPayloadError("not a record batch")
        layout = _layout(bytes(data[: _PREFIX.size + length]), len(data))
    except (struct.error, pa.ArrowException, OSError, EOFError) as error:
        raise MalformedPayloadError(f"not a record batch: {error}") from error
    if layout.rows != payload.rows:
        raise MalformedPayloadError(f"{layout.rows} rows where the frame says {payload.rows}")
    return layout


@lru_cache(maxsize=256)
def _layout(metadata: bytes, size: int) -> _Layout:
    """Arrow itself reads a batch with this metadata, with zeros for its columns."""
    if _compressed(metadata):
        raise MalformedPayloadError("a compressed batch: its size in memory would be the sender's choice")
    blank = pa.py_buffer(metadata + bytes(size - len(metadata)))
    batch = pa.ipc.read_record_batch(blank, _SCHEMA)
    column, rows = batch.column(0), batch.num_rows
    if column.null_count or column.offset:
        raise MalformedPayloadError("a message without a body")
    _, offsets, values = column.buffers()
    if rows < 1 or offsets.size < 4 * (rows + 1) or offsets.size % 4:
        raise MalformedPayloadError("fewer offsets than messages")
    values_size = 0 if values is None else values.size
    # No bodies with anything in them: Arrow then points anywhere.
    values_at = values.address - blank.address if values_size else 0
    layout = _Layout(rows, offsets.address - blank.address, values_at, values_size)
    for begin, length in ((layout.offsets_at, offsets.size), (values_at, values_size)):
        if begin < 0 or begin + length > size:
            raise MalformedPayloadError("its columns lie outside of it")
    return layout


def _compressed(metadata: bytes) -> bool:
    """Whether the metadata (a flatbuffer: Message, in it RecordBatch) has the field `compression`."""

    def number(form: str, at: int) -> int:
        found: int = struct.unpack_from(form, metadata, at)[0]
        return found

    def field(table: int, slot: int) -> int:
        """Where a field of a table is, or 0."""
        fields = table - number("<i", table)
        within = 4 + 2 * slot
        offset = number("<H", fields + within) if within < number("<H", fields) else 0
        return table + offset if offset else 0

    message = _PREFIX.size + number("<I", _PREFIX.size)
    header = field(message, 2)
    return bool(header and field(header + number("<I", header), 3))


def _offsets(payload: Payload, layout: _Layout) -> Offsets:
    return np.frombuffer(payload.data, dtype=np.int32, count=payload.rows + 1, offset=layout.offsets_at)


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
def _around_equal(rows: int, size: int) -> tuple[bytes, bytes]:
    """What stands before and after the bodies in a record batch of so many equal ones: always the same."""
    offsets, blank = pa.py_buffer(_equal_steps(rows, size)), pa.py_buffer(bytes(rows * size))
    whole = _serialized(pa.Array.from_buffers(_BINARY, rows, [None, offsets, blank]), rows)
    layout = _layout_of(Payload(whole, rows, False))
    if not layout.values_size:
        return bytes(whole), b""
    return bytes(whole[: layout.values_at]), bytes(whole[layout.values_at + layout.values_size :])
