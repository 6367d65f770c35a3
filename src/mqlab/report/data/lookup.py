"""Points by what a claim says of them: a claim over a grid asks for each of its points again and again."""

from collections.abc import Sequence

from mqlab.study import Point
from mqlab.study.language.reference import Reference

_Values = tuple[str, ...]


class Lookup:
    """The points of a study, found by a reference."""

    def __init__(self, points: Sequence[Point]) -> None:
        self._points = points
        self._by_values: dict[tuple[str, _Values], dict[_Values, list[Point]]] = {}

    def find(self, wanted: Reference) -> list[Point]:
        if wanted.open or not wanted.where:
            return [point for point in self._points if wanted.matches(point)]
        names = tuple(name for name, _ in wanted.where)
        return self._index(wanted.scenario, names).get(tuple(value for _, value in wanted.where), [])

    def _index(self, scenario: str, names: _Values) -> dict[_Values, list[Point]]:
        known = self._by_values.get((scenario, names))
        if known is None:
            known = self._by_values[scenario, names] = {}
            for point in self._points:
                if point.scenario == scenario and all(name in point.parameters for name in names):
                    known.setdefault(tuple(point.parameters[name] for name in names), []).append(point)
        return known
