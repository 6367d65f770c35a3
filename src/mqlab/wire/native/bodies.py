"""The payload of a message frame: one Arrow record batch, or a single message.

A record batch costs a few microseconds to encode or decode, for one row or for thousands. For a single message that is
too much: a frame with the flag SINGLE has only its headers, if any, and its body. There is no third form. Arrow never
decodes a batch that has only bodies, the usual case at high rates.
"""

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Final

import numpy as np
import pyarrow as pa

from mqlab.wire.native.arrow import BODY_ONLY, Layout, check_batch, layout_of, serialized
from mqlab.wire.native.columns import Value, bodies_of, decode_batch, decode_single, take
from mqlab.wire.native.payload import (
    BINARY,
    COALESCED,
    COLUMNS,
    SINGLE,
    Bodies,
    Buffer,
    Bytes,
    MalformedPayloadError,
    Offsets,
    Payload,
    RowIndex,
    equal_offsets,
)

__all__ = [
    "BINARY", "COLUMNS", "SINGLE", "Bodies", "Buffer", "MalformedPayloadError", "Payload", "as_body", "decode",
    "encode", "encode_equal", "select_rows", "validate",
]  # fmt: skip

_NO_HEADERS: Final[Mapping[str, Value]] = {}


def as_body(body: Buffer) -> bytes:
    """A copy, unless it is bytes, so that later changes of the buffer are not sent."""
    if isinstance(body, bytes):
        return bytes(body)
    if not isinstance(body, bytearray | memoryview):
        raise TypeError(f"a message body is bytes, bytearray or memoryview, not {type(body).__name__}")
    return bytes(body)


def encode(bodies: Sequence[Buffer]) -> Payload:
    """Encode any bodies, one message each."""
    if len(bodies) == 1:
        return Payload(bytes(bodies[0]), 1, SINGLE)
    return _batch(pa.array(bodies, type=BINARY))


def encode_equal(data: Bytes, rows: int) -> Payload:
    """Encode `rows` bodies of one size that are contiguous in `data`, without looking at each."""
    if rows == 1:
        return Payload(data.tobytes(), 1, SINGLE)
    before, after = _around_equal(rows, len(data) // rows)
    return Payload(b"".join((before, data.data, after)), rows, 0)


def validate(payload: Payload) -> Mapping[str, Value] | None:
    """Check that every client can decode the payload. Raises MalformedPayloadError.

    Returns the headers and properties of a single message, and None for a batch.
    """
    _, rows, form = payload
    if form & SINGLE:
        if rows != 1:
            raise MalformedPayloadError(f"a single message cannot have {rows} rows")
        return decode_single(payload).values if form & COLUMNS else _NO_HEADERS
    if form & COLUMNS:
        check_batch(decode_batch(payload))
    else:
        layout = layout_of(payload.data, payload.rows)
        offsets = _offsets(payload, layout)
        if offsets[0] < 0 or offsets[-1] > layout.values_size or bool((offsets[1:] < offsets[:-1]).any()):
            raise MalformedPayloadError("its bodies overlap or reach beyond its end")
    return None


def decode(payload: Payload) -> Bodies:
    """The bodies of a validated payload, without a copy. The broker validates payloads before it delivers them."""
    if payload.form & COLUMNS:
        return bodies_of(payload)
    if payload.form & SINGLE:
        validate(payload)
        data = np.frombuffer(payload.data, dtype=np.uint8)
        return Bodies(data, equal_offsets(1, len(data)))
    layout = layout_of(payload.data, payload.rows)
    data = np.frombuffer(payload.data, dtype=np.uint8, count=layout.values_size, offset=layout.values_at)
    return Bodies(data, _offsets(payload, layout))


def select_rows(payload: Payload, index: RowIndex) -> Payload:
    """These rows of the payload, in this order, as a payload of their own."""
    if len(index) == payload.rows:
        return payload
    data, rows, form = take(payload, index) if payload.form & COLUMNS else _cut_bodies(payload, index)
    return Payload(data, rows, form if rows == 1 else form | payload.form & COALESCED)


def _cut_bodies(payload: Payload, index: RowIndex) -> Payload:
    bodies = decode(payload)
    if len(index) == 1:
        return Payload(bodies[int(index[0])], 1, SINGLE)
    if isinstance(index, range):
        return _batch(bodies.column().slice(index[0], len(index)))
    table = bodies.table()
    if table is None:
        return _batch(bodies.column().take(pa.array(index)))
    return encode_equal(table[index].reshape(-1), len(index))


def _batch(column: pa.Array) -> Payload:
    return Payload(serialized(pa.RecordBatch.from_arrays([column], schema=BODY_ONLY)), len(column), 0)


def _offsets(payload: Payload, layout: Layout) -> Offsets:
    return np.frombuffer(payload.data, dtype=np.int32, count=payload.rows + 1, offset=layout.offsets_at)


@lru_cache(maxsize=64)
def _around_equal(rows: int, size: int) -> tuple[bytes, bytes]:
    """The bytes before and after the bodies in a record batch of `rows` bodies of one size."""
    offsets, blank = pa.py_buffer(equal_offsets(rows, size)), pa.py_buffer(bytes(rows * size))
    whole = memoryview(_batch(pa.Array.from_buffers(BINARY, rows, [None, offsets, blank])).data)
    layout = layout_of(whole, rows)
    if not layout.values_size:
        return bytes(whole), b""
    return bytes(whole[: layout.values_at]), bytes(whole[layout.values_at + layout.values_size :])
