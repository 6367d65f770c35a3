"""The span_list of a queue: always in the order of ids, whatever leaves and comes back."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mqlab.broker.core.model.messages import Span
from mqlab.broker.core.model.span_list import SpanCursor, SpanList
from mqlab.wire.native.bodies import Payload

BATCH = Payload(bytes(100), 10, 0)


def span(base: int, *rows: int) -> Span:
    return Span(BATCH, base, persistent=False, index=np.array(rows) if rows else None)


def ids(of: SpanList | list[Span]) -> list[int]:
    return [one.base + int(row) for one in of for row in one.index]


def linked(span_list: SpanList) -> bool:
    """Every link leads both ways."""
    spans, back, at = [*span_list], [], span_list.last
    while at is not None:
        back.append(at)
        at = at.before
    return spans == back[::-1] and all(one.span_list is span_list for one in spans)


def test_spans_stand_by_their_ids_whenever_they_come() -> None:
    span_list = SpanList(4)
    for base in (20, 0, 30, 10):
        span_list.insert(span(base))
    assert ids(span_list) == [*range(40)]
    assert linked(span_list)


def test_rows_of_one_batch_are_woven_into_one_another() -> None:
    span_list = SpanList(4)
    span_list.insert(span(0, 0, 2, 4, 6, 8))
    new = span_list.insert(span(0, 3, 5, 9))
    assert ids(span_list) == [0, 2, 3, 4, 5, 6, 8, 9]
    assert linked(span_list)
    assert {3, 5, 9} <= set(ids([*new]))


def test_all_that_is_new_in_line_is_told() -> None:
    """The queue has more to do for it: an index, an expiry."""
    span_list = SpanList(4)
    around, within = span(0, 0, 9), span(0, 5)
    span_list.insert(around)
    new = span_list.insert(within)
    assert [*span_list] == [new[0], within, around]
    assert ids([*new]) == [0, 5]


def test_a_cursor_looks_at_what_comes_in_before_it() -> None:
    span_list, cursor = SpanList(4), SpanCursor()
    span_list.cursors.append(cursor)
    first, second, third = span(0), span(10, 0, 9), span(20)
    span_list.insert(first)
    span_list.insert(second)
    span_list.insert(third)
    cursor.at = second
    between = span(10, 4)
    span_list.insert(between)
    ahead, at = [], span_list.after(cursor)
    while at is not None:
        ahead.append(at)
        at = at.after
    assert between in ahead
    assert third in ahead


def test_a_cursor_keeps_its_place_when_its_span_leaves() -> None:
    span_list, cursor = SpanList(4), SpanCursor()
    span_list.cursors.append(cursor)
    spans = [span(base) for base in (0, 10, 20)]
    for one in spans:
        span_list.insert(one)
    cursor.at = spans[1]
    span_list.unlink(spans[1])
    assert span_list.after(cursor) is spans[2]
    span_list.unlink(spans[0])
    assert span_list.after(cursor) is spans[2]
    span_list.unlink(spans[2])
    assert (span_list.after(cursor), span_list.first, span_list.last) == (None, None, None)


def test_many_that_come_back_take_a_few_steps_each(monkeypatch: pytest.MonkeyPatch) -> None:
    steps = 0
    last_id = vars(Span)["last_id"].fget

    def counted(one: Span) -> object:
        nonlocal steps
        steps += 1
        return last_id(one)

    monkeypatch.setattr(Span, "last_id", property(counted))
    span_list = SpanList(4)
    for number in range(0, 3000, 3):
        span_list.insert(span(number, 0))
    for number in range(1, 3000, 3):
        span_list.insert(span(number, 0))
    for number in range(2999, 0, -3):
        span_list.insert(span(number, 0))
    assert ids(span_list) == [*range(3000)]
    assert steps < 3000 * 10


@settings(deadline=None)
@given(st.data())
def test_any_parts_in_any_order(data: st.DataObject) -> None:
    """Rows of three batches leave and come back, in parts and in any order; a cursor passes nothing unseen."""
    owner = data.draw(st.lists(st.integers(0, 3), min_size=30, max_size=30))
    away = [
        span(base, *rows) for base in (0, 10, 20) for part in range(4)
        if (rows := [row for row in range(10) if owner[base + row] == part])
    ]  # fmt: skip
    span_list, cursor = SpanList(4), SpanCursor()
    span_list.cursors.append(cursor)
    for what, which in data.draw(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 100)), max_size=30)):
        here, before = [*span_list], set(ids(span_list))
        if what == 0 and here:
            away.append(here[which % len(here)])
            span_list.unlink(away[-1])
        elif what == 1 and here:
            cursor.at = here[which % len(here)]
        elif away:
            new = span_list.insert(away.pop(which % len(away)))
            came = set(ids(span_list)) - before
            assert came <= set(ids([*new]))
            assert cursor.at is None or all(one > cursor.at.last_id for one in came)
        assert ids(span_list) == sorted(ids(span_list))
        assert linked(span_list)
