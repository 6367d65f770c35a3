"""Round trips whose times are known beforehand."""

import numpy as np
import pytest

from mqlab.study.metric import PERCENTILES
from pipeline.cases import CASES, RESPONSES
from pipeline.test_figures import figures
from table_rows import Tables


def test_rate_bytes_and_responses(tables: Tables) -> None:
    found = figures(tables, "round trips")
    assert (found["rate.round_trips"], found["rate.work"], found["bytes.round_trips"]) == (1.5, 1.5, 1.5 * 1024)
    assert (found["rate.sent"], found["rate.received"]) == (3.0, 3.0), "both legs count as messages"
    assert found["response.max"] == 0.004
    assert found["response.mean"] == pytest.approx((2_000_000 + 4_000_000 + 6_001) / 3 / 1e9, rel=1e-12)
    assert found["response.p50"] == pytest.approx(0.002, rel=0.002)


def test_a_reply_counts_when_it_came_and_a_response_when_it_was_planned(tables: Tables) -> None:
    """The first was planned before the measure phase, the second answered after it, the others neither."""
    found = figures(tables, "round trips at the edges")
    assert (found["rate.round_trips"], found["response.max"], found["response.mean"]) == (0.5, 0.007, 0.007)


def test_times_are_put_on_one_clock(tables: Tables) -> None:
    found = figures(tables, "round trips, clocks apart")
    assert (found["rate.round_trips"], found["response.max"], found["latency.max"]) == (0.5, 0.005, 0.0025)


@pytest.mark.parametrize("name", ["a reply is lost", "a request is lost", "agents counted more round trips"])
def test_what_was_lost_gives_no_figure(tables: Tables, name: str) -> None:
    assert figures(tables, name) == {}


@pytest.mark.parametrize(("metric", "per_mille"), PERCENTILES.items())
def test_percentiles_of_known_responses(tables: Tables, metric: str, per_mille: int) -> None:
    truth = np.percentile(RESPONSES, per_mille / 10, method="inverted_cdf") / 1e9
    assert figures(tables, "known responses")[f"response.{metric}"] == pytest.approx(truth, rel=0.0025)


def test_known_responses_exactly(tables: Tables) -> None:
    found = figures(tables, "known responses")
    assert found["response.max"] == RESPONSES.max() / 1e9
    assert found["response.mean"] == pytest.approx(RESPONSES.mean() / 1e9, rel=1e-12)
    assert found["bytes.round_trips"] == found["rate.round_trips"] * 100
    rows = [row for row in tables["responses"] if row["scenario"] == CASES["known responses"].scenario]
    assert sum(row["count"] for row in rows) == len(RESPONSES)


def test_one_way_runs_have_no_round_trips(tables: Tables) -> None:
    assert not any(metric.startswith(("response", "rate.round", "bytes.round")) for metric in figures(tables, "clean"))
