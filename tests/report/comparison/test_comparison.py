"""Better, worse, same or not known: every outcome with runs that hold it, and with such that refute it."""

import random
from dataclasses import replace

import pytest

from mqlab.report.comparison.comparison import (
    BETTER,
    SAME,
    WORSE,
    MetricComparison,
    compare,
)
from mqlab.report.comparison.sentence import answer
from mqlab.report.data.run_results import RunResults
from mqlab.report.render.formatting import NOT_KNOWN

from .made_up import BASE, NEW, at_a, drawn, equal_systems, results_of

STEADY = (99.0, 100.0, 101.0, 100.0, 99.5, 100.5)
WILD = (60.0, 140.0, 100.0, 80.0, 120.0, 100.0)


def times(factor: float, values: tuple[float, ...] = STEADY) -> list[float]:
    """The same scatter in another order, so that rounds share nothing."""
    return [factor * value for value in reversed(values)]


def only_row(results: RunResults, tolerance: float = 0.05) -> MetricComparison:
    (row,) = compare(results, BASE, NEW, tolerance=tolerance).rows
    return row


@pytest.mark.parametrize(
    ("metric", "factor", "outcome"),
    [
        ("rate.work", 0.9, WORSE),
        ("rate.work", 1.1, BETTER),
        ("latency.p99", 0.9, BETTER),
        ("latency.p99", 1.1, WORSE),
        ("cpu.message", 1.1, WORSE),
        ("rate.work", 1.0, SAME),
        ("rate.work", 1.02, SAME),
    ],
)
def test_what_known_runs_say(metric: str, factor: float, outcome: str) -> None:
    row = only_row(at_a(STEADY, times(factor), metric))
    assert (row.outcome, row.reason) == (outcome, "")
    assert row.ratio is not None
    assert row.ratio.value == pytest.approx(factor)
    assert row.ratio.low < factor < row.ratio.high


@pytest.mark.parametrize("factor", [0.9, 1.0, 1.1])
def test_runs_that_scatter_say_nothing(factor: float) -> None:
    row = only_row(at_a(WILD, times(factor, WILD)))
    assert (row.outcome, row.reason) == (NOT_KNOWN, "the 95 % interval leaves it open")


def test_the_tolerance_decides_what_is_the_same() -> None:
    results = at_a(STEADY, times(1.02))
    assert only_row(results, tolerance=0.05).outcome == SAME
    assert only_row(results, tolerance=0.021).outcome == BETTER
    assert only_row(at_a(STEADY, times(1.0)), tolerance=0.001).outcome == NOT_KNOWN


def test_rounds_cancel_what_both_systems_shared() -> None:
    """A machine that changes its speed from round to round hides nothing, if the systems took turns."""
    slower = [0.9 * value * (1 + 0.002 * (-1) ** n) for n, value in enumerate(WILD)]
    assert only_row(at_a(WILD, slower)).outcome == WORSE
    apart = at_a(WILD, slower)
    vars(apart).update(run_of={BASE: "one", NEW: "two"})
    assert only_row(apart).outcome == NOT_KNOWN
    assert not compare(apart, BASE, NEW).is_paired


def test_one_run_decides_nothing() -> None:
    row = only_row(at_a([100.0], [50.0]))
    assert row.outcome == NOT_KNOWN
    assert row.reason == "A has one valid run and so no interval"
    assert row.base is not None
    assert row.base.value == 100.0, "the figure is shown all the same"


def changed(results: RunResults, **values: object) -> RunResults:
    """The measures of the new system, with other values."""
    rows = [replace(row, **values) if row.system == NEW else row for row in results.measures]  # type: ignore[arg-type]
    tables = {name: value for name, value in vars(results).items() if not name.startswith("_")}
    return replace(results).with_tables(**{**tables, "measures": tuple(rows)})


def test_flagged_runs_decide_nothing() -> None:
    results = changed(at_a(STEADY, times(0.5)), quiet=False)
    row = only_row(results)
    assert row.outcome == NOT_KNOWN
    assert row.reason.startswith("all runs of A are flagged")
    said = answer(compare(results, BASE, NEW))
    assert said.startswith("The rate of new against base at A is not known: all runs of A are flagged")


def test_a_percentile_of_few_observations_is_not_shown() -> None:
    row = only_row(changed(at_a(STEADY, times(2.0), "latency.p99"), observations=100))
    assert (row.outcome, row.new) == (NOT_KNOWN, None)
    assert row.reason == "latency.p99 of A has too few independent observations beyond it"


def test_a_rate_that_the_lab_bounded_may_be_higher() -> None:
    """Without the lab's work it might be as high as the base's: not worse. But better is better."""
    assert only_row(changed(at_a(STEADY, times(0.9)), bound_by="lab")).outcome == NOT_KNOWN
    assert only_row(changed(at_a(STEADY, times(1.5)), bound_by="lab")).outcome == BETTER


def test_a_point_that_only_one_system_has_is_not_known() -> None:
    results = results_of({"A": {"rate.work": STEADY}, "D": {"rate.work": STEADY}}, {"A": {"rate.work": STEADY}})
    first, second = compare(results, BASE, NEW).rows
    assert (first.point.scenario, first.outcome) == ("A", SAME)
    assert (second.point.scenario, second.outcome) == ("D", NOT_KNOWN)
    assert second.reason == "no rate.work of D: not run"


def test_many_points_need_more_evidence_than_one() -> None:
    """With a scatter of 4 % and twelve rounds, 4 % is a difference alone, and chance among 24 figures."""
    noisy = [1000 * (1 + 0.04 * one) for one in (1, -1, 1, -1, 0.5, -0.5, 1, -1, 1, -1, 0.5, -0.5)]
    slower = [960 * (1 + 0.04 * one) for one in (-1, 1, 1, -1, -0.5, 0.5, 1, -1, -1, 1, 0.5, -0.5)]
    one = {"A": {"rate.work": noisy}}, {"A": {"rate.work": slower}}
    assert only_row(results_of(*one), tolerance=0.01).outcome == WORSE
    base, new = drawn(random.Random(1), 1.0, "BCDEFGH")
    among = compare(results_of({**one[0], **base}, {**one[1], **new}), BASE, NEW, tolerance=0.01)
    first = next(row for row in among.rows if row.point.scenario == "A")
    assert first.ratio is not None
    assert first.ratio.high < 1, "its own interval says so"
    assert first.outcome == NOT_KNOWN


def test_equal_systems_are_not_called_different() -> None:
    """A hundred pairs of nine figures each: at most five have any that is better or worse."""
    chance = random.Random(19)
    alarms = 0
    for _ in range(100):
        found = compare(equal_systems(chance), BASE, NEW)
        assert len(found.rows) == 9
        alarms += any(row.outcome in (BETTER, WORSE) for row in found.rows)
    assert alarms <= 5


def test_a_regression_of_ten_percent_is_found() -> None:
    chance = random.Random(19)
    found = [compare(results_of(*drawn(chance, 0.9)), BASE, NEW).count(WORSE) for _ in range(20)]
    assert all(found)
