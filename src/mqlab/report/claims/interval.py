"""Interval arithmetic.

A result contains every value that the operation gives for values inside its operands. Ends are computed by the same
floating-point operation as the values; rounding keeps their order.
"""

import math
import operator
from collections.abc import Callable, Iterable
from dataclasses import dataclass

Real = Callable[[float, float], float]


@dataclass(frozen=True)
class Interval:
    """From `low` to `high`, each maybe infinite; `value` is the best estimate inside, and finite."""

    value: float
    low: float
    high: float

    def __post_init__(self) -> None:
        if math.isinf(self.value) or math.isnan(self.value + self.low) or math.isnan(self.value + self.high):
            raise OverflowError("a figure exceeds the range of a float")
        if not self.low <= self.value <= self.high:
            raise ValueError(f"{self.value} does not lie between {self.low} and {self.high}")

    @classmethod
    def exactly(cls, value: float) -> "Interval":
        return cls(value, value, value)

    @property
    def exact(self) -> bool:
        return self.low == self.high

    def __neg__(self) -> "Interval":
        return Interval(-self.value, -self.high, -self.low)

    def __add__(self, other: "Interval") -> "Interval":
        return Interval(self.value + other.value, self.low + other.low, self.high + other.high)

    def __sub__(self, other: "Interval") -> "Interval":
        return self + -other

    def __mul__(self, other: "Interval") -> "Interval":
        return _from_corners(self, other, operator.mul)

    def __truediv__(self, other: "Interval") -> "Interval":
        """Raises ZeroDivisionError when the divisor can only be zero or its best figure is zero."""
        if other.value == 0:
            raise ZeroDivisionError
        if other.low < 0 < other.high:
            return Interval(self.value / other.value, -math.inf, math.inf)
        if other.high == 0:
            return -self / -other
        return _from_corners(self, other, _quotient)

    def __abs__(self) -> "Interval":
        ends = (abs(self.low), abs(self.high))
        return Interval(abs(self.value), 0.0 if self.low <= 0 <= self.high else min(ends), max(ends))


def least(intervals: Iterable[Interval]) -> Interval:
    given = list(intervals)
    return Interval(min(i.value for i in given), min(i.low for i in given), min(i.high for i in given))


def greatest(intervals: Iterable[Interval]) -> Interval:
    given = list(intervals)
    return Interval(max(i.value for i in given), max(i.low for i in given), max(i.high for i in given))


def less(left: Interval, right: Interval) -> bool | None:
    """Whether `left < right` for all their values (True), for none (False), or it depends (None)."""
    if left.high < right.low:
        return True
    return False if left.low >= right.high else None


def _from_corners(left: Interval, right: Interval, operation: Real) -> Interval:
    """A product or quotient is monotone in each operand, so its extremes lie at the corners."""
    corners = []
    for a in (left.low, left.high):
        for b in (right.low, right.high):
            corner = operation(a, b)
            # 0 x infinity: infinity is never reached, so values near this corner are near zero.
            corners.append(0.0 if math.isnan(corner) else corner)
    value = operation(left.value, right.value)
    return Interval(value, min(corners), max(corners))


def _quotient(a: float, b: float) -> float:
    # The divisor is positive and its lower end is zero (see __truediv__): the quotient has no bound.
    if b == 0:
        return math.copysign(math.inf, a) if a else 0.0
    return a / b
