"""The points of an exhibit, grouped into rows by the values of the parameters that it names."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from mqlab.report.data.run_results import RunResults
from mqlab.study import Exhibit, Point

SCENARIO: Final = "scenario"
# The lengths of a run do not distinguish points.
_LENGTHS: Final = frozenset(("warmup", "measure", "drain"))

Key = tuple[str, ...]  # the values of the parameters that make a row


@dataclass
class RowPoints:
    """The points of one row in one scenario: those of this run's scale, and those at full scale.

    Published values belong to the latter; a shorter scale may lack some of them.
    """

    scenario: str
    measured: list[Point] = field(default_factory=list)
    full: list[Point] = field(default_factory=list)

    @property
    def point(self) -> Point | None:
        """The point of this run; None where the scale has none, or the row has several."""
        return self.measured[0] if len(self.measured) == 1 else None

    @property
    def declared(self) -> Point | None:
        """The point that published values belong to."""
        points = self.full or self.measured
        return points[0] if points else None

    def absence(self, results: RunResults) -> str:
        return "several points" if self.measured else f"not part of the scale {results.scale}"


def row_names(exhibit: Exhibit, points: Sequence[Point], varied: Sequence[str] = ()) -> Key:
    """The parameters that make a row: those of `by`, and any other in which points of a row would differ.

    `varied` are parameters that may differ inside a row.
    """
    names = list(exhibit.by)
    for name in dict.fromkeys(name for point in points for name in swept(point)):
        if name not in names and name not in varied and name not in _LENGTHS and _differs(points, names, name):
            names.append(name)
    return tuple(names)


def swept(point: Point) -> list[str]:
    """The parameters that the study sweeps: those in the point's name. All others depend on them."""
    return [name for name, value in point.parameters.items() if f"{name}={value}" in point.name]


def rows(results: RunResults, exhibit: Exhibit, names: Key) -> dict[Key, dict[str, RowPoints]]:
    """The points of each row by scenario, in the order of the study."""
    table: dict[Key, dict[str, RowPoints]] = {}
    for points, own in ((results.declared, False), (results.points, True)):
        for point in exhibit.select_points(points):
            by_scenario = table.setdefault(key_of(point, names), {})
            row_points = by_scenario.setdefault(point.scenario, RowPoints(point.scenario))
            (row_points.measured if own else row_points.full).append(point)
    return table


def key_of(point: Point, names: Sequence[str]) -> Key:
    return tuple(point.scenario if name == SCENARIO else point.parameters.get(name, "") for name in names)


def _differs(points: Sequence[Point], names: Sequence[str], name: str) -> bool:
    """Whether two points of one row and one scenario have different values of the parameter."""
    first: dict[tuple[str, Key], str] = {}
    for point in points:
        value = point.parameters.get(name, "")
        if first.setdefault((point.scenario, key_of(point, names)), value) != value:
            return True
    return False
