"""The exhibits (tables and charts) of a study."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from mqlab.study.point import Point

Form = Literal["matrix", "bars", "summary", "settings", "diagram", "setup", "table", "lines", "series"]
# A column or a line shows of a metric: its value; the first system's value / the second's; by how many percent the
# faster of two systems is ahead; the change in percent against the base point; the maximum over swept parameters.
ViewKind = Literal["value", "ratio", "faster", "impact", "peak"]


@dataclass(frozen=True)
class MetricView:
    """One metric in an exhibit: a column of a table (or one for each system), or the lines of a chart."""

    kind: ViewKind
    metric: str
    head: str = ""  # the heading; "": the label of the metric
    # The parameters that a peak, or a ratio of two peaks, is taken over. A table shows where a peak was in brackets.
    over: tuple[str, ...] = ()


@dataclass(frozen=True)
class Exhibit:
    """A table or chart. A field that its form does not use is None or empty. With `each`: one for each scenario."""

    form: Form
    title: str  # with {scenario} in it when there is one for each scenario
    each: Literal["scenario"] | None = None
    rows: str | None = None
    columns: str | None = None
    bars: str | None = None
    value: str | None = None  # a metric
    # For tables, lines, series and grouped bars: which points are shown, and how they are arranged.
    of: tuple[str, ...] = ()  # scenarios; (): all
    # (name, value) of parameters that a point must have, as in Point.parameters; a name that occurs twice may have
    # either value.
    where: tuple[tuple[str, str], ...] = ()
    by: tuple[str, ...] = ()  # the parameters (or "scenario") that make a row, a group of bars, or one line
    x: str = ""  # the parameter along the axis of a line chart
    # The columns of a table, or one or two metrics of a line chart; the second has an axis of its own.
    views: tuple[MetricView, ...] = ()

    def accepted_values(self) -> dict[str, set[str]]:
        """Return the values that each parameter of `where` may have."""
        values: dict[str, set[str]] = {}
        for name, value in self.where:
            values.setdefault(name, set()).add(value)
        return values

    def select_points(self, points: Iterable[Point]) -> list[Point]:
        """Without `of`, those of all scenarios but the lab's own."""
        accepted, chosen = self.accepted_values(), [*points]
        of = self.of or {point.scenario for point in chosen} - own_scenarios(chosen)
        return [
            point
            for point in chosen
            if point.scenario in of and all(point.parameters.get(name) in values for name, values in accepted.items())
        ]

    def title_for(self, scenario: str) -> str:
        return self.title.replace("{scenario}", scenario)


def own_scenarios(points: Iterable[Point]) -> set[str]:
    """The scenarios that the lab adds to a study: those with shares of the measured peak."""
    return {point.scenario for point in points if point.peak_share is not None}
