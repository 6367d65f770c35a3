"""Values with intervals, and arithmetic on them.

Measures whose runs took turns are compared by their common rounds (study/rounds/paired.py). The random errors of all
others are independent. They add up as squares, and not as they would at the corners of two intervals: that is Welch's
interval, with the degrees of freedom by Satterthwaite's formula.

A value whose errors are not known (one run, a lower bound) is an interval that may be open. Its result with another
contains every value that the operation gives for values inside its operands.
"""

import math
import operator
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from mqlab.report.claims.headroom import Headroom, RatioWithoutLab
from mqlab.study.rounds.paired import MeasuredRuns
from mqlab.study.statistics import t_quantile

Real = Callable[[float, float], float]
# The probability outside of an interval, on each side.
TAIL: Final = 0.025
_NO_SLACK: Final = (1.0, 1.0)
_NO_SHIFT: Final = (0.0, 0.0)
_NO_HEADROOM: Final = Headroom()


class Uncertainty(NamedTuple):
    """The standard error of a measure, times its effect on a value; and its degrees of freedom.

    `weight`: the change of the value for a relative change of the measure.
    """

    effect: float
    degrees_of_freedom: int
    weight: float = 0.0

    def scaled(self, factor: float) -> "Uncertainty":
        return Uncertainty(self.effect * factor, self.degrees_of_freedom, self.weight * factor)


Errors = Mapping[Hashable, Uncertainty]  # by the measure that they come from: MeasuredRuns, where rounds are known


