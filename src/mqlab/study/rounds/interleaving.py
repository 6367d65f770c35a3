"""Which points take turns: the runner plays their repetitions in common rounds."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from mqlab.study.language.expression import parse
from mqlab.study.language.model import Claim
from mqlab.study.point import Point
from mqlab.study.rounds.compared import PointName, compared_points

# The fields in which points of one scenario differ if only the settings of the system differ.
_NAMES_AND_SETTINGS: Final = {"name", "parameters", "base", "settings"}


def interleaved_groups(points: Sequence[Point], claims: Iterable[Claim] = ()) -> list[list[Point]]:
    """Groups of points that differ only in settings, have a common base, or that a claim or a chain of claims compares.

    The points of a group take turns, so that a drift affects all of them alike.
    """
    group_of: dict[PointName, list[Point]] = {(point.scenario, point.name): [point] for point in points}
    for names in (*_of_one_scenario(points), *_compared(points, claims)):
        members = {id(group): group for name in names if (group := group_of.get(name)) is not None}
        merged = [point for group in members.values() for point in group]
        group_of |= {(point.scenario, point.name): merged for point in merged}
    # The points stay in the order of the study.
    order = {id(point): number for number, point in enumerate(points)}
    groups = {id(group): sorted(group, key=lambda point: order[id(point)]) for group in group_of.values()}
    return sorted(groups.values(), key=lambda group: order[id(group[0])])


def _of_one_scenario(points: Sequence[Point]) -> Iterator[Iterable[PointName]]:
    """Points that differ only in settings, and each with its base."""
    alike: dict[tuple[str, str], list[PointName]] = {}
    for point in points:
        parameters = point.model_dump_json(exclude=_NAMES_AND_SETTINGS)
        alike.setdefault((point.scenario, parameters), []).append((point.scenario, point.name))
        if point.base is not None:
            yield (point.scenario, point.name), (point.scenario, point.base)
    yield from alike.values()


def _compared(points: Sequence[Point], claims: Iterable[Claim]) -> Iterator[Iterable[PointName]]:
    for claim in claims:
        if claim.check is not None:
            yield from compared_points(parse(claim.check), points)
