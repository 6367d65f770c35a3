"""The value of a claim's check: true, false, or undecided by what is known of the measures.

`study.expression` says which texts are accepted; here the accepted tree is walked over intervals.
"""

import ast
import operator
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final, Protocol

from mqlab.report import words
from mqlab.report.interval import Interval, greatest, least, less
from mqlab.study.expression import Expression, Reference, called, reference

Truth = bool | None  # None: some values inside the intervals make it true, others false

ARITHMETIC: Final[dict[type[ast.operator], Callable[[Interval, Interval], Interval]]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
}
# Of everything else, more is better.
_LESS_IS_BETTER: Final = ("latency.", "confirm.", "cpu.", "rss.", "sync.share", "holds", "held.")


class MissingError(LookupError):
    """A value the expression needs is not there; the message says why, for a reader of the report."""


class Values(Protocol):
    """Where the values come from: the measures, or what the study printed."""

    def one(self, wanted: Reference, within: bool) -> Interval:
        """The value of the system under judgement; raises MissingError.

        `within` says that the comparison stays inside one point and so speaks of what happened in its runs;
        a comparison of several points speaks of what the system can do in each.
        """

    def every(self, wanted: Reference) -> Mapping[str, Interval]:
        """The values of all systems by name; raises MissingError when there are fewer than two."""


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


def references(node: ast.AST) -> tuple[Reference, ...]:
    return tuple(reference(part) for part in ast.walk(node) if isinstance(part, ast.Subscript))


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
                self.within = len({(r.scenario, r.point) for r in references(node)}) <= 1
                sides = [self._side(side) for side in (left, *others)]
                pairs = zip(sides[:-1], relations, sides[1:], strict=True)
                return _all([_ordered(*pair) for pair in pairs])
        raise TypeError(f"not accepted by study.expression: {ast.dump(node)}")

    def _side(self, node: ast.expr) -> Interval:
        value = self._number(node)
        if not isinstance(node, ast.Constant):
            self.figures.append(f"{_text(node)} = {in_words(value)}")
        return value

    def _is_first(self, call: ast.Call, name: ast.expr) -> Truth:
        assert isinstance(name, ast.Constant)  # study.expression accepts nothing else there
        wanted = _argument(call)
        candidates = best_of(wanted.metric, self.values.every(wanted))
        self.figures.append(f"{_text(call)} = {' or '.join(sorted(candidates))}")
        if name.value not in candidates:
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
                return self.values.one(reference(node), self.within)
            case ast.Call():
                return self._call(node)
        raise TypeError(f"not accepted by study.expression: {ast.dump(node)}")

    def _call(self, node: ast.Call) -> Interval:
        name = called(node)
        if name in ("spread", "lead"):
            return self._over_systems(name, _argument(node))
        numbers = [self._number(argument) for argument in node.args]
        return abs(numbers[0]) if name == "abs" else least(numbers) if name == "min" else greatest(numbers)

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
        return words.number(value.value)
    low = "unbounded below" if value.low == -float("inf") else words.number(value.low)
    return f"{words.number(value.value)} ({low} to {words.number(value.high)})"


def _placed(found: list[Interval], place: int, upwards: bool) -> Interval:
    """What is known of the n-th best value: it never falls when one of the values grows, so its ends are known."""

    def nth(values: list[float]) -> float:
        return sorted(values, reverse=not upwards)[place]

    return Interval(nth([i.value for i in found]), nth([i.low for i in found]), nth([i.high for i in found]))


def _argument(call: ast.Call) -> Reference:
    argument = call.args[0]
    assert isinstance(argument, ast.Subscript)  # study.expression accepts nothing else there
    return reference(argument)


def _less_is_better(metric: str) -> bool:
    return metric.startswith(_LESS_IS_BETTER)


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


def _text(node: ast.expr) -> str:
    # The parser hides the point of `latency.p99.9`; a reader gets it back.
    return re.sub(r"(\.p\d+)_(\d+)", r"\1.\2", ast.unparse(node)).replace("'", '"')
