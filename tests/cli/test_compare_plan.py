"""The plan of `mqlab compare`: two systems in turns, for a time that is set in advance."""

import pytest

from mqlab.cli.experiments.compare import plan_of
from mqlab.runner.conductor import RunPlan


def planned(base: str, new: str) -> RunPlan:
    return plan_of(base, new, "jms-four-brokers", "quick", ["A", "D"], 2, watch_noise=True)


def test_every_round_starts_the_systems_anew() -> None:
    """Two processes of one broker differ as long as they live."""
    assert planned("embedded", "embedded:monitoring=high").restart


@pytest.mark.parametrize(
    ("new", "labels"),
    [
        ("embedded:monitoring=high", ["embedded", "embedded:monitoring=high"]),
        ("embedded", ["embedded", "embedded again"]),
    ],
)
def test_a_system_may_be_compared_with_itself(new: str, labels: list[str]) -> None:
    assert [system.label for system in planned("embedded", new).systems] == labels


def test_only_the_time_ends_the_runs() -> None:
    plan = planned("embedded", "embedded:monitoring=high")
    assert [(point.scenario, point.repeat.until, point.repeat.least) for point in plan.points] == [
        ("A", None, 1),
        ("D", None, 1),
    ]
    assert plan.looks == 1, "the means decide nothing before the end, so that no interval is widened"
