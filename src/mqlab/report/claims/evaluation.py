"""The value of a claim's check: true, false, or undecided by what is known of the measures.

`study.expression` says which texts are accepted; here the accepted tree is walked over intervals.
"""

import ast
import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import reduce
from typing import Final, Protocol

from mqlab.errors import MqlabError
from mqlab.report.claims.interval import Interval, greatest, least, less
from mqlab.report.render import formatting
from mqlab.study import METRICS, Point
from mqlab.study.language.expression import (
    OVER_POINTS,
    Expression,
    function_name,
    open_references,
    parse_reference,
    references,
    text_of,
)
from mqlab.study.language.reference import Reference

Truth = bool | None  # None: some values inside the intervals make it true, others false

ARITHMETIC: Final[dict[type[ast.operator], Callable[[Interval, Interval], Interval]]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
}


class MissingError(MqlabError, LookupError):
    """A value the expression needs is not there; the message says why, for a reader of the report."""


class Values(Protocol):
    """Where the values come from: the measures, or what the study printed."""

    def one(self, wanted: Reference, within: bool) -> Interval:
        """The value of the system under judgement; raises MissingError.

        `within` says that the comparison stays inside one point and so speaks of what happened in its runs;
        a comparison of several points speaks of what the system can do in each.
        """

    def impact(self, wanted: Reference) -> Interval:
        """The change of that value against its base point, in percent; raises MissingError."""

    def every(self, wanted: Reference) -> Mapping[str, Interval]:
        """The values of all systems by name; raises MissingError when there are fewer than two."""

    def known_as(self, name: str) -> str | None:
        """The system that a claim means by a name; None where there is none."""

    def points(self, wanted: Reference) -> list[Point]:
        """All points that an open reference stands for; raises MissingError when there are none."""

    def greatest(self, wanted: Reference) -> Interval | None:
        """The greatest over all these points, where it is known as such; None where each must be looked at."""


@dataclass(frozen=True)
class Outcome:
    truth: Truth
    figures: tuple[str, ...]


def evaluate(expression: Expression, values: Values) -> Outcome:
    """Raises MissingError when a value is missing or the arithmetic has no result."""
    walk = _Walk(values)
    try:
        truth = walk.truth(expression.tree.body)
    except ZeroDivisionError:
        raise MissingError("a divisor is zero") from None
    except OverflowError:
        raise MissingError("the figures are too large to compute with") from None
    return Outcome(truth, tuple(dict.fromkeys(walk.figures)))


def best_of(metric: str, values: Mapping[str, Interval]) -> frozenset[str]:
    """The systems that may be the best: one name when it is known, more when their intervals overlap."""
    worth = {name: -value if _less_is_better(metric) else value for name, value in values.items()}
    bar = greatest(worth.values())
    return frozenset(name for name, value in worth.items() if value.high >= bar.low)


