"""The points whose further runs can still change a verdict, while a study runs: by the rates that the agents counted.

The pipeline makes every figure of the report. These figures only decide what is run next, and are shown nowhere.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from statistics import fmean, variance
from typing import Final

from mqlab.pipeline.schema import ImpactRow, MeasureRow, RunMeasureRow
from mqlab.report.claims.values import MeasuredValues
from mqlab.report.claims.verdicts import INCONCLUSIVE, NOT_TESTABLE, Verdict, judge
from mqlab.report.data.run_results import PointKey, RunResults
from mqlab.study import METRICS, Claim, Point, Study
from mqlab.study.language.expression import Expression, parse
from mqlab.study.shared_noise import RunNoise, moderated
from mqlab.study.statistics import LOOKS

# The rates of a point by repetition and metric.
PointRates = Mapping[int, Mapping[str, float]]
_COUNTED: Final = ("rate.sent", "rate.received", "rate.round_trips", "rate.work")


def open_points(
    run: RunResults, points: Sequence[Point], rates: Mapping[PointKey, PointRates], seconds_left: float
) -> set[PointKey]:
    """The points of the claims that are undecided; first those that cost the least, as long as the time is enough.

    `run` has no tables yet. A claim about a figure that the agents do not count is open until its points have an
    interval.
    """
    study = run.study
    counted = _Counted(study, points, rates, max(point.repeat.looks for point in points))
    results = replace(run, meta={**run.meta, "looks": counted.looks}).with_tables(
        measures=counted.measures(), run_measures=counted.run_measures(), impacts=counted.impacts(), audits=(), noise=()
    )
    claims = {claim.id: (claim, parse(claim.check)) for claim in study.claims if claim.check is not None}
    costs: list[tuple[float, set[PointKey]]] = []
    found: set[PointKey] = set()
    for verdict in judge(results):
        if verdict.basis != "measured" or verdict.claim not in claims:
            continue
        claim, expression = claims[verdict.claim]
        if verdict.verdict == INCONCLUSIVE:
            costs.append((60 * (verdict.missing_minutes or 0.0), _points(results, verdict, expression)))
        elif verdict.verdict == NOT_TESTABLE and _is_uncounted(results, claim, expression):
            found |= {
                key for key in _points(results, verdict, expression) if len(rates.get(key, ())) < LOOKS[0]
            }  # fmt: skip
    spent = 0.0
    for seconds, keys in sorted(costs, key=lambda cost: cost[0]):
        if spent and spent + seconds > seconds_left:
            break
        spent += seconds
        found |= keys
    return found


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
    return are_known and not claim.imposed_by and any(r.metric not in _COUNTED for r in expression.references())


@dataclass(frozen=True)
class _Counted:
    """The tables of a run that goes on, as the pipeline would compute them from these rates."""

    study: Study
    points: Sequence[Point]
    rates: Mapping[PointKey, PointRates]
    looks: int

    @property
    def systems(self) -> list[str]:
        return list(dict.fromkeys(system for system, _, _ in self.rates))

    def measures(self) -> list[MeasureRow]:
        rows = []
        for system, metric in product(self.systems, _COUNTED):
            keys = [key for key in self.rates if key[0] == system]
            values = [[runs[metric] for runs in self.rates[key].values() if runs[metric] > 0] for key in keys]
            noises = moderated([RunNoise.of(runs) for runs in values])
            for key, runs, noise in zip(keys, values, noises, strict=True):
                if runs:
                    rows.append(self._measure(key, metric, fmean(runs), len(runs), noise))
                elif not self.rates[key]:
                    # No run of the point can be used so far: its figure may be anything, and decides nothing.
                    rows.append(replace(self._measure(key, metric, 1.0, 0, None), quiet=False))
        return rows

    def run_measures(self) -> list[RunMeasureRow]:
        return [
            RunMeasureRow(0, scenario, point, system, number, metric, runs[metric], METRICS[metric].unit, None)
            for (system, scenario, point), by_round in self.rates.items()
            for number, runs in by_round.items()
            for metric in _COUNTED
            if runs[metric] > 0
        ]

    def _measure(self, key: PointKey, metric: str, value: float, runs: int, noise: RunNoise | None) -> MeasureRow:
        system, scenario, point = key
        return MeasureRow(
            self.study.id, scenario, point, system, metric, value, METRICS[metric].unit,
            noise and value * noise.half_width(runs, self.looks), runs, noise and noise.degrees_of_freedom,
            bound_by=None, attempted=runs, void=0, flagged=0, quiet=True, client_cpu=None, observations=None,
        )  # fmt: skip

    def impacts(self) -> list[ImpactRow]:
        """From the repetitions that a point and its base both have."""
        rows = []
        for system, metric in product(self.systems, _COUNTED):
            all_logs = [(point, self._log_ratios(system, point, metric)) for point in self.points if point.base]
            known = [(point, logs) for point, logs in all_logs if logs]
            noises = moderated([
                RunNoise(variance(logs), len(logs) - 1) if len(logs) > 1 else None for _, logs in known
            ])  # fmt: skip
            rows += [
                self._impact(system, point, metric, logs, noise)
                for (point, logs), noise in zip(known, noises, strict=True)
            ]
        return rows

    def _log_ratios(self, system: str, point: Point, metric: str) -> list[float]:
        own, base = (self.rates.get((system, point.scenario, name or ""), {}) for name in (point.name, point.base))
        common = [(own[n][metric], base[n][metric]) for n in own if n in base]
        return [math.log(first / second) for first, second in common if first > 0 and second > 0]

    def _impact(self, system: str, point: Point, metric: str, logs: list[float], noise: RunNoise | None) -> ImpactRow:
        middle = fmean(logs)
        value, low, high, wider = 100 * math.expm1(middle), None, None, None
        if noise is not None:
            half = noise.half_width(len(logs), self.looks)
            low, high = 100 * math.expm1(middle - half), 100 * math.expm1(middle + half)
            wider = max(high - value, value - low)
        return ImpactRow(
            point.scenario, point.name, system, metric, point.base or "", value, low, high, wider, True, len(logs),
            noise and noise.degrees_of_freedom,
        )  # fmt: skip
