"""Interval arithmetic is sound: what holds for the intervals holds for every value inside them."""

import math
import operator
import random
from collections.abc import Callable
from statistics import fmean, stdev
from typing import Protocol, TypeVar

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from mqlab.report.claims.interval import Interval, Uncertainty, greatest, least, less
from mqlab.study.statistics import t975

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


def measured(rng: random.Random, truth: float, variation: float, runs: int) -> Interval:
    """The mean of so many runs, with the interval that a report shows."""
    values = [rng.gauss(truth, truth * variation) for _ in range(runs)]
    error = stdev(values) / math.sqrt(runs)
    value, half = fmean(values), t975(runs - 1) * error
    return Interval(value, value - half, value + half, {object(): Uncertainty(error, runs - 1)})


def share(trials: int, happens: Callable[[random.Random], bool]) -> float:
    rng = random.Random(7)
    return sum(happens(rng) for _ in range(trials)) / trials


@pytest.mark.parametrize("runs", [(3, 3), (3, 8), (10, 10)])
@pytest.mark.parametrize("variation", [0.03, 0.1])
@pytest.mark.parametrize("operation", [operator.truediv, operator.mul, operator.sub, operator.add])
def test_an_interval_contains_the_truth_in_about_19_of_20_cases(
    operation: Operation, variation: float, runs: tuple[int, int]
) -> None:
    def contained(rng: random.Random) -> bool:
        left, right = measured(rng, 100.0, variation, runs[0]), measured(rng, 50.0, variation, runs[1])
        return contains(operation(left, right), operation(100.0, 50.0))

    assert 0.92 < share(2000, contained) < 0.98


@pytest.mark.parametrize("count", [2, 5, 20])
@pytest.mark.parametrize(("choose", "sign"), [(least, 1.0), (greatest, -1.0)])
def test_looking_at_many_values_does_not_find_what_is_not_there(
    choose: Callable[[list[Interval]], Interval], sign: float, count: int
) -> None:
    """All are the same: that one of them lies beyond it must be said in at most 2.5 % of the cases."""

    def wrong(rng: random.Random) -> bool:
        chosen = choose([measured(rng, 100.0, 0.05, 4) for _ in range(count)])
        return chosen.high < 100.0 if sign > 0 else chosen.low > 100.0

    assert share(1000, wrong) < 0.04


def test_errors_of_one_source_cancel() -> None:
    one = measured(random.Random(1), 100.0, 0.1, 3)
    assert (one / one).low == pytest.approx(1) == (one / one).high
    assert (one - one).exact


def test_plain_numbers_move_the_ends_along() -> None:
    one = measured(random.Random(1), 100.0, 0.1, 3)
    two = Interval.exactly(2.0)
    for result, expected in (
        (one * two, (2 * one.low, 2 * one.high)),
        (two * one, (2 * one.low, 2 * one.high)),
        (one / two, (one.low / 2, one.high / 2)),
        (one - two, (one.low - 2, one.high - 2)),
        (two - one, (2 - one.high, 2 - one.low)),
    ):
        assert (result.low, result.high) == pytest.approx(expected)
        assert result.errors


def test_a_ratio_is_narrower_than_its_corners_and_not_below_zero() -> None:
    left, right = (measured(random.Random(seed), 100.0, 0.4, 3) for seed in (3, 4))
    corners = Interval(left.value, left.low, left.high) / Interval(right.value, right.low, right.high)
    assert corners.low < (left / right).low < (left / right).high < corners.high
    assert (left / right).low > 0


def test_an_open_value_leaves_the_result_open() -> None:
    one = measured(random.Random(1), 100.0, 0.1, 3)
    assert (Interval(50.0, 40.0, math.inf) / one).high == math.inf
    assert (one - Interval(50.0, 40.0, math.inf)).low == -math.inf


@pytest.mark.parametrize(
    ("values", "expected"), [((100.0, 200.0), True), ((200.0, 100.0), False), ((100.0, 101.0), None)]
)
def test_measures_are_compared_by_their_ratio(values: tuple[float, float], expected: bool | None) -> None:
    rng = random.Random(5)
    left, right = (measured(rng, value, 0.05, 3) for value in values)
    assert less(left, right) is expected
    assert less(-right, -left) is expected


def estimate(value: float, source: str = "") -> Interval:
    """With an error of a tenth, from many runs."""
    half = t975(1000) * value / 10
    return Interval(value, value - half, value + half, {source or object(): Uncertainty(value / 10, 1000, value)})


def test_a_value_over_the_greatest_of_several_is_the_least_of_its_ratios() -> None:
    """Their random errors add up as squares, and that of the value itself cancels."""
    one, others = estimate(100.0, "one"), [estimate(300.0), estimate(150.0)]
    ratio = one / greatest([one, *others])
    assert ratio.value == pytest.approx(1 / 3)
    assert (ratio.low, ratio.high) == ((one / others[0]).low, (one / others[0]).at(0.025 / 3).high)
    assert ratio.high < one.high / greatest([one, *others]).low
    assert (one / greatest([one])).low == 1
    inverse = one / least([one, *others])
    assert (inverse.value, inverse.low) == (1, 1)
    # One of them was run once, and may be anything.
    open_ratio = one / greatest([others[0], Interval(10.0, 0.0, math.inf)])
    assert (open_ratio.low, open_ratio.high) == (0.0, (one / others[0]).at(0.025 / 2).high)


@pytest.mark.parametrize("several", [greatest, least])
def test_a_ratio_to_the_greatest_or_the_least_contains_the_truth(several: Callable[[list[Interval]], Interval]) -> None:
    """Of six equal values, any may seem to be the greatest; the ratio of another one to it is 1."""

    def is_inside(rng: random.Random) -> bool:
        values = [measured(rng, 100.0, 0.1, 6) for _ in range(7)]
        return contains(values[0] / several(values[1:]), 1.0)

    assert share(400, is_inside) > 0.93


def test_a_slack_moves_one_end_of_a_ratio() -> None:
    one, other = estimate(100.0), estimate(300.0)
    bounded = Interval(one.value, one.low, 2 * one.high, one.errors, slack=(1.0, 2.0))
    plain = one / other
    assert ((bounded / other).low, (bounded / other).high) == (plain.low, 2 * plain.high)
    assert ((other / bounded).low, (other / bounded).high) == ((other / one).low / 2, (other / one).high)
    assert (bounded * other).high == 2 * (one * other).high
    assert (bounded / other).at(0.001).high == 2 * plain.at(0.001).high
    assert (bounded + other).high == bounded.high + other.high, "a sum adds the ends"
    assert (bounded - other).low == bounded.low - other.high
    unknown = Interval(one.value, one.low, math.inf, one.errors, slack=(1.0, math.inf))
    assert ((unknown / other).low, (unknown / other).high) == (plain.low, math.inf)
    assert (other / unknown).low == 0
