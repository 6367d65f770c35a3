"""Goals and gates: passed, failed or not known, with made-up measures for each."""

import pytest

from mqlab.report.claims.gates import FAILED, PASSED, GateVerdict, judge_gates
from mqlab.report.comparison.comparison import compare
from mqlab.report.data.run_results import RunResults
from mqlab.report.render.formatting import NOT_KNOWN
from mqlab.study.language.gate import parse_gate, parse_goal
from report.comparison.made_up import BASE, NEW, Values, at_a, results_of
from report.conftest import Write
from report.synthetic_runs import SyntheticRuns

STEADY = (99.0, 100.0, 101.0, 100.0, 99.5, 100.5)


def times(factor: float) -> list[float]:
    return [factor * value for value in reversed(STEADY)]


def relative(condition: str, results: RunResults) -> GateVerdict:
    (verdict,) = compare(results, BASE, NEW, gates=[parse_gate(condition)]).gates
    return verdict


@pytest.mark.parametrize(
    ("condition", "factor", "outcome"),
    [
        ("latency.p99 > +10%", 1.2, FAILED),
        ("latency.p99 > +10%", 1.0, PASSED),
        ("latency.p99 > +10%", 1.1, NOT_KNOWN),
        ("latency.p99 >= +10%", 1.2, FAILED),
        ("latency.p99 >= +10%", 1.0, PASSED),
        ("latency.p99 < -5%", 0.9, FAILED),
        ("latency.p99 < -5%", 1.0, PASSED),
        ("latency.p99 <= -5%", 0.9, FAILED),
        ("latency.p99 <= -5%", 0.95, NOT_KNOWN),
    ],
)
def test_a_change_against_its_limit(condition: str, factor: float, outcome: str) -> None:
    verdict = relative(condition, at_a(STEADY, times(factor), "latency.p99"))
    assert (verdict.outcome, verdict.subject, verdict.place) == (outcome, "new against base", "A")
    assert verdict.found.endswith(")")


@pytest.mark.parametrize(
    ("condition", "clock_error_s", "outcome"),
    [
        # 100 s against 120 s: each is wrong by at most twice the error of a clock.
        ("latency.p99 > +10%", 1.0, FAILED),
        ("latency.p99 > +10%", 4.0, NOT_KNOWN),
        ("latency.p99 > +10%", 200.0, NOT_KNOWN),
        ("latency.p99 > +50%", 1.0, PASSED),
        ("latency.p99 > +50%", 10.0, NOT_KNOWN),
        # On one clock each.
        ("cpu.message > +10%", 200.0, FAILED),
    ],
)
def test_a_latency_is_not_judged_by_less_than_the_error_of_the_clocks(
    condition: str, clock_error_s: float, outcome: str
) -> None:
    results = at_a(STEADY, times(1.2), condition.partition(" ")[0])
    results.meta["clock_error"] = clock_error_s
    assert relative(condition, results).outcome == outcome


def test_a_latency_against_a_limit_has_the_error_of_the_clocks() -> None:
    results = at_a(STEADY, STEADY, "latency.p99")
    outcomes = []
    for clock_error_s in (0.0, 4.0, 10.0):
        results.meta["clock_error"] = clock_error_s
        (verdict,) = judge_gates(results, [parse_gate("latency.p99 > 110s")], [NEW])
        outcomes.append(verdict.outcome)
    assert outcomes == [PASSED, PASSED, NOT_KNOWN]
    assert verdict.reason == "latency.p99 of A is known to 20 s by the clocks of its agents"


def test_the_worst_point_decides() -> None:
    base: Values = {name: {"rate.work": STEADY} for name in "ADG"}
    new: Values = {**base, "D": {"rate.work": times(0.5)}}
    verdict = relative("rate.work < -10%", results_of(base, new))
    assert (verdict.outcome, verdict.place) == (FAILED, "D")
    assert relative("rate.work[G] < -10%", results_of(base, new)).outcome == PASSED
    assert relative('rate.work["A|G"] < -10%', results_of(base, new)).outcome == PASSED


def test_a_point_without_evidence_never_passes() -> None:
    base: Values = {"A": {"rate.work": STEADY}, "D": {"rate.work": (100.0,)}}
    verdict = relative("rate.work < -10%", results_of(base, base))
    assert (verdict.outcome, verdict.place) == (NOT_KNOWN, "D")
    assert verdict.reason == "D has one valid run and so no interval"


def test_a_metric_that_nobody_has_is_not_known() -> None:
    verdict = relative("response.p99 > +10%", at_a(STEADY, STEADY))
    assert (verdict.outcome, verdict.words) == (NOT_KNOWN, "no point has response.p99")


def test_a_point_that_lacks_the_metric_on_both_sides_never_passes() -> None:
    sides: Values = {"A": {"rate.work": STEADY, "latency.p99": STEADY}, "D": {"rate.work": STEADY}}
    verdict = relative("latency.p99 > +10%", results_of(sides, sides))
    assert (verdict.outcome, verdict.place) == (NOT_KNOWN, "D")
    assert verdict.reason.startswith("no latency.p99 of D: ")


def test_points_that_cannot_have_the_metric_are_not_asked_for_it() -> None:
    """Producers of A do not wait for confirmations."""
    sides: Values = {"A": {"rate.work": STEADY}, "G": {"confirm.p99": STEADY}}
    assert relative("confirm.p99 > +10%", results_of(sides, sides)).outcome == PASSED


