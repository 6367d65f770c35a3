"""What a study shows and what it says: exhibits and claims as values."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from mqlab.study.point import Point

Form = Literal["matrix", "bars", "summary", "settings", "diagram", "setup", "table", "lines", "series"]
# What a column or a line shows of a metric: itself; the first system's value over the second's; how many percent the
# faster of two is ahead; the change in percent against the base point; the greatest over swept parameters.
Kind = Literal["value", "ratio", "faster", "impact", "peak"]


@dataclass(frozen=True)
class Figures:
    """A column of a table (one for each system, where it is about one), or what a line chart draws."""

    kind: Kind
    metric: str
    head: str = ""  # "": the words of the metric
    # Of a peak, and of a ratio of two peaks: the parameters that vary. Where a peak was stands beside it in brackets.
    over: tuple[str, ...] = ()


@dataclass(frozen=True)
class Exhibit:
    """A table or figure. A field that its form has no use for is None or empty. With `each`: one a scenario."""

    form: Form
    title: str  # holds {scenario} when there is one a scenario
    each: Literal["scenario"] | None = None
    rows: str | None = None
    columns: str | None = None
    bars: str | None = None
    value: str | None = None  # a metric
    # Of tables, lines, series, and bars by a parameter: which points, and how they are laid out.
    of: tuple[str, ...] = ()  # scenarios; (): all
    # Parameters that a point must have, as Point.parameters shows them; one that comes twice may have either value.
    where: tuple[tuple[str, str], ...] = ()
    by: tuple[str, ...] = ()  # the parameters (or "scenario") that make a row, a group of bars, or one line
    x: str = ""  # the parameter along the axis of a line chart
    figures: tuple[Figures, ...] = ()  # columns; or one or two values of a line chart, the second on an axis of its own

    def wanted(self) -> dict[str, set[str]]:
        """The values that each parameter of `where` may have."""
        found: dict[str, set[str]] = {}
        for name, value in self.where:
            found.setdefault(name, set()).add(value)
        return found

    def chosen(self, points: Iterable[Point]) -> list[Point]:
        """The points that it shows, in their order."""
        wanted = self.wanted()
        return [
            point
            for point in points
            if (not self.of or point.scenario in self.of)
            and all(point.parameters.get(name) in values for name, values in wanted.items())
        ]

    def title_for(self, scenario: str) -> str:
        return self.title.replace("{scenario}", scenario)


@dataclass(frozen=True)
class Claim:
    """A sentence of a study: either `check` (see expression.py) or the reason why it is not testable."""

    id: str
    says: str
    source: str
    check: str | None = None
    not_testable: str | None = None
    note: str | None = None
