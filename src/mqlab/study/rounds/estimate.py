"""The number of runs of points and their time, before anything has run."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from mqlab.study.point import Point
from mqlab.study.rounds.switching import common_runs, common_seconds


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


def estimate(points: Sequence[Point], live: Collection[str] = ()) -> Estimate:
    """`live`: the settings that the system can change while it runs; points that differ in them share their runs."""
    counted = [(group[0], common_seconds(group)) for group in common_runs(points, live)]
    return Estimate(
        sum(point.repeat.least for point, _ in counted),
        sum(point.repeat.most for point, _ in counted),
        sum(point.repeat.least * seconds for point, seconds in counted),
        sum(point.repeat.most * seconds for point, seconds in counted),
        sum(point.repeat.most for point, _ in counted if point.messages is not None),
    )