def verdicts(made: SyntheticRuns, write: Write, condition: str) -> list[GateVerdict]:
    return judge_gates(RunResults.of(write(made)), [parse_gate(condition)])


@pytest.mark.parametrize(
    ("condition", "outcome"),
    [
        ("latency.p99[A] > 4ms", FAILED),
        ("latency.p99[A] > 5ms", PASSED),
        ("latency.p99[A] > 4.1ms", NOT_KNOWN),
        ("rate.received[H] < 20k/s", FAILED),
        ("rate.received[H] < 17k/s", PASSED),
        ("rate.received < 10k/s", FAILED),
        ("cpu.broker > 97%", NOT_KNOWN),
        ("rss.broker > 200MB", PASSED),
        # The lab bounded the rate of A: the gate is about what was reached.
        ("rate.received[A] < 22M/s", FAILED),
        ('syncs["G|H"] > 300/s', PASSED),
        ("syncs > 300/s", NOT_KNOWN),
    ],
)
def test_a_figure_against_its_limit(made: SyntheticRuns, write: Write, condition: str, outcome: str) -> None:
    (verdict,) = verdicts(made, write, condition)
    assert (verdict.outcome, verdict.subject) == (outcome, "embedded")


def test_a_point_whose_runs_all_failed_is_not_known(made: SyntheticRuns, write: Write) -> None:
    for table in ("measures", "run_measures"):
        made.rows[table] = [row for row in made.rows[table] if row["scenario"] != "G"]
    for audit in made.rows["audits"]:
        if audit["scenario"] == "G":
            audit.update(status="failed", reason="3 lost", lost=3)
    (verdict,) = verdicts(made, write, "rate.received < 1k/s")
    assert (verdict.outcome, verdict.place) == (NOT_KNOWN, "G")
    assert "3 lost" in verdict.reason


def test_a_goal_holds_where_its_opposite_fails_nowhere(made: SyntheticRuns, write: Write) -> None:
    results = RunResults.of(write(made))
    goals = [parse_goal("latency.p99 < 5ms"), parse_goal("rate.received >= 20k/s"), parse_goal("copies >= 1")]
    assert [verdict.outcome for verdict in judge_gates(results, goals)] == [PASSED, FAILED, PASSED]


def test_a_goal_of_a_scenario_that_was_left_out_is_not_judged(made: SyntheticRuns, write: Write) -> None:
    made.drop("G")
    results = RunResults.of(write(made))
    assert judge_gates(results, [parse_goal("rate.received[G] > 1k/s")]) == []
    assert [one.outcome for one in judge_gates(results, [parse_gate("rate.received[G] < 1k/s")])] == [NOT_KNOWN]


def without(made: SyntheticRuns, metric: str, scenario: str = "") -> None:
    """No run has the metric, or none of the scenario."""
    for table in ("measures", "run_measures"):
        kept = [
            row for row in made.rows[table] if (row["metric"], scenario or row["scenario"]) != (metric, row["scenario"])
        ]
        made.rows[table] = kept


@pytest.mark.parametrize("condition", ["confirm.p99 < 1s", "confirm.p99[G] < 1s", "holds < 5"])
def test_a_goal_on_a_metric_that_no_point_has_is_not_known(made: SyntheticRuns, write: Write, condition: str) -> None:
    without(made, "confirm.p99")
    (verdict,) = judge_gates(RunResults.of(write(made)), [parse_goal(condition)])
    assert verdict.outcome == NOT_KNOWN
    assert verdict.reason == f"no {verdict.gate.metric} of {verdict.place}: not measured"


@pytest.mark.parametrize("condition", ["confirm.p99 > 1s", "latency.p99 > 1s"])
def test_a_gate_does_not_pass_where_a_point_lacks_its_metric(made: SyntheticRuns, write: Write, condition: str) -> None:
    metric = condition.split()[0]
    assert [one.outcome for one in verdicts(made, write, condition)] == [PASSED]
    without(made, metric, "G")
    (verdict,) = verdicts(made, write, condition)
    assert (verdict.outcome, verdict.place) == (NOT_KNOWN, "G")


def test_a_goal_of_a_run_study_that_no_point_can_meet_is_not_known(made: SyntheticRuns, write: Write) -> None:
    """A study whose goal no point can have is refused before a run; older versions ran it."""
    (verdict,) = judge_gates(RunResults.of(write(made)), [parse_goal("fault.recovery < 5s")])
    assert (verdict.outcome, verdict.words) == (NOT_KNOWN, "no point has fault.recovery")


def test_the_rates_of_a_search_miss_no_goal(made: SyntheticRuns, write: Write) -> None:
    """A capacity search tries rates that are too high; its own outcome says so."""
    point = next(point for point in made.study.points("quick") if point.scenario == "A")
    tried = point.model_copy(
        update={"name": "rate=9k/s", "rate": 9000.0, "parameters": {**point.parameters, "rate": "9k/s"}}
    )
    made.meta["searched"] = [tried.model_dump(mode="json")]
    made.measure("A", "latency.p99", 9.0, 0.1, point=tried.name)
    made.run("A", 1, point=tried.name)
    goal = parse_goal("latency.p99 < 5ms")
    assert [one.outcome for one in judge_gates(RunResults.of(write(made)), [goal])] == [PASSED]
