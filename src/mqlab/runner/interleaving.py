"""Which points take turns: those that are compared with each other, so that what drifts drifts for all of them."""

from collections.abc import Sequence

from mqlab.study import Point

# What differs between a point and the one that stands beside it with other settings of the system.
_NAMES_AND_SETTINGS = {"name", "parameters", "base", "settings"}


def groups(points: Sequence[Point]) -> list[list[Point]]:
    """In the order of their first points: those of one scenario that differ only in settings, or have a common base."""
    found: list[list[Point]] = []
    place: dict[tuple[str, str], int] = {}
    for point in points:
        words = _words(point)
        known = sorted({place[word] for word in words if word in place})
        if known:
            first, *others = known
            for other in others:
                found[first] += found[other]
                found[other] = []
        else:
            first = len(found)
            found.append([])
        found[first].append(point)
        place = {word: first if at in known else at for word, at in place.items()} | dict.fromkeys(words, first)
    # Two groups that turned out to be one are in the order of the study again.
    order = {id(point): number for number, point in enumerate(points)}
    return [sorted(group, key=lambda point: order[id(point)]) for group in found if group]


def _words(point: Point) -> list[tuple[str, str]]:
    """Points that have one of these in common belong together."""
    alike = point.model_dump_json(exclude=_NAMES_AND_SETTINGS)
    words = [(point.scenario, f"alike: {alike}"), (point.scenario, f"point: {point.name}")]
    return words if point.base is None else [*words, (point.scenario, f"point: {point.base}")]
