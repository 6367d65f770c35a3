"""All that broker and client do with an untrusted payload."""

from contextlib import suppress

import numpy as np

from mqlab.wire.native.bodies import SINGLE, MalformedPayloadError, Payload, decode, select_rows, validate
from mqlab.wire.native.columns import column, column_names, decode_batch, decode_single, encode_columns
from table_rows import Row

from .message_tables import rows_of


def use(payload: Payload) -> bool:
    """True if it was accepted: then all of it can be read, cut and written again. No error but the parser's own."""
    with suppress(MalformedPayloadError):
        decode_batch(payload)
    if payload.form & SINGLE:
        with suppress(MalformedPayloadError):
            decode_single(payload)
    refusal = _refusal(payload)
    if refusal is not None:
        # It may be logged and sent back: short, and in one line.
        assert len(refusal) < 500
        assert refusal.isprintable()
        return False
    rows = rows_of(payload)
    assert len(rows) == payload.rows
    _read_bodies(payload, [row["body"] for row in rows])
    for name in column_names(payload):
        values = column(payload, name)
        assert values is not None
        assert len(values) == payload.rows
    _cut_and_write(payload, rows)
    return True


def _refusal(payload: Payload) -> str | None:
    try:
        validate(payload)
    except MalformedPayloadError as error:
        return str(error)
    return None


def _read_bodies(payload: Payload, expected: list[bytes]) -> None:
    bodies = decode(payload)
    taken = bodies.tolist()
    assert taken == expected
    assert sum(map(len, taken)) == bodies.nbytes <= len(payload.data)
    table = bodies.table()
    assert table is None or [row.tobytes() for row in table] == taken


def _cut_and_write(payload: Payload, rows: list[Row]) -> None:
    for start in range(0, payload.rows, max(1, payload.rows // 4)):
        assert same(select_rows(payload, range(start, start + 1)), rows[start : start + 1])
        assert same(select_rows(payload, range(start, payload.rows)), rows[start:])
    assert same(select_rows(payload, np.arange(0, payload.rows, 2)), rows[::2])
    batch = decode_batch(payload)
    again = encode_columns(batch.column(0), dict(zip(batch.schema.names[1:], batch.columns[1:], strict=True)))
    assert same(again, rows)
    assert len(again.data) < len(payload.data) + 20_000


def same(payload: Payload, rows: list[Row]) -> bool:
    """As text: what is no number equals nothing, not even itself."""
    validate(payload)
    return repr(rows_of(payload)) == repr(rows)
