"""Interval arithmetic is sound: what holds for the intervals holds for every value inside them."""

import math
import operator
from typing import Protocol, TypeVar

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from mqlab.report.claims.interval import Interval, greatest, least, less

Number = TypeVar("Number", Interval, float)


class Operation(Protocol):
    """The function of an operator."""

    def __call__(self, left: Number, right: Number, /) -> Number: ...


finite = st.floats(-1e12, 1e12, allow_nan=False)


@st.composite
def known(draw: st.DrawFn) -> tuple[Interval, float]:
    """An interval, open to one side now and then, and a value inside it."""
    low, value, inside, high = sorted(draw(st.tuples(finite, finite, finite, finite)))
    if draw(st.booleans()):
        value, inside = inside, value
    low = draw(st.sampled_from([low, low, low, -math.inf]))
    high = draw(st.sampled_from([high, high, high, math.inf]))
    return Interval(value, low, high), inside


def contains(interval: Interval, value: float) -> bool:
    return interval.low <= value <= interval.high


@pytest.mark.parametrize("operation", [operator.add, operator.sub, operator.mul, operator.truediv])
@given(left=known(), right=known())
def test_result_contains_the_result_of_values_inside(
    operation: Operation, left: tuple[Interval, float], right: tuple[Interval, float]
) -> None:
    if operation is operator.truediv:
        assume(right[0].value != 0 and right[1] != 0)
        assume(math.isfinite(left[0].value / right[0].value))
    assert contains(operation(left[0], right[0]), operation(left[1], right[1]))


@given(known())
def test_abs_contains(one: tuple[Interval, float]) -> None:
    assert contains(abs(one[0]), abs(one[1]))


@given(st.lists(known(), min_size=1, max_size=5))
def test_least_and_greatest_contain(many: list[tuple[Interval, float]]) -> None:
    assert contains(least(interval for interval, _ in many), min(value for _, value in many))
    assert contains(greatest(interval for interval, _ in many), max(value for _, value in many))


@given(known(), known())
def test_less_is_decided_only_when_it_is_so_for_all(
    left: tuple[Interval, float], right: tuple[Interval, float]
) -> None:
    decided = less(left[0], right[0])
    assert decided is None or decided == (left[1] < right[1])


@pytest.mark.parametrize(
    ("left", "right", "expected"),
    [
        (Interval(1, 0, 2), Interval(3, 2.5, 4), True),
        (Interval(1, 0, 2), Interval(3, 2, 4), None),  # they touch: 2 < 2 is false
        (Interval(3, 2, 4), Interval(1, 0, 2), False),  # they touch, and 2 < 2 is false as well
        (Interval(1, 0, math.inf), Interval(3, 2, 4), None),
        (Interval.exactly(2), Interval.exactly(2), False),
    ],
)
def test_less_at_the_edges(left: Interval, right: Interval, expected: bool | None) -> None:
    assert less(left, right) is expected


@pytest.mark.parametrize(
    ("divisor", "low", "high"),
    [
        (Interval(2, 1, 4), 1.0, 8.0),
        (Interval(2, 0, 4), 1.0, math.inf),  # down to zero: without bound above
        (Interval(-2, -4, 0), -math.inf, -1.0),  # up to zero: without bound below
        (Interval(2, -1, 4), -math.inf, math.inf),  # across zero: nothing is known
        (Interval(2, 1, math.inf), 0.0, 8.0),
    ],
)
def test_division_at_the_edges(divisor: Interval, low: float, high: float) -> None:
    quotient = Interval(6, 4, 8) / divisor
    assert (quotient.low, quotient.high) == (low, high)


def test_division_by_zero_is_an_error() -> None:
    with pytest.raises(ZeroDivisionError):
        Interval.exactly(1) / Interval.exactly(0)


def test_a_figure_too_large_for_a_float_is_an_error() -> None:
    with pytest.raises(OverflowError):
        Interval.exactly(1e308) * Interval.exactly(1e308)


def test_the_best_figure_lies_inside() -> None:
    with pytest.raises(ValueError, match="does not lie between"):
        Interval(5, 1, 2)
