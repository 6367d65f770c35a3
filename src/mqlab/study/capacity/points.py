"""The points of a capacity search: a point of the study with `rate: max`, and the same workload at the rates to try."""

from collections.abc import Iterable
from typing import Final

from mqlab.study.capacity.goal import LatencyGoal
from mqlab.study.language.units import format_rate
from mqlab.study.metric import fewest_observations
from mqlab.study.point import Point, Repeat
from mqlab.study.steadiness import is_judged

# The highest rate that a search tries: more than any system of the lab takes message by message.
CEILING: Final = 1e7
# A run at the lowest rate has this many times the messages that its percentile needs.
_ROOM: Final = 1.1


def check_searchable(points: Iterable[Point], goal: LatencyGoal) -> None:
    """Raise ValueError if no rate can be found for these points."""
    for point in points:
        if point.loop == "open":
            raise ValueError("find chooses the rate; leave rate out")
        if not is_judged(point):
            raise ValueError("find needs a steady state; leave messages, load and consume_rate out")
        if goal.metric.startswith("response.") and point.pattern != "request-reply":
            raise ValueError(f"find: {goal.metric} needs pattern: request-reply; write latency in place of response")


def lowest_rate(point: Point, goal: LatencyGoal) -> float:
    """The lowest rate at which one run has enough messages for the metric of the goal."""
    return float(f"{max(1.0, _ROOM * fewest_observations(goal.metric) / point.phases.measure):.3g}")


def at_rate(point: Point, rate: float) -> Point:
    """The point as an open loop of that rate."""
    text = format_rate(rate)
    return point.model_copy(
        update={
            "name": ", ".join(filter(None, (point.name, f"rate={text}"))),
            "parameters": {**point.parameters, "rate": text},
            "rate": rate,
            "base": None,
            "repeat": Repeat(until=None, least=1, most=1),
        }
    )
