"""Compiled conditions. Each says for a whole batch where it is TRUE or where it is FALSE; elsewhere it is UNKNOWN.

Three-valued logic costs nothing this way: AND is TRUE where all parts are TRUE and FALSE where one is FALSE, NOT
swaps the two questions, and mostly only one of them is ever asked.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from functools import reduce

import numpy as np

from mqlab.broker.core.selectors.values import Batch, Bools

Sides = tuple[Bools, Bools]


class Condition(ABC):
    # It reads strings. Cheaper conditions run first, and often they leave no message for this one.
    dear: bool = False

    @abstractmethod
    def true(self, batch: Batch) -> Bools: ...

    @abstractmethod
    def false(self, batch: Batch) -> Bools: ...

    @abstractmethod
    def sides(self, batch: Batch) -> Sides:
        """Where it is TRUE and where it is FALSE, for the price of one: nested comparisons ask for both."""


class Conjunction(Condition):
    """AND. The order in which it evaluates its parts does not change the result."""

    def __init__(self, parts: Sequence[Condition]) -> None:
        self.parts = sorted(parts, key=lambda part: part.dear)
        self.dear = self.parts[-1].dear

    def true(self, batch: Batch) -> Bools:
        found = self.parts[0].true(batch)
        for part in self.parts[1:]:
            if not np.count_nonzero(found):
                break
            found = found & part.true(batch)
        return found

    def false(self, batch: Batch) -> Bools:
        found = self.parts[0].false(batch)
        for part in self.parts[1:]:
            if np.count_nonzero(found) == batch.rows:
                break
            found = found | part.false(batch)
        return found

    def sides(self, batch: Batch) -> Sides:
        return reduce(lambda one, other: (one[0] & other[0], one[1] | other[1]), (p.sides(batch) for p in self.parts))


class Negation(Condition):
    """OR is made of it too: `a OR b` is `NOT (NOT a AND NOT b)`, in three-valued logic as well."""

    def __init__(self, operand: Condition) -> None:
        self.operand = operand
        self.dear = operand.dear

    def true(self, batch: Batch) -> Bools:
        return self.operand.false(batch)

    def false(self, batch: Batch) -> Bools:
        return self.operand.true(batch)

    def sides(self, batch: Batch) -> Sides:
        true, false = self.operand.sides(batch)
        return false, true


class Constant(Condition):
    """None is UNKNOWN."""

    def __init__(self, value: bool | None) -> None:
        self.value = value

    def true(self, batch: Batch) -> Bools:
        return np.full(batch.rows, self.value is True)

    def false(self, batch: Batch) -> Bools:
        return np.full(batch.rows, self.value is False)

    def sides(self, batch: Batch) -> Sides:
        return self.true(batch), self.false(batch)
