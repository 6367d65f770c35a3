"""How much longer the runs of an undecided claim would have to take, to decide it.

Each open comparison is projected: its interval shrinks with the root of the number of runs, and the value of a new run
folder lies where the present one says that it may. The fewest runs count that decide it in four of five cases or more.
A claim of several comparisons needs all of them where it would hold, and the one that costs least where it would be
refuted.
"""

import ast
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import NormalDist
from typing import Final

from mqlab.report.claims.evaluation import CheckedComparison, CheckResult
from mqlab.report.claims.interval import Interval
from mqlab.report.claims.values import ClaimValues
from mqlab.report.data.run_results import PointKey
from mqlab.study.language.expression import Expression, references

# Of the new run folders, those that decide a comparison.
DECIDED_SHARE: Final = 0.8
_NORMAL: Final = NormalDist()
# The standard errors in half an interval, at least: few runs and several looks make it more.
_ERRORS_IN_HALF: Final = _NORMAL.inv_cdf(0.975)
# With so many times the runs a value is too close to what the claim needs.
_MOST: Final = 1e6

# By point: how many times the present runs it needs.
Times = Mapping[PointKey, float]


@dataclass(frozen=True)
class _Projection:
    """`likely`: what a part will most likely be; `times`: the runs for it, or None: not known."""

    likely: bool
    times: Times | None

    @property
    def negated(self) -> "_Projection":
        return _Projection(not self.likely, self.times)


def missing_seconds(expression: Expression, source: ClaimValues, result: CheckResult) -> float | None:
    """For an undecided check. None: more runs do not decide it, or it is not known how many do."""
    projector = _Projector(source, result, source.run_seconds(expression.references()))
    times = projector.project(expression.tree.body).times
    return None if times is None else projector.cost(times)


def lacks_interval(expression: Expression, source: ClaimValues, result: CheckResult) -> bool:
    """Whether an open comparison has no interval yet, and not since the lab bounds it."""
    values = (one.value for one in result.comparisons if one.truth is None)
    has_unknown = any(value is not None and not _is_known(value) for value in values)
    return has_unknown and not source.is_bounded(expression.references())


def _is_known(value: Interval) -> bool:
    return math.isfinite(value.low) and math.isfinite(value.high)


@dataclass(frozen=True)
class _Projector:
    """`seconds`: the time of the present runs, by point."""

    source: ClaimValues
    result: CheckResult
    seconds: Mapping[PointKey, float]

    def project(self, node: ast.expr) -> _Projection:
        match node:
            case ast.BoolOp(op=ast.And(), values=parts):
                return self._all([self.project(part) for part in parts])
            case ast.BoolOp(values=parts):
                return self._all([self.project(part).negated for part in parts]).negated
            case ast.UnaryOp(operand=part):
                return self.project(part).negated
        return self._all([self._one(node, one) for one in self.result.by_node.get(node, ())])

    def _all(self, parts: Sequence[_Projection]) -> _Projection:
        against = [part.times for part in parts if not part.likely]
        if against:
            known = [times for times in against if times is not None]
            return _Projection(False, min(known, key=self.cost, default=None))
        return _Projection(True, _joined([part.times for part in parts]))

    def _one(self, node: ast.expr, comparison: CheckedComparison) -> _Projection:
        if comparison.truth is not None:
            return _Projection(comparison.truth, {})
        times = None if comparison.value is None else times_to_decide(comparison.value, comparison.limits)
        if times is None or self.source.is_bounded(references(node)):
            return _Projection(comparison.likely, None)
        return _Projection(comparison.likely, dict.fromkeys(self.source.run_seconds(references(node)), times))

    def cost(self, times: Times) -> float:
        """The seconds of the further runs."""
        return sum((times[key] - 1) * self.seconds[key] for key in times)


def times_to_decide(value: Interval, limits: Iterable[float]) -> float | None:
    """How many times the runs decide on which side of each limit the value is; None without an interval."""
    ends = [(limit, value.high if limit > value.value else value.low) for limit in limits]
    if not ends or not _is_known(value):
        return None
    is_ratio = min(value.low, *(limit for limit, _ in ends)) > 0
    scale = math.log if is_ratio else float
    gaps = [(abs(scale(limit) - scale(value.value)), abs(scale(end) - scale(value.value))) for limit, end in ends]
    if not all(half for _, half in gaps):
        return None
    low, high = 0.0, math.log(_MOST)
    while high - low > 1e-3:
        middle = (low + high) / 2
        undecided = sum(_share_near(gap, half, math.exp(middle)) for gap, half in gaps)
        low, high = (middle, high) if undecided > 1 - DECIDED_SHARE else (low, middle)
    return math.exp(high)


def _share_near(gap: float, half: float, times: float) -> float:
    """The share of new values whose interval has the limit inside, which is `gap` away from the present value."""
    error = half / _ERRORS_IN_HALF * math.sqrt(1 + 1 / times)
    reach = half / math.sqrt(times)
    return _NORMAL.cdf((gap + reach) / error) - _NORMAL.cdf((gap - reach) / error)


def _joined(all_times: Sequence[Times | None]) -> Times | None:
    joined: dict[PointKey, float] = {}
    for times in all_times:
        if times is None:
            return None
        joined |= {key: max(value, joined.get(key, 1.0)) for key, value in times.items()}
    return joined
