"""Which series have common runs, between whose settings the lab switches, and what each of such a run is."""

from collections.abc import Callable, Mapping, Sequence

from mqlab.json_values import JsonObject
from mqlab.runner.results.outcome import RunOutcome
from mqlab.runner.rounds import RunSeries, SeriesKey
from mqlab.runner.switching.switcher import SwitchedRun
from mqlab.study import Point
from mqlab.study.rounds.switching import common_runs
from mqlab.systems import System


class CommonRuns:
    """The series that are played together. A series of which nothing is known is played alone."""

    def __init__(self, series: Sequence[RunSeries]) -> None:
        self._common: dict[SeriesKey, Sequence[RunSeries]] = {}
        by_key = {each.key: each for each in series}
        for system in {each.system.label: each.system for each in series}.values():
            points = [each.point for each in series if each.system is system]
            for group in common_runs(points, system.live_settings):
                common = [by_key[system.label, point.scenario, point.name] for point in group]
                self._common |= {each.key: common for each in common}

    def of(self, group: Sequence[RunSeries]) -> list[Sequence[RunSeries]]:
        """All series that are played with those of the group, by common runs."""
        common = [self._common.get(series.key, [series]) for series in group]
        return [*{series[0].key: series for series in common}.values()]

    def runs_left(self, group: Sequence[RunSeries], targets: Mapping[SeriesKey, int]) -> int:
        """How many runs the group needs to come to its targets."""
        chosen = ([series for series in common if series.key in targets] for common in self.of(group))
        return sum(max(targets[series.key] - series.played for series in common) for common in chosen)


def switched_scenarios(systems: Sequence[System], points_of: Callable[[System], Sequence[Point]]) -> list[JsonObject]:
    """The scenarios with points that share their runs, for meta.json."""
    entries = {}
    for system in systems:
        for points in common_runs(points_of(system), system.live_settings):
            if len(points) > 1:
                entry = {"system": system.label, "scenario": points[0].scenario, "slice_s": points[0].switch}
                entries[system.label, points[0].scenario] = entry
    return [*entries.values()]


def sharing_runs(
    common: Sequence[RunSeries], point: Point, number: int, configure: Callable[[System, Point], System]
) -> list[SwitchedRun]:
    """The runs of the series, from this number on, with the phases of `point`; none if the series is alone."""
    if len(common) == 1:
        return []
    points = [series.point.model_copy(update={"phases": point.phases}) for series in common]
    return [
        SwitchedRun(number + place, each, configure(series.system, each))
        for place, (series, each) in enumerate(zip(common, points, strict=True))
    ]


def slowest(outcomes: Sequence[RunOutcome], point: Point) -> RunOutcome:
    """The outcome with the lowest rate."""
    return min(outcomes, key=lambda outcome: outcome.rate(point))
