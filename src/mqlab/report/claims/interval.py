"""Intervals: what is known of a value, and sound arithmetic on it.

A result holds every value that the operation gives for values inside its operands. Ends are computed by the same
floating-point operation as the values themselves; rounding keeps order, so this stays true after rounding.
"""

import math
import operator
from collections.abc import Callable, Iterable
from dataclasses import dataclass

Real = Callable[[float, float], float]


@dataclass(frozen=True)
class Interval:
    """From `low` to `high`, either of which may be infinite; `value` is the best single figure inside, and finite."""

    value: float
    low: float
    high: float

    def __post_init__(self) -> None:
        if math.isinf(self.value) or math.isnan(self.value + self.low) or math.isnan(self.value + self.high):
            raise OverflowError("a figure beyond what a float can hold")
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
    every = list(intervals)
    return Interval(min(i.value for i in every), min(i.low for i in every), min(i.high for i in every))


def greatest(intervals: Iterable[Interval]) -> Interval:
    every = list(intervals)
    return Interval(max(i.value for i in every), max(i.low for i in every), max(i.high for i in every))


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
            # 0 x infinity: the other end is only approached, so values next to this corner stay next to zero.
            corners.append(0.0 if math.isnan(corner) else corner)
    value = operation(left.value, right.value)
    return Interval(value, min(corners), max(corners))


def _quotient(a: float, b: float) -> float:
    # The divisor reaches down to zero (never up to it, see __truediv__): the quotient grows without bound.
    if b == 0:
        return math.copysign(math.inf, a) if a else 0.0
    return a / b
