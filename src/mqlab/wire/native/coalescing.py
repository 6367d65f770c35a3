"""Coalesces single messages into a batch, and splits a batch into single messages."""

from collections.abc import Iterator, Sequence
from typing import Final

import numpy as np
import pyarrow as pa

from mqlab.wire.native.bodies import decode, encode, encode_equal
from mqlab.wire.native.columns import Decoded, columns_of, decode_batch, decode_values, encode_columns, encode_single
from mqlab.wire.native.frames import FORM, Frame, Kind
from mqlab.wire.native.payload import BINARY, COALESCED, SINGLE, Buffer, MalformedPayloadError, Payload

_SEND: Final = int(Kind.SEND)


def coalescible_runs(frames: Sequence[Frame], limit_bytes: int) -> Iterator[Sequence[Frame]]:
    """All frames in order, in runs that can be coalesced: consecutive sends of one producer.

    A run has single messages of less than `limit_bytes` each, with the same flags and columns.
    """
    begin, count = 0, len(frames)
    while begin < count:
        kind, flags, session, link, number, rows, payload = frames[begin]
        end = begin + 1
        is_single = kind == _SEND and flags & SINGLE and rows == 1 and len(payload) < limit_bytes
        may_go_on = is_single and end < count and frames[end].link == link
        prefix = _column_list_of(payload, flags) if may_go_on else None
        if prefix is not None:
            size = len(prefix)
            while end < count:
                number += 1
                *fields, payload = frames[end]
                same_fields = fields == [kind, flags, session, link, number, 1]
                if not same_fields or len(payload) >= limit_bytes or payload[:size] != prefix:
                    break
                end += 1
        yield frames[begin:end]
        begin = end


def column_list(payload: Payload) -> bytes:
    """The encoded list of columns, or b"". Payloads with equal lists can be joined.

    Raises MalformedPayloadError.
    """
    layout = columns_of(payload)
    return b"" if layout is None else layout.written


def join_singles(payloads: Sequence[Payload]) -> Payload:
    """Join single messages with the same `column_list`, in order. Raises MalformedPayloadError."""
    return as_singles(_joined(payloads))


def as_singles(payload: Payload) -> Payload:
    """The same messages, marked as single sends."""
    data, rows, form = payload
    return payload if rows == 1 else Payload(data, rows, form | COALESCED)


def _joined(payloads: Sequence[Payload]) -> Payload:
    layout = columns_of(payloads[0])
    if layout is None:
        return _join_bodies([payload.data for payload in payloads])
    bodies, rows = [], []
    for payload in payloads:
        values, begin = decode_values(payload.data, layout)
        rows.append(values)
        bodies.append(bytes(payload.data[begin:]))
    types = [field.type for field in layout.schema][1:]
    arrays = map(pa.array, zip(*rows, strict=True), types)
    return encode_columns(pa.array(bodies, BINARY), dict(zip(layout.names, arrays, strict=True)))


def split_batch(payload: Payload) -> list[Payload]:
    """Each message of a batch as a single message."""
    layout = columns_of(payload)
    if layout is None:
        return [Payload(body, 1, SINGLE) for body in decode(payload).tolist()]
    letters = "".join(part[0] for part in layout.written[2:].decode().split(","))
    rows = zip(*(column.to_pylist() for column in decode_batch(payload).columns), strict=True)
    return [_single(body, layout.names, letters, values) for body, *values in rows]


def _single(body: bytes, names: tuple[str, ...], letters: str, values: list[Decoded]) -> Payload:
    """Encode a row without the headers that it does not have."""
    if None in values:
        present = [field for field in zip(names, letters, values, strict=True) if field[2] is not None]
        names, letters = tuple(name for name, _, _ in present), "".join(letter for _, letter, _ in present)
        values = [value for _, _, value in present]
    return encode_single(body, names, letters, values)


def _join_bodies(bodies: Sequence[Buffer]) -> Payload:
    size = len(bodies[0])
    if size and all(len(body) == size for body in bodies):
        return encode_equal(np.frombuffer(b"".join(bodies), dtype=np.uint8), len(bodies))
    return encode(bodies)


def _column_list_of(data: Buffer, flags: int) -> bytes | None:
    """The column list of an untrusted single message; None if it is malformed."""
    try:
        return column_list(Payload(data, 1, flags & FORM))
    except MalformedPayloadError:
        return None
