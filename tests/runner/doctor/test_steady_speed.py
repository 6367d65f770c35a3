"""The check of steady speed, with made-up timings of its loops."""

import os

import pytest

from mqlab.runner.doctor.machine_finding import Weight
from mqlab.runner.doctor.steady_speed import finding_of, loop_seconds, spread

STEADY = [0.005] * 50


@pytest.mark.parametrize(
    ("seconds", "weight", "share"),
    [
        (STEADY, "fine", "0%"),
        # Single hiccups, however long, are no change of the speed.
        ([*STEADY, 0.05, 0.1], "fine", "0%"),
        ([0.005, 0.0051] * 25, "fine", "2%"),
        ([0.005, 0.0053] * 25, "some", "6%"),
        # A quarter of the time a neighbour works on the same core.
        ([0.005, 0.005, 0.005, 0.006] * 12, "much", "20%"),
    ],
)
def test_the_worst_processor_counts(seconds: list[float], weight: Weight, share: str) -> None:
    found = finding_of({0: STEADY, 3: seconds})
    assert found.weight == weight
    assert f" {share} " in found.measured
    assert found.measured.endswith("on processor 3") or share == "0%"
    assert bool(found.cure) == bool(found.effect) == (weight != "fine")


def test_a_spread_is_a_share_of_the_median() -> None:
    assert spread([1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0, 10.0, 11.0]) == pytest.approx(8 / 6)


def test_loops_are_measured_on_each_processor_and_leave_the_thread_as_it_was() -> None:
    before = os.sched_getaffinity(0)
    timings = loop_seconds(0.01)
    assert {*timings} <= before
    assert all(len(seconds) >= 10 and min(seconds) > 0 for seconds in timings.values())
    assert os.sched_getaffinity(0) == before
