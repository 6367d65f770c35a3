"""An index of points by parameters: a claim over a grid looks up each of its points many times."""

from collections.abc import Sequence

from mqlab.study import Point
from mqlab.study.language.reference import Reference

_ParameterValues = tuple[str, ...]


class PointIndex:
    """Finds the points of a study that a reference of a claim means."""

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