@dataclass
class _Walk:
    values: Values
    figures: list[str] = field(default_factory=list)
    within: bool = False
    bound_to: Point | None = None  # inside of min, max or mean over points

    def truth(self, node: ast.expr) -> Truth:
        match node:
            case ast.BoolOp(op=ast.And(), values=parts):
                return _all([self.truth(part) for part in parts])
            case ast.BoolOp(values=parts):
                return _negated(_all([_negated(self.truth(part)) for part in parts]))
            case ast.UnaryOp(operand=part):
                return _negated(self.truth(part))
            case ast.Compare(left=ast.Call() as call, ops=[ast.Eq()], comparators=[name]):
                return self._is_first(call, name)
            case ast.Compare(left=ast.Call() as call, ops=[ast.NotEq()], comparators=[name]):
                return _negated(self._is_first(call, name))
            case ast.Compare(left=left, ops=relations, comparators=others):
                # Two systems are compared by what each can do, even at one point.
                self.within = len({(r.scenario, r.point, r.where, r.system) for r in references(node)}) <= 1
                sides = [self._side(side) for side in (left, *others)]
                pairs = zip(sides[:-1], relations, sides[1:], strict=True)
                return _all([_ordered(*pair) for pair in pairs])
        raise TypeError(f"not accepted by study.expression: {ast.dump(node)}")

    def _side(self, node: ast.expr) -> Interval:
        value = self._number(node)
        if references(node):
            self.figures.append(f"{text_of(node)} = {in_words(value)}")
        return value

    def _is_first(self, call: ast.Call, name: ast.expr) -> Truth:
        assert isinstance(name, ast.Constant)  # study.expression accepts nothing else there
        wanted = self._argument(call)
        candidates = best_of(wanted.metric, self.values.every(wanted))
        self.figures.append(f"{text_of(call)} = {' or '.join(sorted(candidates))}")
        if self.values.known_as(str(name.value)) not in candidates:
            return False
        return True if len(candidates) == 1 else None

    def _number(self, node: ast.expr) -> Interval:
        match node:
            case ast.Constant(value=int() | float() as value):
                return Interval.exactly(float(value))
            case ast.UnaryOp(operand=part):
                return -self._number(part)
            case ast.BinOp(left=left, op=sign, right=right):
                return ARITHMETIC[type(sign)](self._number(left), self._number(right))
            case ast.Subscript():
                return self.values.one(self._reference(node), self.within)
            case ast.Call():
                return self._call(node)
        raise TypeError(f"not accepted by study.expression: {ast.dump(node)}")

    def _call(self, node: ast.Call) -> Interval:
        name = function_name(node)
        if name in ("spread", "lead"):
            return self._over_systems(name, self._argument(node))
        if name == "impact":
            return self.values.impact(self._argument(node))
        if name in OVER_POINTS and len(node.args) == 1:
            return self._over_points(name, node.args[0])
        numbers = [self._number(argument) for argument in node.args]
        return abs(numbers[0]) if name == "abs" else least(numbers) if name == "min" else greatest(numbers)

    def _over_points(self, name: str, node: ast.expr) -> Interval:
        """Every point that the first open reference stands for is put into all of them in turn."""
        first = next(open_references(node))
        if name == "max" and isinstance(node, ast.Subscript) and (known := self.values.greatest(first)) is not None:
            return known
        found = []
        for point in self.values.points(first):
            self.bound_to = point
            found.append(self._number(node))
        self.bound_to = None
        if name == "mean":
            return reduce(operator.add, found) / Interval.exactly(float(len(found)))
        return least(found) if name == "min" else greatest(found)

    def _reference(self, node: ast.Subscript) -> Reference:
        found = parse_reference(node)
        return found if self.bound_to is None else found.bound(self.bound_to)

    def _argument(self, call: ast.Call) -> Reference:
        argument = call.args[0]
        assert isinstance(argument, ast.Subscript)  # study.expression accepts nothing else there
        return self._reference(argument)

    def _over_systems(self, name: str, wanted: Reference) -> Interval:
        """How many times as good the best is as the worst (spread) or the second (lead): never below 1."""
        found = list(self.values.every(wanted).values())
        place = 1 if name == "lead" else len(found) - 1
        upwards = _less_is_better(wanted.metric)
        best, other = _placed(found, 0, upwards), _placed(found, place, upwards)
        ratio = other / best if upwards else best / other
        return Interval(max(1.0, ratio.value), max(1.0, ratio.low), max(1.0, ratio.high))


def in_words(value: Interval) -> str:
    if value.exact:
        return formatting.number(value.value)
    low = "unbounded below" if value.low == -float("inf") else formatting.number(value.low)
    return f"{formatting.number(value.value)} ({low} to {formatting.number(value.high)})"


def _placed(found: list[Interval], place: int, upwards: bool) -> Interval:
    """What is known of the n-th best value: it never falls when one of the values grows, so its ends are known."""

    def nth(values: list[float]) -> float:
        return sorted(values, reverse=not upwards)[place]

    return Interval(nth([i.value for i in found]), nth([i.low for i in found]), nth([i.high for i in found]))


def _less_is_better(metric: str) -> bool:
    return METRICS[metric].better == "lower"


def _ordered(left: Interval, relation: ast.cmpop, right: Interval) -> Truth:
    match relation:
        case ast.Lt():
            return less(left, right)
        case ast.Gt():
            return less(right, left)
        case ast.LtE():
            return _negated(less(right, left))
        case _:
            return _negated(less(left, right))


def _all(truths: list[Truth]) -> Truth:
    return False if False in truths else None if None in truths else True


def _negated(truth: Truth) -> Truth:
    return None if truth is None else not truth
