"""How often points run and how long that takes, before anything has run."""

from collections.abc import Iterable
from dataclasses import dataclass

from mqlab.study.point import Point


@dataclass(frozen=True)
class Estimate:
    """On one system: the least when every rule holds as early as it may, the most when none ever does.

    Warm-up and measuring only. Draining and set-up come on top: they end when they are done, usually at once.
    So do the runs with a fixed amount of work, whose time nobody knows before: `fixed_runs` (at most) are not counted.
    """

    least_runs: int
    most_runs: int
    least_seconds: float
    most_seconds: float
    fixed_runs: int = 0


def estimate(points: Iterable[Point]) -> Estimate:
    counted = list(points)
    return Estimate(
        sum(point.repeat.least for point in counted),
        sum(point.repeat.most for point in counted),
        sum(point.repeat.least * point.seconds for point in counted),
        sum(point.repeat.most * point.seconds for point in counted),
        sum(point.repeat.most for point in counted if point.messages is not None),
    )
