"""A reference to measures in an expression: a metric, points and a system; and the points that it means."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from typing import Final

from mqlab.study.point import Point

ANY: Final = "*"
_ParameterValues = tuple[str, ...]


@dataclass(frozen=True)
class Reference:
    """`rate.received[A, size=1KiB] of "Q 1"`.

    `point` is the name of a point, or "" in a scenario without a sweep or if `where` selects the point. A value of
    `where` may be "*", and `scenario` may be a pattern ("Q*", "Q1|Q3"): the reference is then open, see `bound`.
    `system` is "" for the judged system.
    """

    metric: str
    scenario: str
    point: str = ""
    where: tuple[tuple[str, str], ...] = ()
    system: str = ""

    @property
    def open(self) -> bool:
        """Whether it matches several points; accepted only inside min, max or mean."""
        return _is_pattern(self.scenario) or any(value == ANY for _, value in self.where)

    @property
    def place(self) -> str:
        """The scenario, point and parameters as text."""
        values = ", ".join(f"{key}={value}" for key, value in self.where)
        return " ".join(part for part in (self.scenario, self.point, values) if part)

    def matches(self, point: Point) -> bool:
        if not in_scenario(self.scenario, point.scenario):
            return False
        if not self.where:
            return point.name == self.point or (_is_pattern(self.scenario) and not self.point)
        return all(key in point.parameters and value in (ANY, point.parameters[key]) for key, value in self.where)

    def bound(self, point: Point) -> "Reference":
        """Return a closed reference: the point's values replace every "*", and its scenario replaces a pattern."""
        where = tuple((key, point.parameters.get(key, value) if value == ANY else value) for key, value in self.where)
        scenario = point.scenario if _is_pattern(self.scenario) else self.scenario
        return replace(self, scenario=scenario, where=where)


class PointIndex:
    """Finds the points of a study that a reference means."""

    def __init__(self, points: Sequence[Point]) -> None:
        self._points = points
        self._by_values: dict[tuple[str, _ParameterValues], dict[_ParameterValues, list[Point]]] = {}

    def find(self, reference: Reference) -> list[Point]:
        if reference.open or not reference.where:
            return [point for point in self._points if reference.matches(point)]
        names = tuple(name for name, _ in reference.where)
        return self._index(reference.scenario, names).get(tuple(value for _, value in reference.where), [])

    def _index(self, scenario: str, names: _ParameterValues) -> dict[_ParameterValues, list[Point]]:
        index = self._by_values.get((scenario, names))
        if index is None:
            index = self._by_values[scenario, names] = {}
            for point in self._points:
                if point.scenario == scenario and all(name in point.parameters for name in names):
                    index.setdefault(tuple(point.parameters[name] for name in names), []).append(point)
        return index


def in_scenario(pattern: str, scenario: str) -> bool:
    return pattern == scenario or any(fnmatchcase(scenario, part.strip()) for part in pattern.split("|"))


def _is_pattern(scenario: str) -> bool:
    return any(char in scenario for char in "*?|[")
