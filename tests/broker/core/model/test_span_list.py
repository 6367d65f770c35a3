"""The line of a queue: always in the order of ids, whatever leaves and comes back."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mqlab.broker.core.model.messages import Span
from mqlab.broker.core.model.span_list import Cursor, Line
from mqlab.wire.native.bodies import Payload

BATCH = Payload(bytes(100), 10, 0)


def span(base: int, *rows: int) -> Span:
    return Span(BATCH, base, persistent=False, index=np.array(rows) if rows else None)


def ids(of: Line | list[Span]) -> list[int]:
    return [one.base + int(row) for one in of for row in one.index]


def linked(line: Line) -> bool:
    """Every link leads both ways."""
    spans, back, at = [*line], [], line.last
    while at is not None:
        back.append(at)
        at = at.before
    return spans == back[::-1] and all(one.line is line for one in spans)


def test_spans_stand_by_their_ids_whenever_they_come() -> None:
    line = Line(4)
    for base in (20, 0, 30, 10):
        line.insert(span(base))
    assert ids(line) == [*range(40)]
    assert linked(line)


def test_rows_of_one_batch_are_woven_into_one_another() -> None:
    line = Line(4)
    line.insert(span(0, 0, 2, 4, 6, 8))
    new = line.insert(span(0, 3, 5, 9))
    assert ids(line) == [0, 2, 3, 4, 5, 6, 8, 9]
    assert linked(line)
    assert {3, 5, 9} <= set(ids([*new]))


def test_all_that_is_new_in_line_is_told() -> None:
    """The queue has more to do for it: an index, an expiry."""
    line = Line(4)
    around, within = span(0, 0, 9), span(0, 5)
    line.insert(around)
    new = line.insert(within)
    assert [*line] == [new[0], within, around]
    assert ids([*new]) == [0, 5]


def test_a_cursor_looks_at_what_comes_in_before_it() -> None:
    line, cursor = Line(4), Cursor()
    line.cursors.append(cursor)
    first, second, third = span(0), span(10, 0, 9), span(20)
    line.insert(first)
    line.insert(second)
    line.insert(third)
    cursor.at = second
    between = span(10, 4)
    line.insert(between)
    ahead, at = [], line.after(cursor)
    while at is not None:
        ahead.append(at)
        at = at.after
    assert between in ahead
    assert third in ahead


def test_a_cursor_keeps_its_place_when_its_span_leaves() -> None:
    line, cursor = Line(4), Cursor()
    line.cursors.append(cursor)
    spans = [span(base) for base in (0, 10, 20)]
    for one in spans:
        line.insert(one)
    cursor.at = spans[1]
    line.unlink(spans[1])
    assert line.after(cursor) is spans[2]
    line.unlink(spans[0])
    assert line.after(cursor) is spans[2]
    line.unlink(spans[2])
    assert (line.after(cursor), line.first, line.last) == (None, None, None)


def test_many_that_come_back_take_a_few_steps_each(monkeypatch: pytest.MonkeyPatch) -> None:
    steps = 0
    last_id = Span.last_id.fget  # type: ignore[attr-defined]

    def counted(one: Span) -> Any:
        nonlocal steps
        steps += 1
        return last_id(one)

    monkeypatch.setattr(Span, "last_id", property(counted))
    line = Line(4)
    for number in range(0, 3000, 3):
        line.insert(span(number, 0))
    for number in range(1, 3000, 3):
        line.insert(span(number, 0))
    for number in range(2999, 0, -3):
        line.insert(span(number, 0))
    assert ids(line) == [*range(3000)]
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
    line, cursor = Line(4), Cursor()
    line.cursors.append(cursor)
    for what, which in data.draw(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 100)), max_size=30)):
        here, before = [*line], set(ids(line))
        if what == 0 and here:
            away.append(here[which % len(here)])
            line.unlink(away[-1])
        elif what == 1 and here:
            cursor.at = here[which % len(here)]
        elif away:
            new = line.insert(away.pop(which % len(away)))
            came = set(ids(line)) - before
            assert came <= set(ids([*new]))
            assert cursor.at is None or all(one > cursor.at.last_id for one in came)
        assert ids(line) == sorted(ids(line))
        assert linked(line)
