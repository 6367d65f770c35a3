"""Which points an exhibit is about, and how they make rows: by the values of the parameters that it names."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from mqlab.report.data.findings import Findings
from mqlab.study import Exhibit, Point

SCENARIO: Final = "scenario"
# How long a point is looked at is no part of what it is.
_LENGTHS: Final = frozenset(("warmup", "measure", "drain"))

Key = tuple[str, ...]  # the values of the parameters that make a row


@dataclass
class Spot:
    """The points of one row in one scenario: those of this run's scale, and those of the study in full length.

    A study printed its values for the latter; a shorter scale may have left some of them out.
    """

    scenario: str
    ours: list[Point] = field(default_factory=list)
    full: list[Point] = field(default_factory=list)

    @property
    def point(self) -> Point | None:
        """The point of this run; None where the scale has none, or the row leaves several."""
        return self.ours[0] if len(self.ours) == 1 else None

    @property
    def declared(self) -> Point | None:
        """The point that printed values belong to."""
        found = self.full or self.ours
        return found[0] if found else None

    def absence(self, findings: Findings) -> str:
        return "several points" if self.ours else f"not part of the scale {findings.scale}"


def row_names(exhibit: Exhibit, points: Sequence[Point], apart: Sequence[str] = ()) -> Key:
    """The parameters that make a row: those it names, and any other in which two points of a row would differ.

    `apart` are those that vary inside a row on purpose.
    """
    names = list(exhibit.by)
    for name in dict.fromkeys(name for point in points for name in swept(point)):
        if name not in names and name not in apart and name not in _LENGTHS and _differs(points, names, name):
            names.append(name)
    return tuple(names)


def swept(point: Point) -> list[str]:
    """The parameters that the study varies, as the point's name has them; others only follow from these."""
    return [name for name, value in point.parameters.items() if f"{name}={value}" in point.name]


def rows(findings: Findings, exhibit: Exhibit, names: Key) -> dict[Key, dict[str, Spot]]:
    """The spots of each row by scenario, in the order of the study."""
    found: dict[Key, dict[str, Spot]] = {}
    for points, own in ((findings.declared, False), (findings.points, True)):
        for point in exhibit.select_points(points):
            spots = found.setdefault(key_of(point, names), {})
            spot = spots.setdefault(point.scenario, Spot(point.scenario))
            (spot.ours if own else spot.full).append(point)
    return found


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
