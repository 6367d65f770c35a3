"""The points whose further runs can still change a verdict, while a study runs: by the rates that the agents counted.

An open claim is projected: with more runs of the same means and the same scatter, would it be decided? The fewest runs
that would do it are its cost. Most decisions for the time that is left: the claims that cost least come first, and a
point that several claims ask about costs only once.

The pipeline makes every figure of the report. These figures only decide what is run next, and are shown nowhere.
"""

import random
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import inf, sqrt
from statistics import fmean, stdev
from typing import Final

from mqlab.report.claims.counted import COUNTED, CountedRates, PointRates
from mqlab.report.claims.values import MeasuredValues
from mqlab.report.claims.verdicts import INCONCLUSIVE, NOT_TESTABLE, Verdict, judge_on, judge_subject
from mqlab.report.data.run_results import PointKey, RunResults
from mqlab.study import Claim, Point
from mqlab.study.language.expression import Expression, parse
from mqlab.study.rounds.played import PlayedRuns
from mqlab.study.shared_noise import RunNoise, share
from mqlab.study.statistics import LOOKS, next_look

# With fewer runs of a point it is chance whether more of the same would decide a claim.
_FORESEEING_RUNS: Final = 3
# Of the runs of a point, relative to their mean, as long as too few points have two.
_USUAL_DEVIATION: Final = 0.1
# The runs for which the points of a claim go on that is about a metric which the agents do not count.
_UNCOUNTED_RUNS: Final = (3, 6, 12)


def open_points(
    run: RunResults, points: Sequence[Point], played: Mapping[PointKey, PlayedRuns], seconds_left: float
) -> list[PointKey]:
    """The points to go on with, first those that decide a claim soonest. `run` has no tables yet."""
    outlook = _Outlook(run, points, played)
    needs = [outlook.need(claim) for claim in outlook.open_claims()]
    return outlook.spend([need for need in needs if need.keys], seconds_left)


@dataclass(frozen=True)
class _OpenClaim:
    claim: Claim
    expression: Expression
    subject: str
    keys: frozenset[PointKey]
    is_counted: bool = True  # False: about a metric that only the pipeline knows


@dataclass(frozen=True)
class _Need:
    """The points that need more runs to decide a claim, and up to how many; `is_likely`: these are enough for it."""

    keys: frozenset[PointKey]
    target: int
    is_likely: bool


