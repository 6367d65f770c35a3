"""A finished run against the measures of earlier ones."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
import pytest

from mqlab.pipeline.history.earlier import EarlierMeasure
from mqlab.report.comparison.comparison import MetricComparison, SystemComparison
from mqlab.report.comparison.with_history import compare_with_history
from mqlab.report.data.run_results import RunResults
from mqlab.study.language.gate import parse_gate
from report.comparison.made_up import NEW, at_a
from report.comparison.test_command import Runs

FIRST = datetime(2026, 1, 1, tzinfo=UTC)


def compared(path: Path, rate: float, earlier: Sequence[float], gate: str = "") -> SystemComparison:
    results = RunResults.of(Runs(path).one(rate))
    started = [FIRST + timedelta(days=day) for day in range(len(earlier))]
    known = [EarlierMeasure("aaaa", "A", "", "rate.work", started, earlier)]
    return compare_with_history(results, "embedded", known, gates=[parse_gate(gate)] if gate else [])


def rate_of(comparison: SystemComparison) -> MetricComparison:
    (row,) = [row for row in comparison.rows if row.metric == "rate.work"]
    return row


@pytest.mark.parametrize(
    ("rate", "earlier", "outcome"),
    [
        (1003.0, (1000.0, 1010.0, 990.0, 1005.0, 995.0), "same"),
        (800.0, (1000.0, 1010.0, 990.0, 1005.0, 995.0), "worse"),
        (1300.0, (1000.0, 1010.0, 990.0, 1005.0, 995.0), "better"),
        # The runs inside one folder agree, but the folders do not.
        (800.0, (1000.0, 1400.0, 700.0, 1200.0, 800.0), "not known"),
        (800.0, (1000.0, 1001.0), "not known"),
    ],
)
def test_the_spread_of_the_earlier_runs_decides(
    tmp_path: Path, rate: float, earlier: Sequence[float], outcome: str
) -> None:
    row = rate_of(compared(tmp_path, rate, earlier))
    assert row.outcome == outcome
    assert (row.ratio is None) == (len(earlier) < 3)


def test_its_interval_is_that_of_a_further_observation(tmp_path: Path) -> None:
    earlier = (100.0, 104.0, 96.0, 102.0)
    ratio = rate_of(compared(tmp_path, 100.0, earlier)).ratio
    assert ratio is not None
    mean, spread = np.mean(earlier), np.std(earlier, ddof=1)
    assert ratio.value == pytest.approx(100 / mean)
    # The quantile of Student's t with 3 degrees of freedom.
    half = 3.1824 * spread / mean * np.sqrt(1 + 1 / 4)
    assert np.log(ratio.high / ratio.value) == pytest.approx(half, rel=1e-3)


@pytest.mark.parametrize(("limit", "outcome"), [("-10%", "failed"), ("-50%", "passed")])
def test_gates_take_its_ratio(tmp_path: Path, limit: str, outcome: str) -> None:
    earlier = (1000.0, 1010.0, 990.0, 1005.0, 995.0)
    (verdict,) = compared(tmp_path, 800.0, earlier, f"rate.work < {limit}").gates
    assert verdict.outcome == outcome


def test_a_metric_without_a_history_is_not_known(tmp_path: Path) -> None:
    comparison = compared(tmp_path, 1000.0, (1000.0, 1010.0, 990.0))
    (latency,) = [row for row in comparison.rows if row.metric == "latency.p99"]
    assert (latency.outcome, latency.reason) == (
        "not known", "the history has 0 earlier runs of it that count; 3 are needed",
    )  # fmt: skip
    assert "3 earlier runs, from 2026-01-01 00:00 to 2026-01-03 00:00 UTC" in comparison.notes[0]


@pytest.mark.parametrize(("clock_error_s", "outcome"), [(0.0, "worse"), (5.0, "worse"), (20.0, "not known")])
def test_a_latency_is_not_worse_by_less_than_the_error_of_the_clocks(clock_error_s: float, outcome: str) -> None:
    earlier = (100.0, 101.0, 99.0, 100.5, 99.5)
    results = at_a(earlier, [1.3 * value for value in earlier], "latency.p99")
    results.meta["clock_error"] = clock_error_s
    started = [FIRST + timedelta(days=day) for day in range(len(earlier))]
    comparison = compare_with_history(results, NEW, [EarlierMeasure("aaaa", "A", "", "latency.p99", started, earlier)])
    (row,) = [row for row in comparison.rows if row.metric == "latency.p99"]
    assert row.outcome == outcome
