"""The goal of a capacity search, as people write it."""

import pytest

from mqlab.study.capacity.goal import LatencyGoal


@pytest.mark.parametrize(
    ("text", "metric", "limit", "shown"),
    [
        ("latency.p99 < 10ms", "latency.p99", 0.010, "latency.p99 < 10ms"),
        ("response.p99.9<2s", "response.p99.9", 2.0, "response.p99.9 < 2s"),
        (" confirm.p50  <  0.5ms ", "confirm.p50", 0.0005, "confirm.p50 < 0.5ms"),
        ("latency.p50 < 5ms, within 10%", "latency.p50", 0.005, "latency.p50 < 5ms"),
    ],
)
def test_goals(text: str, metric: str, limit: float, shown: str) -> None:
    goal = LatencyGoal.parse(text)
    assert (goal.metric, goal.limit, str(goal)) == (metric, limit, shown)
    assert LatencyGoal.parse(goal.text) == goal
    assert goal.within == (0.1 if "within" in text else 0.015)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("10ms", "'10ms' is not a goal; write latency.p99 < 10ms"),
        ("latency.p99 > 10ms", "'latency.p99 > 10ms' is not a goal; write latency.p99 < 10ms"),
        ("latency.p98 < 10ms", "'latency.p98' is not a duration of messages; accepted: response.p50, "),
        ("rate.sent < 10ms", "'rate.sent' is not a duration of messages"),
        ("latency.p99 < 10", "'10' is not a time"),
        ("latency.p99 < 1ms, within 0%", "a rate is found within 0.1% to 100%"),
        ("latency.p99 < 0ms", "no message takes no time"),
    ],
)
def test_what_is_no_goal(text: str, reason: str) -> None:
    with pytest.raises(ValueError, match=r".") as error:
        LatencyGoal.parse(text)
    assert reason in str(error.value)