@dataclass(frozen=True)
class _Outlook:
    run: RunResults
    points: Sequence[Point]
    played: Mapping[PointKey, PlayedRuns]

    @cached_property
    def looks(self) -> int:
        return max(point.repeat.looks for point in self.points)

    @cached_property
    def most(self) -> Mapping[tuple[str, str], int]:
        return {(point.scenario, point.name): point.repeat.most for point in self.points}

    def results(self, ahead: Mapping[PointKey, PointRates], metrics: Sequence[str] = COUNTED) -> RunResults:
        """`ahead`: rates in place of those that were counted."""
        rates = {key: ahead.get(key, runs.rates) for key, runs in self.played.items()}
        return CountedRates(self.run.study, self.points, rates, self.looks, metrics).results(self.run)

    def open_claims(self) -> Iterator[_OpenClaim]:
        """A claim about a figure that the agents do not count may be open: it is judged at the end."""
        results = self.results({})
        for claim in self.run.study.claims:
            for verdict in judge_on(claim, MeasuredValues(results)) if claim.check is not None else ():
                expression = parse(claim.check or "")
                is_uncounted = verdict.verdict == NOT_TESTABLE and _is_uncounted(results, claim, expression)
                if is_uncounted or verdict.verdict == INCONCLUSIVE:
                    keys = frozenset(_points(results, verdict, expression)) & self.played.keys()
                    yield _OpenClaim(claim, expression, verdict.subject, keys, not is_uncounted)

    def need(self, one: _OpenClaim) -> _Need:
        unfinished = frozenset(key for key in one.keys if self.played[key].played < self.most[key[1:]])
        most = max((self.most[key[1:]] for key in unfinished), default=0)
        few = frozenset(key for key in unfinished if self.played[key].valid < _FORESEEING_RUNS)
        if not one.is_counted:
            return self._uncounted_need(unfinished)
        for target in sorted({*(look for look in LOOKS if 1 < look < most), most}):
            keys = frozenset(key for key in unfinished if self.played[key].valid < target)
            if keys and self._is_decided(one, keys, target):
                if few and target > _FORESEEING_RUNS:
                    return _Need(few, _FORESEEING_RUNS, is_likely=True)
                return _Need(self._fewest(one, keys, target), target, is_likely=True)
        steps = [self.played[key].played for key in unfinished]
        return _Need(unfinished, next_look(min(steps, default=0), most), is_likely=False)

    def _uncounted_need(self, unfinished: frozenset[PointKey]) -> _Need:
        """Enough runs for an interval; and, if nothing else can be decided, for a narrower one."""
        for target in _UNCOUNTED_RUNS:
            keys = frozenset(key for key in unfinished if self.played[key].valid < target)
            if keys:
                break
        return _Need(keys, target, is_likely=target == _UNCOUNTED_RUNS[0])

    def _fewest(self, one: _OpenClaim, keys: frozenset[PointKey], target: int) -> frozenset[PointKey]:
        """Leave out, the most expensive first, the points that the claim does not need: one may refute it alone."""
        for key in sorted(keys, key=lambda key: (-self._seconds({key}, target), key)):
            if len(keys) > 1 and self._is_decided(one, keys - {key}, target):
                keys -= {key}
        return keys

    def _is_decided(self, one: _OpenClaim, keys: Collection[PointKey], target: int) -> bool:
        """Whether the claim would be decided if these points had so many runs."""
        metrics = sorted({reference.metric for reference in one.expression.references()} & {*COUNTED})
        ahead = {key: self._projected(key, target) for key in keys}
        values = MeasuredValues(self.results(ahead, metrics)).for_subject(one.subject)
        return judge_subject(one.claim, one.expression, values).verdict != INCONCLUSIVE

    def _projected(self, key: PointKey, target: int) -> PointRates:
        """The runs of a point, again and again; a single run, or a flagged one, with the scatter of all points."""
        runs = self.played[key]
        known = [*runs.rates.values()]
        if len(known) > 1:
            return {number: known[(number - 1) % len(known)] for number in range(1, target + 1)}
        if not known and runs.flagged is None:
            return {}
        rates = known[0] if known else runs.flagged or {}
        chance = random.Random(str(key))
        drawn = [chance.gauss() for _ in range(target)]
        mean, deviation = fmean(drawn), stdev(drawn)
        factors = [1 + self._deviation * (one - mean) / deviation for one in drawn]
        return {
            number: {metric: rate * max(0.1, factor) for metric, rate in rates.items()}
            for number, factor in enumerate(factors, 1)
        }

    @cached_property
    def _deviation(self) -> float:
        paced = {(point.scenario, point.name) for point in self.points if point.is_paced}
        used = [runs.rates.values() for key, runs in self.played.items() if key[1:] not in paced]
        noises = [RunNoise.of([rates["rate.work"] for rates in runs]) for runs in used]
        shared = share([noise for noise in noises if noise])
        return sqrt(shared.variance) if shared else _USUAL_DEVIATION

    def spend(self, needs: list[_Need], seconds_left: float) -> list[PointKey]:
        """The points of the claims that cost least, as long as the time is enough; those of one claim at least."""
        chosen: dict[PointKey, int] = {}
        spent = 0.0
        while needs:
            costs = [self._seconds(need.keys, need.target, chosen) for need in needs]
            best = min(range(len(needs)), key=lambda n: (not needs[n].is_likely, costs[n]))
            need, spent = needs.pop(best), spent + costs[best]
            if chosen and spent > seconds_left:
                break
            chosen |= {key: max(need.target, chosen.get(key, 0)) for key in sorted(need.keys)}
        return [*chosen]

    def _seconds(self, keys: Collection[PointKey], target: int, chosen: Mapping[PointKey, int] | None = None) -> float:
        """The time that these points need for so many valid runs, beyond those that are chosen."""
        total = 0.0
        for key in keys:
            runs = self.played[key]
            missing = target - max(runs.valid, (chosen or {}).get(key, 0))
            seconds = runs.seconds_per_valid
            total += max(0, missing) * (seconds if seconds < inf else 0.0)
        return total


def _points(results: RunResults, verdict: Verdict, expression: Expression) -> set[PointKey]:
    """The points that a claim is about, and the base points of those whose change it is about."""
    values = MeasuredValues(results).for_subject(verdict.subject)
    keys = set()
    for system, point, _ in values.measured_at(expression.references()):
        keys.add((system, point.scenario, point.name))
        if point.base is not None:
            keys.add((system, point.scenario, point.base))
    return keys


def _is_uncounted(results: RunResults, claim: Claim, expression: Expression) -> bool:
    """Whether it can be judged at the end, by a metric that only the pipeline knows."""
    values = MeasuredValues(results)
    has_points = all(values.all_points().find(reference) for reference in expression.references())
    are_known = has_points and all(values.resolve_system(name) for name in expression.systems())
    return are_known and not claim.imposed_by and any(r.metric not in COUNTED for r in expression.references())
