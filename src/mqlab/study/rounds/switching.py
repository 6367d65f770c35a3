"""Which points are measured in common runs, between whose settings the lab switches; and in which order."""

import random
from collections.abc import Collection, Mapping, Sequence
from typing import Final

from mqlab.study.point import Point

# The fields in which points of one scenario differ if only the settings of the system differ.
_NAMES_AND_SETTINGS: Final = {"name", "parameters", "base", "settings"}


def common_runs(points: Sequence[Point], live: Collection[str]) -> list[list[Point]]:
    """All points, those that are measured in common runs together, by their first points.

    Common runs have points of one scenario with `switch` that differ in the settings `live` alone.
    """
    groups: dict[str, list[Point]] = {}
    for point in points:
        key = _common(point, live) if point.switch else f"{point.scenario} {point.name}"
        groups.setdefault(key, []).append(point)
    return [*groups.values()]


def why_not_switched(points: Sequence[Point], live: Collection[str]) -> str:
    """Why a scenario with `switch` has no common runs on a system with these live settings; "" if all have some."""
    groups = common_runs(points, live)
    switched = {group[0].scenario for group in groups if len(group) > 1}
    for point in points:
        if live and point.switch and point.scenario not in switched:
            return (
                f"scenario {point.scenario}: switch: no two of its points differ only in settings that can be changed"
                f" while the system runs ({', '.join(live)})"
            )
    return ""


def common_point(points: Sequence[Point]) -> Point:
    """The first of the points with the phases of their common runs.

    The measure phase has whole blocks of slices, each point about as much of it as its own phase is long.
    """
    first = points[0]
    if len(points) == 1:
        return first
    blocks = max(1, round(first.phases.measure / first.switch))
    phases = first.phases.model_copy(update={"measure": blocks * len(points) * first.switch})
    return first.model_copy(update={"phases": phases})


def common_seconds(points: Sequence[Point]) -> float:
    """The planned seconds of one common run."""
    return common_point(points).seconds


def slice_order(number: int, blocks: int, seed: str) -> list[int]:
    """Which of so many settings each slice has.

    A block has every setting once, in an order of its own; every second block repeats the one before in reverse, so
    that a drift over both moves all settings alike.
    """
    order: list[int] = []
    chance = random.Random(seed)
    block: list[int] = []
    for place in range(blocks):
        block = block[::-1] if place % 2 else chance.sample(range(number), number)
        order += block
    return order


def _common(point: Point, live: Collection[str]) -> str:
    """All that points of common runs have in common, as a text."""
    fixed: Mapping[str, str] = {key: value for key, value in point.settings.items() if key not in live}
    return f"{point.model_dump_json(exclude=_NAMES_AND_SETTINGS)} {sorted(fixed.items())}"
