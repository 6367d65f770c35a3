"""The CPU time of a run by its samples, as the runner counts it."""

import pytest

from mqlab.events.schema import COMPLETE
from mqlab.json_values import JsonObject
from mqlab.runner.results.cpu import CpuUse, cpu_use
from mqlab.runner.results.outcome import RunOutcome
from runner.points import point

SECOND = 10**9


def samples(source: str, *cpu_seconds: float) -> list[JsonObject]:
    """One each second."""
    return [{"source": source, "t": n * SECOND, "cpu_seconds": value} for n, value in enumerate(cpu_seconds)]


# Before the first second all are busy with other things.
SAMPLES = [
    *samples("broker", 0.0, 0.9, 1.4, 1.9, 2.4), *samples("agent-1", 0.0, 0.9, 1.1, 1.3, 1.5),
    *samples("disk", 0.0, 0.0, 0.0, 0.0, 0.0),
]  # fmt: skip


def test_it_is_that_of_the_measure_phase() -> None:
    assert cpu_use(SAMPLES, (SECOND, 5 * SECOND)) == pytest.approx(CpuUse(50.0, 0.7))


def test_several_brokers_count_together() -> None:
    assert cpu_use([*SAMPLES, *samples("broker-b", 0.0, 1.0, 2.0)], (SECOND, 5 * SECOND)).broker == pytest.approx(150.0)


def test_a_setting_has_the_time_of_its_slices() -> None:
    """The broker works in the first and the third second alone."""
    busy = samples("broker", 0.0, 0.5, 0.5, 0.5, 0.5, 1.0, 1.0)
    slices = [0, SECOND + 1, 4 * SECOND, 5 * SECOND + 1]
    assert cpu_use(busy, slices) == pytest.approx(CpuUse(50.0, 0.5))
    assert cpu_use(busy, (SECOND, 4 * SECOND)) == CpuUse(0.0, 0.0)


def test_without_two_samples_nothing_is_known() -> None:
    assert cpu_use(SAMPLES, (0, SECOND)) == CpuUse()
    assert cpu_use(samples("agent-1", 0.0, 0.5, 1.0), (0, 5 * SECOND)) == CpuUse(), "the system was not sampled"


def test_an_outcome_has_it_beside_the_rates() -> None:
    outcome = RunOutcome(COMPLETE, counted_sent=1000, counted_received=1000, seconds=2.0, cpu=CpuUse(50.0, 0.7))
    rates = outcome.rates(point("A"))
    assert (rates["rate.work"], rates["cpu.broker"]) == (500.0, 50.0)
    assert rates["cpu.message"] == pytest.approx(0.7 / 500)
    assert RunOutcome(COMPLETE).rates(point("A"))["cpu.message"] == 0.0
