"""The trials of capacity searches, from the measure tables; and the runs that the searches ask for next."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Final

from mqlab.pipeline import schema
from mqlab.report.data.run_results import RunResults
from mqlab.report.render import formatting
from mqlab.study import Point
from mqlab.study.capacity.goal import LatencyGoal
from mqlab.study.capacity.points import CEILING, at_rate, lowest_rate
from mqlab.study.capacity.search import Capacity, CapacitySearch, Outcome, RunRequest, Trial
from mqlab.study.language.units import format_rate
from mqlab.study.metric import fewest_observations

# A run that reaches less than this share of its planned rate has not played that rate.
_REACHED: Final = 0.97
# The sends that a measure phase may count more or less than it planned, for each sender: those at its edges.
_AT_EDGES: Final = 2


@dataclass(frozen=True)
class PointSearch:
    """The search for one point with `rate: max`, on one system."""

    results: RunResults
    system: str
    point: Point
    goal: LatencyGoal

    @cached_property
    def points(self) -> tuple[Point, ...]:
        """The same workload at the rates that were tried, by rate."""
        tried = (p for p in self.results.points if p.scenario == self.point.scenario and p.rate is not None)
        same = [p for p in tried if p.workload == self.point.workload]
        return tuple(sorted(same, key=lambda point: point.rate or 0.0))

    @cached_property
    def trials(self) -> list[Trial]:
        return [trial for point in self.points for trial in self._trials_of(point)]

    @cached_property
    def peak(self) -> float | None:
        """The rate of the producers (or requesters) in a closed loop; None if it was not measured."""
        metric = "rate.round_trips" if self.point.pattern == "request-reply" else "rate.sent"
        measure = self.results.measure(self.system, self.point, metric)
        return measure.value if measure and measure.value > 0 else None

    @cached_property
    def capacity(self) -> Capacity:
        if self.peak is None:
            return Capacity("undecided", None, reason=f"nothing runs: {self.results.absence(self.system, self.point)}")
        if self.peak < self._search.floor:
            need, length = fewest_observations(self.goal.metric), fewest_observations(self.goal.metric) / self.peak
            peak = f"at its highest rate of {formatting.number(self.peak)}/s a run must measure {length:,.1f} s or more"
            return Capacity("undecided", None, reason=f"{self.goal.metric} needs {need:,} messages: {peak}")
        return self._search.result(self.trials)

    def requests(self) -> Iterator[RunRequest]:
        """None if the search is over."""
        if self.peak is not None and self.peak >= self._search.floor:
            for rate, runs in self._search.next_runs(self.trials).items():
                yield RunRequest(self.system, at_rate(self.point, rate), runs)

    @property
    def _search(self) -> CapacitySearch:
        return CapacitySearch(self.peak or 0.0, lowest_rate(self.point, self.goal), CEILING, self.goal.within)

    def _trials_of(self, point: Point) -> Iterator[Trial]:
        for audit in self.results.audits_of(self.system, point):
            noise, values = self.results.noise_of[audit.run], self.results.values_of.get(audit.run, {})
            if audit.status != schema.CLEAN:
                missed = f"{audit.status}: {audit.reason}" if audit.reason else audit.status
            else:
                missed = noise.unsteady or self._why_missed(point, values)
            outcome: Outcome = "unknown" if missed and noise.disturbed else "missed" if missed else "held"
            yield Trial(point.rate or 0.0, outcome, f"{missed}; {noise.disturbed}" if noise.disturbed else missed)

    def _why_missed(self, point: Point, values: dict[str, schema.RunMeasureRow]) -> str:
        measure, metric = values.get(self.goal.metric), "rate.round_trips" if point.requesters else "rate.sent"
        if measure is None:
            return f"{self.goal.metric} was not measured"
        if (measure.observations or 0) < fewest_observations(self.goal.metric):
            return f"{measure.observations} independent observations are too few for {self.goal.metric}"
        if not measure.value < self.goal.limit:
            return f"{self.goal.metric} was {formatting.quantity(measure.value, 's')}"
        planned, reached = point.rate or 0.0, values[metric].value if metric in values else 0.0
        at_edges = _AT_EDGES * (point.producers + point.requesters) / point.phases.measure
        if reached < min(_REACHED * planned, planned - at_edges):
            return f"only {formatting.number(reached)}/s of the planned {format_rate(planned)} were sent"
        return ""


def searches(results: RunResults) -> list[PointSearch]:
    """Every search of the study, in its order."""
    goals = {name: scenario.find for name, scenario in results.study.scenarios.items() if scenario.find}
    return [
        PointSearch(results, system.name, point, goals[point.scenario])
        for point in results.points if point.scenario in goals and point.loop == "closed"
        for system in results.systems
    ]  # fmt: skip


def next_runs(results: RunResults) -> list[RunRequest]:
    """The runs that all searches need; [] if they are over."""
    return [request for search in searches(results) for request in search.requests()]
