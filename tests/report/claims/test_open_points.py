"""Which points a run goes on with: those of claims that are undecided."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from mqlab.events.folder import RunFolder
from mqlab.report.claims.counted import COUNTED, PointRates
from mqlab.report.claims.open_points import open_points
from mqlab.report.claims.verdicts import judge
from mqlab.report.data.run_results import PointKey, RunResults
from mqlab.study import Claim, Point, load_study
from mqlab.study.point import Repeat
from mqlab.study.rounds.played import PlayedRuns

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
        (system, scenario, ""): {n + 1: dict.fromkeys(COUNTED, rate * SCATTER[n]) for n in range(runs)}
        for scenario, rate in (dict.fromkeys("ABCDEFGH", 1000.0) | rates).items()
    }


def played(rates: Mapping[PointKey, PointRates]) -> dict[PointKey, PlayedRuns]:
    """Each run took a second."""
    return {
        key: PlayedRuns(played=len(runs), attempts=len(runs), rates=dict(runs), seconds=1.0)
        for key, runs in rates.items()
    }


def found(results: RunResults, rates: Mapping[PointKey, PointRates], seconds_left: float = 60.0) -> set[str]:
    return {scenario for _, scenario, _ in open_points(results, points(), played(rates), seconds_left)}


def order(results: RunResults, rates: Mapping[PointKey, PointRates]) -> list[str]:
    return [scenario for _, scenario, _ in open_points(results, points(), played(rates), 60.0)]


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
    results = run(tmp_path, "rate.received[A] > 960", "rate.received[D] > 930")
    assert found(results, counted(3), seconds_left=1e9) == {"A", "D"}
    assert found(results, counted(3), seconds_left=1.0) == {"D"}


def test_a_claim_that_more_runs_decide_comes_before_one_that_they_do_not(tmp_path: Path) -> None:
    results = run(tmp_path, "rate.received[A] > 1000", "rate.received[D] > 940")
    # With the same means and scatter, D needs 12 runs; no number decides whether A is above its own mean.
    assert order(results, counted(3)) == ["D", "A"]


def test_a_point_that_refutes_a_claim_alone_is_all_that_goes_on(tmp_path: Path) -> None:
    results = run(tmp_path, "min(rate.received[A], rate.received[B], rate.received[C]) > 990")
    assert found(results, counted(3, B=920.0)) == {"B"}
    assert found(results, counted(3, A=1040.0, B=1040.0, C=1040.0)) == {"A", "B", "C"}


def test_points_with_few_runs_go_on_before_much_is_spent_on_others(tmp_path: Path) -> None:
    """What a single run of C seems to say may be chance: A goes on for long only if three of them say the same."""
    results = run(tmp_path, "rate.received[A] > 955 and rate.received[C] > 700")
    of_one, of_three = counted(1), counted(3)
    rates = {key: of_one[key] if key[1] == "C" else runs for key, runs in of_three.items()}
    assert found(results, rates) == {"C"}
    assert found(results, of_three) == {"A"}


def test_a_point_that_costs_less_than_another_is_preferred(tmp_path: Path) -> None:
    results = run(tmp_path, "min(rate.received[A], rate.received[B]) > 1000")
    runs = played(counted(3, A=950.0, B=950.0))
    for costly, cheap in ("AB", "BA"):
        runs["embedded", costly, ""].seconds, runs["embedded", cheap, ""].seconds = 5.0, 1.0
        assert open_points(results, points(), runs, 60.0) == [("embedded", cheap, "")]
    # It costs less, but of its runs most are not steady.
    runs["embedded", "A", ""].unsteady = 30
    assert open_points(results, points(), runs, 60.0) == [("embedded", "B", "")]


def test_what_several_claims_ask_about_costs_once(tmp_path: Path) -> None:
    """The second claim comes before the third: of its three points, two go on for the first in any case."""
    results = run(
        tmp_path, "rate.received[A] > 940 and rate.received[B] > 940",
        "rate.received[A] > 940 and rate.received[B] > 940 and rate.received[C] > 940",
        "rate.received[D] > 940 and rate.received[E] > 940",
    )  # fmt: skip
    runs = played(counted(3))
    runs["embedded", "D", ""].seconds = 1.1
    assert [scenario for _, scenario, _ in open_points(results, points(), runs, 60.0)][2] == "C"


def test_the_change_of_a_point_that_never_counted_is_open(tmp_path: Path) -> None:
    """It has no common round with its base, and so no change that could be judged."""
    study = load_study("ibmmq-943-trace")
    check = 'impact(rate.round_trips["default-file", trace=medium]) < -50'
    claim = Claim(id="change", says="so", source="here", check=check)
    meta = {"scale": "quick", "systems": [{"name": "embedded"}]}
    results = RunResults(RunFolder.create(tmp_path, "open"), meta, replace(study, claims=(claim,)))
    of_claim = [point for point in study.points("quick") if point.scenario == "default-file"]
    rates = dict.fromkeys(COUNTED, 1000.0)
    runs = {
        ("embedded", "default-file", point.name): PlayedRuns(
            played=1, attempts=1, rates={1: rates} if point.base else {}, flagged=rates, seconds=1.0
        )
        for point in of_claim
    }
    assert len(open_points(results, of_claim, runs, 60.0)) == 2


def test_claims_on_cpu_time_are_projected_like_those_on_rates(tmp_path: Path) -> None:
    """They go on as long as that is likely to decide them, and no longer."""
    results = run(tmp_path, "cpu.broker[C] > 930", "cpu.message[D] > 940", "rate.received[E] > 995")
    assert order(results, counted(3)) == ["C", "D", "E"]
    assert order(results, counted(6)) == ["E"]
    unsampled = {
        key: {n: {**rates, "cpu.broker": 0.0} for n, rates in runs.items()} for key, runs in counted(3).items()
    }
    assert order(results, unsampled) == ["D", "E"]


@pytest.mark.parametrize(("runs", "expected"), [(1, ["C", "D"]), (3, ["D", "C"]), (6, ["C"])])
def test_a_metric_that_agents_do_not_count_needs_an_interval(tmp_path: Path, runs: int, expected: list[str]) -> None:
    """Whether it needs more nobody knows before the end: it gets some of the time that nothing else needs."""
    assert order(run(tmp_path, "latency.p99[C] > 50", "rate.received[D] > 940"), counted(runs)) == expected


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


def test_a_claim_whose_points_are_left_out_says_at_which_scale_it_is_asked(tmp_path: Path) -> None:
    study = load_study("ibmmq-943-trace")
    meta = {"scale": "quick", "systems": [{"name": "embedded"}]}
    results = RunResults(RunFolder.create(tmp_path, "open"), meta, study).with_tables(
        measures=(), run_measures=(), impacts=(), audits=(), noise=()
    )
    reasons = {verdict.claim: verdict.reason for verdict in judge(results) if verdict.basis == "measured"}
    place = "pairs traced=5, trace=*, persistent=*"
    assert reasons["few-pairs-are-cheap"] == (
        f"the study has no point {place} at the scale quick: it is asked at the scale standard"
    )
