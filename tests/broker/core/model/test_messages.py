"""Spans: rows of a batch, however they are divided; bytes are divided with them, to the last one."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from mqlab.broker.core.model.messages import FOOTPRINT, Span
from mqlab.wire.native.bodies import Payload, decode, encode

rows = st.integers(1, 40)


def made(count: int, index: list[int] | None = None) -> Span:
    bodies = [b"%d" % row * (1 + row % 3) for row in range(count)]
    return Span(
        encode(bodies), 100, persistent=True, index=None if index is None else np.array(index), origin="topic:t"
    )


@settings(deadline=None)
@given(rows, st.data())
def test_parts_add_up(count: int, data: st.DataObject) -> None:
    whole = made(count)
    size = whole.size
    assert isinstance(whole.payload, Payload)
    assert size == len(whole.payload.data)
    parts = [whole]
    for _ in range(data.draw(st.integers(0, 6))):
        one = data.draw(st.sampled_from([part for part in parts if part.rows > 1] or parts))
        if one.rows == 1:
            break
        how = data.draw(st.integers(0, 3))
        if how == 0:
            parts.append(one.take_first(data.draw(st.integers(1, one.rows - 1))))
        elif how == 1:
            parts.append(one.take_at(data.draw(st.integers(0, one.rows - 1))))
        elif how == 2:
            parts.append(one.take_before(data.draw(st.integers(one.first_id + 1, one.last_id))))
        else:
            flags = np.array(data.draw(st.lists(st.booleans(), min_size=one.rows, max_size=one.rows)))
            if flags.any() and not flags.all():
                parts.append(one.take(flags))
        assert sum(part.size for part in parts) == size
        assert sum(part.memory for part in parts) == size + FOOTPRINT
        ids = sorted(part.base + int(row) for part in parts for row in part.index)
        assert ids == [*range(100, 100 + count)]
    for part in parts:
        wanted = [decode(whole.payload)[int(row)] for row in part.index]
        assert decode(part.encoded()).tolist() == wanted
        told = [one for first, number in part.ranges() for one in range(first, first + number)]
        assert told == [part.base + int(row) for row in part.index]
        assert (part.first_id, part.last_id) == (told[0], told[-1])
        assert (part.persistent, part.origin) == (True, "topic:t")


@settings(deadline=None)
@given(
    st.sets(st.integers(0, 30), min_size=1), st.lists(st.tuples(st.integers(90, 140), st.integers(1, 9)), max_size=4)
)
def test_ids_within_ranges(index: set[int], ranges: list[tuple[int, int]]) -> None:
    span = made(31, sorted(index))
    wanted = {one for first, number in ranges for one in range(first, first + number)}
    inside = [100 + row for row in sorted(index) if 100 + row in wanted]
    flags = span.within(ranges)
    assert int(flags.sum()) == len(inside)
    part = span.chosen(flags)
    assert (part is None) == (not inside)
    if part is not None:
        assert [100 + int(row) for row in part.index] == inside
    assert span.rows == len(index)
