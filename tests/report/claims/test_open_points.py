"""Which points a run goes on with: those of claims that are undecided."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from mqlab.events.folder import RunFolder
from mqlab.report.claims.open_points import PointRates, open_points
from mqlab.report.data.run_results import PointKey, RunResults
from mqlab.study import Claim, Point, load_study
from mqlab.study.point import Repeat

# The scatter of three runs, and of three more.
SCATTER = (1.0, 1.05, 0.95, 1.02, 0.98, 1.0)


def points() -> list[Point]:
    repeat = Repeat(until=None, least=1, most=12)
    return [point.model_copy(update={"repeat": repeat}) for point in load_study("jms-four-brokers").points("quick")]


def run(
    tmp_path: Path, *checks: str, imposed_by: tuple[str, ...] = (), systems: tuple[str, ...] = ("embedded",)
) -> RunResults:
    study = load_study("jms-four-brokers")
    claims = tuple(
        Claim(id=f"claim-{n}", says="so", source="here", check=check, imposed_by=imposed_by)
        for n, check in enumerate(checks)
    )
    meta = {"scale": "quick", "systems": [{"name": name} for name in systems]}
    return RunResults(RunFolder.create(tmp_path, "open"), meta, replace(study, claims=claims))


def counted(runs: int, system: str = "embedded", **rates: float) -> Mapping[PointKey, PointRates]:
    """The other scenarios do a thousand messages a second."""
    return {
        (system, scenario, ""): {
            n + 1: dict.fromkeys(("rate.sent", "rate.received", "rate.round_trips", "rate.work"), rate * SCATTER[n])
            for n in range(runs)
        }
        for scenario, rate in (dict.fromkeys("ABCDEFGH", 1000.0) | rates).items()
    }


def found(results: RunResults, rates: Mapping[PointKey, PointRates], seconds_left: float = 60.0) -> set[str]:
    return {scenario for _, scenario, _ in open_points(results, points(), rates, seconds_left)}


def test_after_one_run_every_claim_is_open(tmp_path: Path) -> None:
    results = run(tmp_path, "rate.received[A] > 2 * rate.received[B]", "rate.received[D] > 10")
    assert found(results, counted(1, A=3000.0)) == {"A", "B", "D"}


def test_a_point_without_a_run_that_can_be_used_is_open(tmp_path: Path) -> None:
    """All its runs were disturbed, or not steady."""
    results = run(tmp_path, "rate.received[A] > rate.received[B]", "rate.received[D] > rate.received[E]")
    rates = {**counted(3, D=5000.0), ("embedded", "B", ""): {}}
    assert found(results, rates) == {"A", "B"}


def test_what_is_decided_either_way_is_not_run_again(tmp_path: Path) -> None:
    results = run(tmp_path, "rate.received[A] > 2 * rate.received[B]", "rate.received[D] > rate.received[E]")
    assert found(results, counted(3, A=3000.0, D=500.0)) == set()
    assert found(results, counted(3, A=2050.0, D=500.0)) == {"A", "B"}


def test_the_claims_that_cost_least_come_first(tmp_path: Path) -> None:
    results = run(tmp_path, "rate.received[A] > 1.001 * rate.received[B]", "rate.received[D] > 1.03 * rate.received[E]")
    rates = counted(6, D=1080.0)
    assert found(results, rates, seconds_left=1e9) == {"A", "B", "D", "E"}
    assert found(results, rates, seconds_left=1.0) == {"D", "E"}


@pytest.mark.parametrize(("runs", "expected"), [(1, {"C"}), (3, set())])
def test_a_metric_that_agents_do_not_count_needs_an_interval(tmp_path: Path, runs: int, expected: set[str]) -> None:
    assert found(run(tmp_path, "cpu.broker[C] > 50"), counted(runs)) == expected


def test_a_claim_about_another_system_needs_no_runs(tmp_path: Path) -> None:
    results = run(tmp_path, 'rate.received[A] of "SwiftMQ 7.6" > rate.received[B]', "rate.received[A] > 0")
    assert found(results, counted(3)) == set()


@pytest.mark.parametrize(
    "between_systems",
    [
        'rate.received[A] of "HornetQ 2.1.1" > rate.received[A] of "ActiveMQ 5.3.2"',
        'first(rate.received[A]) == "HornetQ 2.1.1"',
        "lead(rate.received[A]) > 1.02",
        "spread(rate.received[A]) < 1.06",
    ],
)
def test_systems_are_compared_by_their_rounds(tmp_path: Path, between_systems: str) -> None:
    """What slows both down in a round leaves their ratio as it is; points that do not take turns have no rounds."""
    between_points = 'rate.received[B] of "HornetQ 2.1.1" > rate.received[D] of "HornetQ 2.1.1"'
    results = run(tmp_path, between_systems, between_points, systems=("hornetq", "activemq"))
    rates = {**counted(3, "hornetq", D=960.0), **counted(3, "activemq", A=960.0)}
    assert found(results, rates, seconds_left=1e9) == {"B", "D"}
    # The rounds of one in another order: their noise has nothing in common.
    activemq = rates["activemq", "A", ""]
    rates["activemq", "A", ""] = {1: activemq[3], 2: activemq[1], 3: activemq[2]}
    assert found(results, rates, seconds_left=1e9) == {"A", "B", "D"}
