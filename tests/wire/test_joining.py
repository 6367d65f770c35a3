"""Lone messages put together: the same messages, in the same order, with the same types."""

from hypothesis import given, settings
from hypothesis import strategies as st

from mqlab.wire.bodies import COLUMNS, Payload, check
from mqlab.wire.columns import columns_of, decode_batch
from mqlab.wire.joining import join_lone

from .tables import EVERY_TYPE, Table, rows_of, tables


@settings(deadline=None)
@given(tables(), st.sampled_from([bytes, bytearray, memoryview]))
def test_lone_messages_with_the_same_columns_become_one_batch(table: Table, make: type) -> None:
    alone = [table.lone(row) for row in range(len(table.rows))]
    first = columns_of(alone[0])
    alike = [row for row, payload in enumerate(alone) if columns_of(payload) == first]
    joined = join_lone([Payload(make(alone[row].data), 1, alone[row].form) for row in alike])
    check(joined)
    assert (joined.rows, joined.form) == (len(alike), 0 if first is None else COLUMNS)
    assert rows_of(joined) == [table.rows[row] for row in alike]
    assert decode_batch(joined).schema == decode_batch(alone[0]).schema


def test_every_type_keeps_its_values() -> None:
    joined = join_lone([EVERY_TYPE.lone(2)] * 1_000)
    check(joined)
    assert rows_of(joined) == EVERY_TYPE.rows[2:] * 1_000
    assert len(joined.data) < 1_000 * len(EVERY_TYPE.lone(2).data)
