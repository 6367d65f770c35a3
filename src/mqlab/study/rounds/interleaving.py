"""Which points take turns: the runner plays their repetitions in common rounds."""

from collections.abc import Sequence
from typing import Final

from mqlab.study.point import Point

# The fields in which points of one scenario differ if only the settings of the system differ.
_NAMES_AND_SETTINGS: Final = {"name", "parameters", "base", "settings"}


def interleaved_groups(points: Sequence[Point]) -> list[list[Point]]:
    """Groups of points of one scenario that differ only in settings, or have a common base; by their first points.

    The points of a group take turns, so that a drift affects all of them alike.
    """
    groups: list[list[Point]] = []
    group_of_key: dict[tuple[str, str], int] = {}
    for point in points:
        keys = _keys(point)
        matching = sorted({group_of_key[key] for key in keys if key in group_of_key})
        if matching:
            first, *others = matching
            for other in others:
                groups[first] += groups[other]
                groups[other] = []
        else:
            first = len(groups)
            groups.append([])
        groups[first].append(point)
        merged = {key: first if group in matching else group for key, group in group_of_key.items()}
        group_of_key = merged | dict.fromkeys(keys, first)
    # Merged groups need sorting: their points stay in the order of the study.
    order = {id(point): number for number, point in enumerate(points)}
    return [sorted(group, key=lambda point: order[id(point)]) for group in groups if group]


def _keys(point: Point) -> list[tuple[str, str]]:
    """Points with a common key belong to one group."""
    parameters = point.model_dump_json(exclude=_NAMES_AND_SETTINGS)
    keys = [(point.scenario, f"parameters: {parameters}"), (point.scenario, f"point: {point.name}")]
    return keys if point.base is None else [*keys, (point.scenario, f"point: {point.base}")]
