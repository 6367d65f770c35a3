"""Evaluation of a claim's check over intervals: true, false, or undecided by the measures.

`study.language.expression` defines and checks the syntax; this module evaluates its tree.
"""

import ast
import math
import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce
from itertools import combinations
from typing import Final

from mqlab.report.claims.interval import Interval, greatest, least, less
from mqlab.report.claims.values import ClaimValues, MissingValueError
from mqlab.report.render import formatting
from mqlab.study import METRICS, Point
from mqlab.study.language.expression import (
    OVER_POINTS,
    Expression,
    about_range,
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


_NEEDED: Final[dict[type[ast.cmpop], str]] = {
    ast.Lt: "less than", ast.LtE: "at most", ast.Gt: "more than", ast.GtE: "at least",
}  # fmt: skip
# The same relation, seen from the other side.
_MIRRORED: Final[dict[type[ast.cmpop], type[ast.cmpop]]] = {
    ast.Lt: ast.Gt, ast.LtE: ast.GtE, ast.Gt: ast.Lt, ast.GtE: ast.LtE,
}  # fmt: skip


@dataclass(frozen=True)
class CheckedComparison:
    """One comparison of a check, with what is `found` and `needed` in words; and whether they agree.

    `value` is None where systems are ranked. `limits` are the numbers that it must stay above or below. `likely`: the
    truth by the best estimates alone.
    """

    truth: Truth
    found: str
    needed: str
    value: Interval | None = None
    limits: tuple[float, ...] = ()
    likely: bool = False


@dataclass(frozen=True)
class CheckResult:
    truth: Truth
    figures: tuple[str, ...]
    comparisons: tuple[CheckedComparison, ...]
    # Those of each comparison of the expression, before a `not` around it.
    by_node: Mapping[ast.expr, Sequence[CheckedComparison]]

    @property
    def deciding(self) -> CheckedComparison:
        """The first comparison that has the truth of the whole check, or else the first."""
        return next((one for one in self.comparisons if one.truth is self.truth), self.comparisons[0])


def evaluate(expression: Expression, values: ClaimValues) -> CheckResult:
    """Raises MissingValueError when a value is missing or the arithmetic has no result."""
    evaluator = _Evaluator(values)
    try:
        truth = evaluator.truth(expression.tree.body)
    except ZeroDivisionError:
        raise MissingValueError("a divisor is zero") from None
    except OverflowError:
        raise MissingValueError("the figures are too large to compute with") from None
    comparisons = tuple(dict.fromkeys(evaluator.comparisons))
    return CheckResult(truth, tuple(dict.fromkeys(evaluator.figures)), comparisons, evaluator.by_node)


def best_of(metric: str, values: Mapping[str, Interval]) -> frozenset[str]:
    """The systems that may be the best: one, or several of which none is surely better."""
    lower = _lower_is_better(metric)
    return frozenset(
        name for name, value in values.items()
        if not any((less(other, value) if lower else less(value, other)) for other in values.values())
    )  # fmt: skip


@dataclass
class _Evaluator:
    values: ClaimValues
    figures: list[str] = field(default_factory=list)
    comparisons: list[CheckedComparison] = field(default_factory=list)
    by_node: dict[ast.expr, list[CheckedComparison]] = field(default_factory=dict)
    within: bool = False
    bound_to: Point | None = None  # inside of min, max or mean over points

    def truth(self, node: ast.expr) -> Truth:
        match node:
            case ast.BoolOp(op=ast.And(), values=parts):
                return _all([self.truth(part) for part in parts])
            case ast.BoolOp(values=parts):
                return _negated(_all([_negated(self.truth(part)) for part in parts]))
            case ast.UnaryOp(operand=part):
                return self._not(part)
            case ast.Compare(left=ast.Call() as call, ops=[ast.Eq()], comparators=[name]):
                return self._is_first(node, call, name)
            case ast.Compare(left=ast.Call() as call, ops=[ast.NotEq()], comparators=[name]):
                return self._not(ast.Compare(call, [ast.Eq()], [name]))
            case ast.Call():
                return self._about(node)
            case ast.Compare(left=left, ops=relations, comparators=others):
                self._enter(node)
                nodes = (left, *others)
                sides = [self._side(side) for side in nodes]
                pairs = zip(sides[:-1], relations, sides[1:], strict=True)
                truth = _all([_ordered(*pair) for pair in pairs])
                self._compare(node, sides, truth)
                return truth
        raise TypeError(f"not accepted by study.language.expression: {ast.dump(node)}")

    def _enter(self, comparison: ast.expr) -> None:
        """Two systems at one point are compared by what each can do."""
        self.within = len({(r.scenario, r.point, r.where, r.system) for r in references(comparison)}) <= 1

    def _about(self, node: ast.Call) -> Truth:
        accepted = about_range(node)
        assert accepted is not None  # study.language.expression accepts no other argument
        self._enter(node)
        value, (low, high) = self._side(node.args[0]), (Interval.exactly(end) for end in accepted)
        truth = _all([_negated(less(value, low)), _negated(less(high, value))])
        needed = f"about {text_of(node.args[1])} ({format_interval(low)} to {format_interval(high)})"
        found = format_interval(value, _unit(node.args[0]))
        likely = accepted[0] <= value.value <= accepted[1]
        self._record(node, CheckedComparison(truth, found, needed, value, accepted, likely))
        return truth

    def _not(self, part: ast.expr) -> Truth:
        """The opposite of a part; so are the comparisons inside it."""
        inside, self.comparisons = self.comparisons, []
        truth = _negated(self.truth(part))
        opposites = [replace(one, truth=_negated(one.truth), needed=f"not {one.needed}") for one in self.comparisons]
        self.comparisons = inside + opposites
        return truth

    def _record(self, node: ast.expr, comparison: CheckedComparison) -> None:
        self.comparisons.append(comparison)
        self.by_node.setdefault(node, []).append(comparison)

    def _compare(self, node: ast.Compare, sides: Sequence[Interval], truth: Truth) -> None:
        """Record a comparison: of one value with numbers, or of each two values by their ratio or difference."""
        nodes, relations = (node.left, *node.comparators), node.ops
        estimates = [Interval.exactly(side.value) for side in sides]
        measured = [index for index, node in enumerate(nodes) if references(node)]
        if len(measured) == 1:
            (index,) = measured
            limits = [(_MIRRORED[type(relations[n])], sides[n]) for n in range(index)]
            limits += [(type(relations[n - 1]), sides[n]) for n in range(index + 1, len(sides))]
            needed = " and ".join(f"{_NEEDED[relation]} {format_interval(limit)}" for relation, limit in limits)
            text = format_interval(sides[index], _unit(nodes[index]))
            numbers = tuple(limit.value for _, limit in limits)
            likely = _all([_ordered(*pair) for pair in zip(estimates[:-1], relations, estimates[1:], strict=True)])
            self._record(node, CheckedComparison(truth, text, needed, sides[index], numbers, bool(likely)))
            return
        for left, relation, right in zip(sides[:-1], relations, sides[1:], strict=True):
            is_ratio = left.value > 0 < right.value
            compared, limit = (left / right, 1.0) if is_ratio else (left - right, 0.0)
            found = format_interval(compared, " times" if is_ratio else " more")
            needed = f"{_NEEDED[type(relation)]} {limit:g}"
            decided = _ordered(left, relation, right)
            likely = _ordered(Interval.exactly(left.value), relation, Interval.exactly(right.value))
            self._record(node, CheckedComparison(decided, found, needed, compared, (limit,), bool(likely)))

    def _side(self, node: ast.expr) -> Interval:
        value = self._number(node)
        if references(node):
            self.figures.append(f"{text_of(node)} = {format_interval(value)}")
        return value

    def _is_first(self, node: ast.expr, call: ast.Call, name: ast.expr) -> Truth:
        assert isinstance(name, ast.Constant)  # study.language.expression accepts no other argument
        argument = self._argument(call)
        candidates = best_of(argument.metric, self.values.values_by_system(argument))
        first = " or ".join(sorted(candidates))
        self.figures.append(f"{text_of(call)} = {first}")
        named = self.values.resolve_system(str(name.value))
        truth = False if named not in candidates else True if len(candidates) == 1 else None
        self._record(node, CheckedComparison(truth, f"{first} first in {argument.place}", f"{named} first"))
        return truth

    def _number(self, node: ast.expr) -> Interval:
        match node:
            case ast.Constant(value=int() | float() as value):
                return Interval.exactly(float(value))
            case ast.UnaryOp(operand=part):
                return -self._number(part)
            case ast.BinOp(left=left, op=sign, right=right):
                return ARITHMETIC[type(sign)](self._number(left), self._number(right))
            case ast.Subscript():
                return self.values.value(self._reference(node), self.within)
            case ast.Call():
                return self._call(node)
        raise TypeError(f"not accepted by study.language.expression: {ast.dump(node)}")

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
        """Evaluate the expression for every point that matches its first open reference."""
        first = next(open_references(node))
        if name == "max" and isinstance(node, ast.Subscript) and (peak := self.values.peak(first)) is not None:
            return peak
        values = []
        for point in self.values.points(first):
            self.bound_to = point
            values.append(self._number(node))
        self.bound_to = None
        if name == "mean":
            return reduce(operator.add, values) / Interval.exactly(float(len(values)))
        return least(values) if name == "min" else greatest(values)

    def _reference(self, node: ast.Subscript) -> Reference:
        reference = parse_reference(node)
        return reference if self.bound_to is None else reference.bound(self.bound_to)

    def _argument(self, call: ast.Call) -> Reference:
        argument = call.args[0]
        assert isinstance(argument, ast.Subscript)  # study.language.expression accepts no other argument
        return self._reference(argument)

    def _over_systems(self, name: str, reference: Reference) -> Interval:
        """The best value over the worst (spread) or the second best (lead), at least 1."""
        values = self.values.values_by_system(reference).values()
        if name == "spread":
            ratio = greatest(max(a / b, b / a, key=lambda one: one.value) for a, b in combinations(values, 2))
        else:
            lower = _lower_is_better(reference.metric)
            ahead = [[b / a if lower else a / b for b in values if b is not a] for a in values]
            ratio = greatest(map(least, ahead))
        return Interval(max(1.0, ratio.value), max(1.0, ratio.low), max(1.0, ratio.high))


def format_interval(value: Interval, unit: str = "") -> str:
    text = f"{formatting.number(value.value)}{unit}"
    if value.exact:
        return text
    if math.isinf(value.high) and value.low in (0.0, -math.inf):
        return f"{text} (no interval)"
    low = "unbounded below" if value.low == -float("inf") else formatting.number(value.low)
    return f"{text} ({low} to {formatting.number(value.high)})"


def _unit(node: ast.expr) -> str:
    """The unit of a value: times for a quotient, percent for an impact."""
    if isinstance(node, ast.Call) and function_name(node) in OVER_POINTS and len(node.args) == 1:
        return _unit(node.args[0])
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div):
        return " times"
    calls = {function_name(call) for call in ast.walk(node) if isinstance(call, ast.Call)}
    quotients = any(isinstance(part, ast.BinOp) for part in ast.walk(node))
    return " %" if "impact" in calls and not quotients else " times" if calls & {"spread", "lead"} else ""


def _lower_is_better(metric: str) -> bool:
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
