"""How the messages of several points travelled: each way with its places."""

from collections.abc import Iterable, Mapping, Sequence

from mqlab.report.data.run_results import RunResults
from mqlab.report.render.formatting import listed
from mqlab.study import Point


def ways_of_travel(results: RunResults, places: Iterable[tuple[str, Point]]) -> dict[str, list[str]]:
    """The places of each way that was recorded, by systems and points. Systems are named where they differ.

    A scenario whose points differ has a parameter that tells its ways apart, if there is one.
    """
    # The points of each way, by scenario and system.
    travels: dict[str, dict[str, dict[str, list[Point]]]] = {}
    for system, point in places:
        if way := results.travel(system, point):
            travels.setdefault(point.scenario, {}).setdefault(system, {}).setdefault(way, []).append(point)
    found: dict[str, dict[str, None]] = {}  # without values: a dictionary keeps the order
    for scenario, by_system in travels.items():
        alike = len({frozenset(ways) for ways in by_system.values()}) == 1
        for system, ways in by_system.items():
            for way, parameter in _distinguishing_parameters(ways).items():
                place = f"{scenario}{parameter}"
                found.setdefault(way, {})[place if alike else f"{system} in {place}"] = None
    return {way: [*there] for way, there in found.items()}


def described(ways: Mapping[str, list[str]]) -> str:
    """`confirmed one by one: G; message by message: A and B`."""
    return "; ".join(f"{way}: {listed(places)}" for way, places in ways.items())


def _distinguishing_parameters(ways: Mapping[str, Sequence[Point]]) -> dict[str, str]:
    """Of each way, the first parameter of which no other way of the same scenario has a value in common."""
    values = {
        way: {name: {point.parameters.get(name) for point in points} for name in points[0].parameters}
        for way, points in ways.items()
    }
    labels = {}
    for way, of_way in values.items():
        others = [of_other for other, of_other in values.items() if other != way]
        distinguishing = (
            f" ({name}={'|'.join(sorted(filter(None, own)))})"
            for name, own in of_way.items()
            if others and all(own.isdisjoint(of_other.get(name, own)) for of_other in others)
        )
        labels[way] = next(distinguishing, "")
    return labels
