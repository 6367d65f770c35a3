"""Compiled conditions with no condition inside: comparisons, IN, LIKE, IS NULL, and a property that stands alone."""

from abc import abstractmethod
from collections.abc import Callable, Sequence
from typing import Final, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mqlab.broker.core.selectors.conditions import Condition, Sides
from mqlab.broker.core.selectors.like import Matcher
from mqlab.broker.core.selectors.operands import Operand
from mqlab.broker.core.selectors.syntax import ValueType
from mqlab.broker.core.selectors.values import Batch, Bools, Values, bits, both

_EQUAL: Final = pc.get_function("equal")
_IS_IN: Final = pc.get_function("is_in")
_COMPARE: Final[dict[str, Callable[..., Bools]]] = {
    "=": np.equal, "<>": np.not_equal, "<": np.less, "<=": np.less_equal, ">": np.greater, ">=": np.greater_equal,
}  # fmt: skip


class Test(Condition):
    """It holds or not where there is a value at all."""

    @abstractmethod
    def outcome(self, batch: Batch) -> tuple[Bools, Bools | None] | None:
        """Where it holds, and where that counts (None: everywhere). None if it is UNKNOWN for every message."""

    def true(self, batch: Batch) -> Bools:
        found = self.outcome(batch)
        if found is None:
            return np.zeros(batch.rows, np.bool_)
        holds, valid = found
        return holds if valid is None else holds & valid

    def false(self, batch: Batch) -> Bools:
        found = self.outcome(batch)
        if found is None:
            return np.zeros(batch.rows, np.bool_)
        holds, valid = found
        return ~holds if valid is None else valid > holds

    def sides(self, batch: Batch) -> Sides:
        found = self.outcome(batch)
        if found is None:
            return np.zeros(batch.rows, np.bool_), np.zeros(batch.rows, np.bool_)
        holds, valid = found
        return (holds, ~holds) if valid is None else (holds & valid, valid > holds)


class ComparisonTest(Test):
    def __init__(self, operator: str, left: Operand, right: Operand) -> None:
        self.operator = operator
        self.left = left
        self.right = right
        self.dear = left.dear or right.dear

    def outcome(self, batch: Batch) -> tuple[Bools, Bools | None] | None:
        left = self.left.values(batch)
        right = self.right.values(batch) if left is not None else None
        if left is None or right is None:
            return None
        return self._holds(left, right, batch.rows), both(left.valid, right.valid)

    def _holds(self, left: Values, right: Values, rows: int) -> Bools:
        ordered = self.operator not in ("=", "<>")
        kind = left.kind
        if kind is not right.kind or kind is ValueType.OTHER or (ordered and kind is not ValueType.NUMBER):
            return np.zeros(rows, np.bool_)
        if kind is not ValueType.STRING:
            return _COMPARE[self.operator](left.data, right.data)
        if isinstance(left.data, pa.Scalar) and isinstance(right.data, pa.Scalar):
            equal = np.full(rows, left.data == right.data)
        else:
            equal = _unpacked(_EQUAL.call([left.data, right.data]))
        return equal if self.operator == "=" else ~equal


class InTest(Test):
    dear = True

    def __init__(self, name: str, values: Sequence[str], *, negated: bool) -> None:
        self.name = name
        self.negated = negated
        self.options = pc.SetLookupOptions(value_set=pa.array(values, pa.string()))

    def outcome(self, batch: Batch) -> tuple[Bools, Bools | None] | None:
        return _of_strings(batch, self.name, lambda column: _IS_IN.call([column], self.options), self.negated)


class LikeTest(Test):
    dear = True

    def __init__(self, name: str, matcher: Matcher, *, negated: bool) -> None:
        self.name = name
        self.negated = negated
        self.matcher = matcher

    def outcome(self, batch: Batch) -> tuple[Bools, Bools | None] | None:
        return _of_strings(batch, self.name, self.matcher, self.negated)


class NullTest(Test):
    """IS NULL: never UNKNOWN."""

    def __init__(self, name: str) -> None:
        self.name = name

    def outcome(self, batch: Batch) -> tuple[Bools, Bools | None]:
        found = batch.values(self.name)
        if found is None:
            return np.ones(batch.rows, np.bool_), None
        return (np.zeros(batch.rows, np.bool_) if found.valid is None else ~found.valid), None


class BooleanTest(Test):
    """A property that stands alone. It is UNKNOWN if it is not a boolean."""

    def __init__(self, name: str) -> None:
        self.name = name

    def outcome(self, batch: Batch) -> tuple[Bools, Bools | None] | None:
        found = batch.values(self.name)
        if found is None or found.kind is not ValueType.BOOLEAN:
            return None
        return cast(Bools, found.data), found.valid


class Truth:
    """A condition as an operand of a comparison."""

    def __init__(self, condition: Condition) -> None:
        self.condition = condition
        self.dear = condition.dear

    def values(self, batch: Batch) -> Values:
        true, false = self.condition.sides(batch)
        return Values(ValueType.BOOLEAN, true, true | false)


def _of_strings(batch: Batch, name: str, matcher: Matcher, negated: bool) -> tuple[Bools, Bools | None] | None:
    found = batch.values(name)
    if found is None:
        return None
    if found.kind is not ValueType.STRING:
        return np.zeros(batch.rows, np.bool_), found.valid
    holds = _unpacked(matcher(found.data))
    return ~holds if negated else holds, found.valid


def _unpacked(column: pa.Array) -> Bools:
    """The booleans of a column; any value where it has none."""
    return bits(column.buffers()[1], column.offset, len(column))