@dataclass(frozen=True)
class Interval:
    """From `low` to `high`, each maybe infinite; `value` is the best estimate inside, and finite.

    `errors`: what makes it uncertain, if that is known; a plain number has none. `is_ratio`: it was multiplied or
    divided, and is positive: its interval is computed on the logarithm. `slack`: how many times lower and higher it may
    be, beyond its random errors; `shift`: by how much. `headroom`: of a measure, what the lab may hide of it.
    `least_of`, `greatest_of`: the values that it is chosen from.
    """

    value: float
    low: float
    high: float
    errors: Errors | None = field(default=None, compare=False, repr=False)
    is_ratio: bool = field(default=False, compare=False, repr=False)
    slack: tuple[float, float] = field(default=_NO_SLACK, compare=False, repr=False)
    shift: tuple[float, float] = field(default=_NO_SHIFT, compare=False, repr=False)
    headroom: Headroom = field(default=_NO_HEADROOM, compare=False, repr=False)
    least_of: "tuple[Interval, ...]" = field(default=(), compare=False, repr=False)
    greatest_of: "tuple[Interval, ...]" = field(default=(), compare=False, repr=False)

    def __post_init__(self) -> None:
        if math.isinf(self.value) or math.isnan(self.value + self.low) or math.isnan(self.value + self.high):
            raise OverflowError("a figure exceeds the range of a float")
        if not self.low <= self.value <= self.high:
            raise ValueError(f"{self.value} does not lie between {self.low} and {self.high}")

    @classmethod
    def exactly(cls, value: float) -> "Interval":
        return cls(value, value, value, {})

    @classmethod
    def estimated(
        cls, value: float, errors: Errors, *, is_ratio: bool = False, slack: tuple[float, float] = _NO_SLACK,
        shift: tuple[float, float] = _NO_SHIFT,
    ) -> "Interval":  # fmt: skip
        """With a `slack` it is positive."""
        low, high = _ends(value, errors, TAIL, is_ratio)
        return cls(value, low / slack[0] - shift[0], high * slack[1] + shift[1], errors, is_ratio, slack, shift)

    @property
    def exact(self) -> bool:
        return self.low == self.high

    def at(self, tail: float) -> "Interval":
        """The interval with this probability outside on each side; the same if its errors are not known."""
        if not self.errors:
            return self
        low, high = _ends(self.value, self.errors, tail, self.is_ratio)
        low, high = low / self.slack[0] - self.shift[0], high * self.slack[1] + self.shift[1]
        return Interval(self.value, min(low, self.low), max(high, self.high))

    @property
    def is_open(self) -> bool:
        return self.low <= 0 and math.isinf(self.high)

    @property
    def _sum_errors(self) -> Errors | None:
        """Those of a sum: a slack is one of factors."""
        return self.errors if self.slack == _NO_SLACK else None

    def _times(self, factor: float) -> "Interval":
        """Times a plain number, with its shift."""
        low, high = sorted((self.low * factor, self.high * factor))
        down, up = (abs(factor) * by for by in (self.shift if factor > 0 else self.shift[::-1]))
        return Interval(self.value * factor, low, high, _scaled(self._sum_errors, factor), shift=(down, up))

    def _without_shift(self) -> "Interval":
        """Its ends alone, if it has a shift: what that does to a product is not known."""
        return self if self.shift == _NO_SHIFT else Interval(self.value, self.low, self.high)

    def __neg__(self) -> "Interval":
        return self._times(-1.0)

    def __add__(self, other: "Interval") -> "Interval":
        errors = _sum(self._sum_errors, other._sum_errors)
        shift = self.shift[0] + other.shift[0], self.shift[1] + other.shift[1]
        if errors and self.errors and other.errors:
            return Interval.estimated(self.value + other.value, errors, shift=shift)
        # One of them is a plain number, or has unknown errors: the ends move along.
        return Interval(self.value + other.value, self.low + other.low, self.high + other.high, errors, shift=shift)

    def __sub__(self, other: "Interval") -> "Interval":
        return self + -other

    def __mul__(self, other: "Interval") -> "Interval":
        if (self.shift, other.shift) != (_NO_SHIFT, _NO_SHIFT):
            if self.exact or other.exact:
                return self._times(other.value) if other.exact else other._times(self.value)
            return self._without_shift() * other._without_shift()
        errors = _sum(_scaled(self.errors, other.value), _scaled(other.errors, self.value))
        slack = self.slack[0] * other.slack[0], self.slack[1] * other.slack[1]
        return _product(self, other, operator.mul, errors, slack)

    def __truediv__(self, other: "Interval") -> "Interval":
        """Raises ZeroDivisionError when the divisor can only be zero or its best figure is zero."""
        if other.value == 0:
            raise ZeroDivisionError
        if (self.shift, other.shift) != (_NO_SHIFT, _NO_SHIFT):
            return self._times(1 / other.value) if other.exact else self._without_shift() / other._without_shift()
        # A value over the greatest of several is the least of its ratios, each with a random error of its own.
        if other.greatest_of and self._divides(other.greatest_of):
            return least(self / one for one in other.greatest_of)
        if other.least_of and self._divides(other.least_of):
            return greatest(self / one for one in other.least_of)
        errors = _sum(self.errors, _scaled(other.errors, -self.value / other.value))
        errors = _scaled(errors, 1 / other.value) if errors else errors
        slack = self.slack[0] * other.slack[1], self.slack[1] * other.slack[0]
        if errors and self.errors and other.errors and self.value > 0 < other.value:
            if self.headroom.is_like(other.headroom):
                slack = self._common_slack(other, errors)
            return _product(self, other, _quotient, errors, slack)
        if other.low < 0 < other.high:
            return Interval(self.value / other.value, -math.inf, math.inf)
        if other.high == 0:
            return -self / -other
        return _product(self, other, _quotient, errors, slack)

    def _common_slack(self, other: "Interval", errors: Errors) -> tuple[float, float]:
        """That of the ratio of two measures which the lab bounded alike."""
        bound = RatioWithoutLab(other.headroom, self.headroom)
        low, high = _ends(self.value / other.value, errors, TAIL, is_ratio=True)
        return low / bound.least(low), bound.greatest(high) / high

    def _divides(self, others: "Sequence[Interval]") -> bool:
        """Whether its ratio to each of these has a random error, unless nothing is known of the other."""
        known = all(one.value > 0 and (one.errors or one.is_open) for one in others)
        return known and bool(self.errors) and self.value > 0

    def __abs__(self) -> "Interval":
        if self.low >= 0 or self.high <= 0:
            return self if self.low >= 0 else -self
        ends = (abs(self.low), abs(self.high))
        return Interval(abs(self.value), 0.0, max(ends))


def least(intervals: Iterable[Interval]) -> Interval:
    """The least of some values. It is above a limit if all are; below one if any is: that needs a wider interval."""
    given = list(intervals)
    if len(given) == 1:
        return given[0]
    highs = [one.at(TAIL / len(given)).high for one in given]
    return Interval(min(one.value for one in given), min(one.low for one in given), min(highs), least_of=tuple(given))


def greatest(intervals: Iterable[Interval]) -> Interval:
    """The greatest of some values. It is below a limit if all are; above one if any is: that needs a wider interval."""
    given = list(intervals)
    if len(given) == 1:
        return given[0]
    lows = [one.at(TAIL / len(given)).low for one in given]
    return Interval(
        max(one.value for one in given), max(lows), max(one.high for one in given), greatest_of=tuple(given)
    )


