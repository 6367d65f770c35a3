"""Many single messages as one batch: where they move or lie together, none should cost what a batch does."""

from collections.abc import Iterator, Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa

from mqlab.wire.native.bodies import decode, encode, encode_equal
from mqlab.wire.native.columns import columns_of, decode_batch, decode_values, encode_columns, encode_single
from mqlab.wire.native.frames import FORM, Frame, Kind
from mqlab.wire.native.payload import BINARY, COALESCED, SINGLE, Buffer, MalformedPayloadError, Payload, payload_of

_SEND: Final = int(Kind.SEND)


def coalescible_runs(frames: Sequence[Frame], most: int) -> Iterator[Sequence[Frame]]:
    """All frames in their order. Those together that could be one: sends of one producer that follow one another.

    They are single messages of less than `most` bytes each, with the same flags, and with the same columns if any.
    """
    begin, count = 0, len(frames)
    while begin < count:
        kind, flags, session, link, number, rows, payload = frames[begin]
        end = begin + 1
        is_single = kind == _SEND and flags & SINGLE and rows == 1 and len(payload) < most
        listed = _listed_in(payload, flags) if is_single else None
        if listed is not None:
            size = len(listed)
            while end < count:
                number += 1
                *said, payload = frames[end]
                if said != [kind, flags, session, link, number, 1] or len(payload) >= most or payload[:size] != listed:
                    break
                end += 1
        yield frames[begin:end]
        begin = end


def column_list(payload: Payload) -> bytes:
    """The list of its columns as it is written: payloads with the same one can be joined, and b"" is one as well.

    Raises MalformedPayloadError.
    """
    listed = columns_of(payload)
    return b"" if listed is None else listed.written


def join_singles(payloads: Sequence[Payload]) -> Payload:
    """Single messages with the same `column_list`, in their order. Raises MalformedPayloadError."""
    return as_singles(_joined(payloads))


def as_singles(payload: Payload) -> Payload:
    """The same messages, marked as sent one by one."""
    data, rows, form = payload
    return payload if rows == 1 else payload_of((data, rows, form | COALESCED))


def _joined(payloads: Sequence[Payload]) -> Payload:
    listed = columns_of(payloads[0])
    if listed is None:
        return _join_bodies([payload.data for payload in payloads])
    bodies, rows = [], []
    for payload in payloads:
        values, begin = decode_values(payload.data, listed)
        rows.append(values)
        bodies.append(bytes(payload.data[begin:]))
    types = [field.type for field in listed.schema][1:]
    arrays = map(pa.array, zip(*rows, strict=True), types)
    return encode_columns(pa.array(bodies, BINARY), dict(zip(listed.names, arrays, strict=True)))


def split_batch(payload: Payload) -> list[Payload]:
    """The other way: each message of a batch as a single one."""
    listed = columns_of(payload)
    if listed is None:
        return [payload_of((body, 1, SINGLE)) for body in decode(payload).tolist()]
    letters = "".join(part[0] for part in listed.written[2:].decode().split(","))
    rows = zip(*(column.to_pylist() for column in decode_batch(payload).columns), strict=True)
    return [_single(body, listed.names, letters, values) for body, *values in rows]


def _single(body: bytes, names: tuple[str, ...], letters: str, values: list[Any]) -> Payload:
    """A message has not every header that others have."""
    if None in values:
        said = [one for one in zip(names, letters, values, strict=True) if one[2] is not None]
        names, letters = tuple(name for name, _, _ in said), "".join(letter for _, letter, _ in said)
        values = [value for _, _, value in said]
    return encode_single(body, names, letters, values)


def _join_bodies(bodies: Sequence[Buffer]) -> Payload:
    size = len(bodies[0])
    if size and all(len(body) == size for body in bodies):
        return encode_equal(np.frombuffer(b"".join(bodies), dtype=np.uint8), len(bodies))
    return encode(bodies)


def _listed_in(data: Buffer, flags: int) -> bytes | None:
    """Of a single message that anybody may have sent; None: it cannot be read."""
    try:
        return column_list(payload_of((data, 1, flags & FORM)))
    except MalformedPayloadError:
        return None
