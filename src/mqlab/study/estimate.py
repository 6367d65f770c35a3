"""The estimated number of runs and their time, before anything has run."""

from collections.abc import Iterable
from dataclasses import dataclass

from mqlab.study.point import Point


@dataclass(frozen=True)
class Estimate:
    """The runs on one system: the least if every repetition rule is met at once, the most if none ever is.

    The seconds are those of warm-up and measure phases. Set-up and draining come on top, and so do at most `fixed_runs`
    runs with a fixed amount of work, because their duration is not known in advance.
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