def geometric_mean(ratios: Sequence[Interval]) -> Interval:
    """That of ratios above zero, by the random errors of all their measures together."""
    value = math.exp(math.fsum(math.log(one.value) for one in ratios) / len(ratios))
    errors: Errors | None = {}
    for one in ratios:
        errors = _sum(errors, _scaled(one.errors, value / one.value / len(ratios)))
    lower, higher = (math.prod(one.slack[end] ** (1 / len(ratios)) for one in ratios) for end in (0, 1))
    if errors is not None:
        return Interval.estimated(value, errors, is_ratio=True, slack=(lower, higher))
    low = math.prod(one.low ** (1 / len(ratios)) for one in ratios)
    return Interval(value, low, math.prod(one.high ** (1 / len(ratios)) for one in ratios))


def less(left: Interval, right: Interval) -> bool | None:
    """Whether `left < right` for all their values (True), for none (False), or it depends (None)."""
    if left.errors and right.errors:
        if left.value > 0 < right.value:
            left, right = left / right, Interval.exactly(1.0)
        else:
            left, right = left - right, Interval.exactly(0.0)
    if left.high < right.low:
        return True
    return False if left.low >= right.high else None


def _product(
    left: Interval, right: Interval, operation: Real, errors: Errors | None, slack: tuple[float, float]
) -> Interval:
    """A product or quotient."""
    value = operation(left.value, right.value)
    if errors and left.errors and right.errors and (left.value > 0 < right.value or slack == _NO_SLACK):
        return Interval.estimated(value, errors, is_ratio=left.value > 0 < right.value, slack=slack)
    # It is monotone in each operand, so its extremes lie at the corners.
    corners = []
    for a in (left.low, left.high):
        for b in (right.low, right.high):
            corner = operation(a, b)
            # 0 x infinity: infinity is never reached, so values near this corner are near zero.
            corners.append(0.0 if math.isnan(corner) else corner)
    if value <= 0 and slack != _NO_SLACK:
        return Interval(value, min(corners), max(corners))
    is_ratio = value > 0 and (left.is_ratio or right.is_ratio)
    return Interval(value, min(corners), max(corners), errors, is_ratio, slack)


def _quotient(a: float, b: float) -> float:
    # The divisor is positive and its lower end is zero (see __truediv__): the quotient has no bound.
    if b == 0:
        return math.copysign(math.inf, a) if a else 0.0
    return a / b


def _scaled(errors: Errors | None, factor: float) -> Errors | None:
    if errors is None:
        return None
    return {source: error.scaled(factor) for source, error in errors.items()}


def _sum(first: Errors | None, second: Errors | None) -> Errors | None:
    """The errors of both; those of one source add up with their signs."""
    if first is None or second is None:
        return None
    both = dict(first)
    for source, error in second.items():
        effect, degrees_of_freedom, weight = both.get(source, Uncertainty(0.0, error.degrees_of_freedom))
        both[source] = Uncertainty(effect + error.effect, degrees_of_freedom, weight + error.weight)
    return both


def _independent(errors: Errors) -> list[Uncertainty]:
    """The errors of measures whose runs are known become one."""
    used = {source: error for source, error in errors.items() if error.effect}
    independent = [error for source, error in used.items() if not isinstance(source, MeasuredRuns)]
    weights = {source: error.weight for source, error in used.items() if isinstance(source, MeasuredRuns)}
    if weights:
        independent.append(Uncertainty(*next(iter(weights)).study.error(weights)))
    return independent


def _ends(value: float, errors: Errors, tail: float, is_ratio: bool) -> tuple[float, float]:
    half = _half_width(_independent(errors), tail)
    if not is_ratio or value <= 0:
        return value - half, value + half
    try:
        factor = math.exp(half / value)
    except OverflowError:
        return 0.0, math.inf
    return value / factor, value * factor


def _half_width(errors: Sequence[Uncertainty], tail: float) -> float:
    if not errors:
        return 0.0
    square = sum(error.effect**2 for error in errors)
    spread = sum(error.effect**4 / error.degrees_of_freedom for error in errors)
    # Effects so small that their powers vanish are no errors.
    degrees_of_freedom = math.floor(square**2 / spread * (1 + 1e-9)) if spread else 1
    return t_quantile(max(1, degrees_of_freedom), 1 - tail) * math.sqrt(square)
