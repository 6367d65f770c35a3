"""The operands of a comparison: properties, literals, arithmetic, and conditions as values."""

from collections.abc import Callable
from typing import Final, Protocol, cast

import numpy as np
import numpy.typing as npt

from mqlab.broker.core.selectors.syntax import ValueType
from mqlab.broker.core.selectors.values import Batch, Bools, Values, both

Array = npt.NDArray[np.int64] | npt.NDArray[np.float64]


class Operand(Protocol):
    # It is a string, as far as the text tells.
    dear: bool

    def values(self, batch: Batch) -> Values | None:
        """None if it is UNKNOWN for every message."""


class Field:
    """A property or a header field."""

    dear = False

    def __init__(self, name: str) -> None:
        self.name = name

    def values(self, batch: Batch) -> Values | None:
        return batch.values(self.name)


class Fixed:
    """A literal, or what a calculation with nothing but literals gave."""

    def __init__(self, value: Values | None) -> None:
        self.value = value
        self.dear = value is not None and value.kind is ValueType.STRING

    def values(self, _: Batch) -> Values | None:
        return self.value


class Sign:
    """`+x` or `-x`: a number, or UNKNOWN."""

    dear = False

    def __init__(self, operand: Operand, negative: bool) -> None:
        self.operand = operand
        self.negative = negative

    def values(self, batch: Batch) -> Values | None:
        found = _numbers(self.operand.values(batch))
        if found is None or not self.negative:
            return found
        return Values(ValueType.NUMBER, np.negative(_wide(found)), found.valid)


class Chain:
    """Operations of one precedence, from left to right."""

    dear = False

    def __init__(self, first: Operand, rest: list[tuple[str, Operand]]) -> None:
        self.first = first
        self.rest = rest

    def values(self, batch: Batch) -> Values | None:
        total = _numbers(self.first.values(batch))
        for operator, operand in self.rest:
            number = _numbers(operand.values(batch))
            if total is None or number is None:
                return None
            total = calculated(operator, total, number)
        return total


def calculated(operator: str, left: Values, right: Values) -> Values:
    """One operation on numbers, with Java's rules for long and double."""
    one, other = _wide(left), _wide(right)
    valid = both(left.valid, right.valid)
    if operator == "/" and one.dtype == other.dtype == np.int64:
        quotient, possible = _divided(one, other)
        return Values(ValueType.NUMBER, quotient, both(valid, possible))
    return Values(ValueType.NUMBER, _OPERATIONS[operator](one, other), valid)


_OPERATIONS: Final[dict[str, Callable[[Array, Array], Array]]] = {
    "+": np.add, "-": np.subtract, "*": np.multiply, "/": np.divide,
}  # fmt: skip


def _numbers(found: Values | None) -> Values | None:
    return found if found is not None and found.kind is ValueType.NUMBER else None


def _wide(values: Values) -> Array:
    """As long or double. A literal becomes an array of one: numpy warns of an overflow of a lone number, Java wraps."""
    data = values.data
    if not isinstance(data, np.ndarray):
        return np.array([data], np.float64) if isinstance(data, float) else np.array([data], np.int64)
    return cast(Array, data) if data.dtype in (np.int64, np.float64) else data.astype(np.int64)


def _divided(one: Array, other: Array) -> tuple[Array, Bools | None]:
    """The quotient towards zero, where there is one; numpy's goes down."""
    zero = other == 0
    divisor = np.where(zero, 1, other)
    quotient = np.floor_divide(one, divisor)
    inexact = quotient * divisor != one
    quotient = quotient + (inexact & ((one < 0) != (divisor < 0)))
    if not np.count_nonzero(zero):
        return quotient, None
    return quotient, np.broadcast_to(~zero, quotient.shape)
