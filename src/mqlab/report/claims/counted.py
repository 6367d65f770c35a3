"""The tables of a run that goes on, from what the agents counted and the samples: as the pipeline would make them.

No report shows them. They decide what is run next.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from statistics import fmean, variance
from typing import Final

from mqlab.pipeline.schema import ImpactRow, MeasureRow, RunMeasureRow
from mqlab.report.data.run_results import PointKey, RunResults
from mqlab.study import METRICS, Point, Study
from mqlab.study.shared_noise import RunNoise, moderated

# The rates of a point by repetition and metric.
PointRates = Mapping[int, Mapping[str, float]]
COUNTED: Final = ("rate.sent", "rate.received", "rate.round_trips", "rate.work", "cpu.broker", "cpu.message")


@dataclass(frozen=True)
class CountedRates:
    """`metrics`: those that tables are made of."""

    study: Study
    points: Sequence[Point]
    rates: Mapping[PointKey, PointRates]
    looks: int
    metrics: Sequence[str] = COUNTED

    def results(self, run: RunResults) -> RunResults:
        """The run, which has no tables yet, with tables."""
        return replace(run, meta={**run.meta, "looks": self.looks}).with_tables(
            points=run.points, point_index=run.point_index, turns=run.turns, measures=self.measures(),
            run_measures=self.run_measures(), impacts=self.impacts(), audits=(), noise=(),
        )  # fmt: skip

    @property
    def systems(self) -> list[str]:
        return list(dict.fromkeys(system for system, _, _ in self.rates))

    def measures(self) -> list[MeasureRow]:
        rows = []
        paced = {(point.scenario, point.name) for point in self.points if point.is_paced}
        for system, metric, is_paced in product(self.systems, self.metrics, (False, True)):
            keys = [key for key in self.rates if key[0] == system and (key[1:] in paced) == is_paced]
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
            for metric in self.metrics
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
        """From the repetitions that a point and its base both have; without any, a change that may be anything."""
        rows = []
        for system, metric, is_paced in product(self.systems, self.metrics, (False, True)):
            based = [point for point in self.points if point.base and point.is_paced == is_paced]
            changed = [point for point in based if self._has_metric(system, point, metric)]
            all_logs = [self._log_ratios(system, point, metric) for point in changed]
            noises = moderated([
                RunNoise(variance(logs), len(logs) - 1) if len(logs) > 1 else None for logs in all_logs
            ])  # fmt: skip
            rows += [
                self._impact(system, point, metric, logs, noise if logs else None)
                for point, logs, noise in zip(changed, all_logs, noises, strict=True)
            ]
        return rows

    def _has_metric(self, system: str, point: Point, metric: str) -> bool:
        """Whether a change can be known, after more runs at the latest."""
        both = [self.rates.get((system, point.scenario, name or "")) for name in (point.name, point.base)]
        return all(runs is not None and all(rates[metric] > 0 for rates in runs.values()) for runs in both)

    def _log_ratios(self, system: str, point: Point, metric: str) -> list[float]:
        own, base = (self.rates[system, point.scenario, name or ""] for name in (point.name, point.base))
        common = [(own[n][metric], base[n][metric]) for n in own if n in base]
        return [math.log(first / second) for first, second in common]

    def _impact(self, system: str, point: Point, metric: str, logs: list[float], noise: RunNoise | None) -> ImpactRow:
        middle = fmean(logs) if logs else 0.0
        value, low, high, wider = 100 * math.expm1(middle), None, None, None
        if noise is not None:
            half = noise.half_width(len(logs), self.looks)
            low, high = 100 * math.expm1(middle - half), 100 * math.expm1(middle + half)
            wider = max(high - value, value - low)
        return ImpactRow(
            point.scenario, point.name, system, metric, point.base or "", value, low, high, wider, True, len(logs),
            noise and noise.degrees_of_freedom,
        )  # fmt: skip
