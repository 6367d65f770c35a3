"""A selector tells what it reads and how its messages can be looked up; a batch can be cut anywhere."""

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mqlab.broker.core.selectors import compile_selector

from . import table
from .expressions import Expressions


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("TRUE", set()),
        ("1 = 1", set()),
        ("a", {"a"}),
        ("NOT a", {"a"}),
        ("a = b", {"a", "b"}),
        ("a = 1 OR a = 2 OR 'b' = a", {"a"}),
        ("-a + b * (c / d) > 1", {"a", "b", "c", "d"}),
        ("a IN ('x') OR b LIKE 'y' AND c IS NULL", {"a", "b", "c"}),
        ("a BETWEEN b AND c", {"a", "b", "c"}),
        ("(a) = (b > 1)", {"a", "b"}),
        ("JMSPriority > 4 AND JMSXGroupID = 'g'", {"JMSPriority", "JMSXGroupID"}),
    ],
)
def test_what_it_reads(text: str, names: set[str]) -> None:
    assert compile_selector(text).identifiers == names


@pytest.mark.parametrize(
    ("text", "lookup"),
    [
        ("JMSCorrelationID = 'a'", ("JMSCorrelationID", "a")),
        ("'a''b' = JMSCorrelationID", ("JMSCorrelationID", "a'b")),
        ("JMSMessageID = 'ID:1'", ("JMSMessageID", "ID:1")),
        ("((JMSMessageID) = ('ID:1'))", ("JMSMessageID", "ID:1")),
        ("x > 1 AND JMSCorrelationID = 'a' AND y", ("JMSCorrelationID", "a")),
        ("x > 1 AND (y AND (z AND JMSCorrelationID = 'a'))", ("JMSCorrelationID", "a")),
        ("(x = 1 OR y = 2) AND JMSCorrelationID = 'a'", ("JMSCorrelationID", "a")),
        ("NOT NOT JMSCorrelationID = 'a'", ("JMSCorrelationID", "a")),
        ("JMSMessageID = 'ID:1' AND JMSCorrelationID = 'a'", ("JMSMessageID", "ID:1")),
        ("JMSCorrelationID = 'a' OR x = 1", None),
        ("NOT JMSCorrelationID = 'a'", None),
        ("(JMSCorrelationID = 'a') = FALSE", None),
        ("JMSCorrelationID <> 'a'", None),
        ("JMSCorrelationID = x", None),
        ("JMSCorrelationID = 1", None),
        ("JMSCorrelationID LIKE 'a'", None),
        ("JMSType = 'a' AND x = 'b'", None),
        ("TRUE", None),
    ],
)
def test_how_its_messages_can_be_looked_up(text: str, lookup: tuple[str, str] | None) -> None:
    assert compile_selector(text).lookup == lookup


def test_it_keeps_its_text_and_is_made_once() -> None:
    selector = compile_selector(" x = 1 ")
    assert selector.text == " x = 1 "
    assert repr(selector) == "Selector(' x = 1 ')"
    assert compile_selector(" x = 1 ") is selector


def test_columns_that_it_does_not_read_do_not_matter() -> None:
    columns = {"x": pa.array([1, 2]), "other": pa.array([{"a": 1}, None])}
    assert compile_selector("x = 1").mask(2, columns).tolist() == [True, False]


def test_the_columns_and_the_next_batch_are_left_as_they_were() -> None:
    flags = pa.array([True, False])
    selector = compile_selector("flag")
    mask = selector.mask(2, {"flag": flags})
    mask[:] = False
    assert flags.to_pylist() == [True, False]
    assert selector.mask(2, {"flag": flags}).tolist() == [True, False]


@settings(deadline=None)
@given(st.integers(0, 10_000), st.integers(0, table.ROWS), st.integers(0, table.ROWS))
def test_a_part_of_a_batch_is_selected_as_in_the_whole(seed: int, one: int, other: int) -> None:
    """Parts share the memory of the whole and begin anywhere in it, in the middle of a byte too."""
    start, end = sorted((one, other))
    columns = table.arrow(table.messages(seed))
    selector = compile_selector(Expressions(seed).condition().selector)
    whole = selector.mask(table.ROWS, columns)
    part = selector.mask(end - start, {name: column.slice(start, end - start) for name, column in columns.items()})
    assert np.array_equal(part, whole[start:end])


@settings(deadline=None)
@given(st.integers(0, 10_000))
def test_a_message_alone_is_selected_as_in_a_batch(seed: int) -> None:
    columns = table.arrow(table.messages(seed))
    selector = compile_selector(Expressions(seed).condition().selector)
    alone = [
        selector.mask(1, {name: pa.array([column[row].as_py()], column.type) for name, column in columns.items()})[0]
        for row in range(table.ROWS)
    ]
    assert alone == selector.mask(table.ROWS, columns).tolist()
