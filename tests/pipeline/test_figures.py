"""Rates, latencies, series, resources and their summary, of runs whose figures are known beforehand."""

import math

import numpy as np
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as fn

from mqlab.pipeline.kernels.histogram import GROWTH, bucket, upper_edge
from mqlab.pipeline.tables.resources import bottlenecks
from mqlab.study import METRICS
from mqlab.study.metric import PERCENTILES
from mqlab.study.statistics import t975
from pipeline.cases import CASES, DELAYS
from pipeline.intervals import half_width
from table_rows import Row, Tables


def figures(tables: Tables, name: str) -> dict[str, float]:
    return {row["metric"]: row["value"] for row in tables["run_measures"] if row["run"] == CASES[name].number}


def measures(tables: Tables, scenario: str) -> dict[str, Row]:
    return {row["metric"]: row for row in tables["measures"] if row["scenario"] == scenario}


@pytest.mark.parametrize(("metric", "per_mille"), PERCENTILES.items())
def test_percentiles_of_known_delays_and_a_stall(tables: Tables, metric: str, per_mille: int) -> None:
    truth = np.percentile(DELAYS, per_mille / 10, method="inverted_cdf") / 1e9
    assert figures(tables, "known delays")[f"latency.{metric}"] == pytest.approx(truth, rel=0.0025)


def test_highest_and_mean_are_exact(tables: Tables) -> None:
    found = figures(tables, "known delays")
    assert found["latency.max"] == DELAYS.max() / 1e9
    assert found["latency.mean"] == pytest.approx(DELAYS.mean() / 1e9, rel=1e-12)


def test_confirmations_count_from_the_send(tables: Tables) -> None:
    found = figures(tables, "known delays")
    for metric, share in (("p50", 50), ("p99", 99)):
        truth = 2 * np.percentile(DELAYS, share, method="inverted_cdf") / 1e9
        assert found[f"confirm.{metric}"] == pytest.approx(truth, rel=0.0025)


def test_what_was_never_confirmed_has_no_confirmation(tables: Tables) -> None:
    assert not any(metric.startswith("confirm") for metric in figures(tables, "clean"))


def test_histogram_holds_every_message(tables: Tables) -> None:
    rows = [row for row in tables["latencies"] if row["scenario"] == "known delays"]
    assert sum(row["count"] for row in rows) == len(DELAYS)
    below = sum(row["count"] for row in rows if row["latency"] <= 0.01)
    assert below == pytest.approx(np.sum(DELAYS <= 10_000_000), rel=0.005)


def test_times_are_put_on_one_clock(tables: Tables) -> None:
    assert figures(tables, "clocks apart")["latency.max"] == 0.005


def test_measure_phase_has_its_start_and_not_its_end(tables: Tables) -> None:
    found = figures(tables, "at the edges")
    assert (found["rate.sent"], found["rate.received"], found["bytes.received"]) == (3.0, 3.0, 36.0)


def test_latency_is_of_the_first_copy(tables: Tables) -> None:
    assert figures(tables, "first of several copies")["latency.max"] == 0.002


def test_resources_between_the_samples_of_the_measure_phase(tables: Tables) -> None:
    found = figures(tables, "bound by the disk")
    resources = {metric: found[metric] for metric in found if metric.startswith(("cpu", "rss", "sync", "h"))}
    assert resources == pytest.approx(
        {
            "cpu.broker": 20.0, "cpu.agents": 100.0, "cpu.message": 1.2 / 5, "rss.broker": 3_000, "rss.agents": 6_000,
            "syncs": 250.0, "sync.share": 60.0, "holds": 3.0, "held.seconds": 0.5,
        }
    )  # fmt: skip


def test_several_brokers_count_together(tables: Tables) -> None:
    found = figures(tables, "two brokers")
    expected = {
        "cpu.broker": 75.0, "cpu.agents": 25.0, "cpu.message": 0.2, "rss.broker": 2_000, "syncs": 20.0,
        "sync.share": 50.0, "holds": 4.0, "held.seconds": 1.0,
    }  # fmt: skip
    assert {metric: found[metric] for metric in expected} == pytest.approx(expected)


@pytest.mark.parametrize(
    ("scenario", "above"), [("a client above its limit", True), ("clients below their limit", False), ("idle", None)]
)
def test_whether_a_client_used_more_than_it_may(tables: Tables, scenario: str, above: bool | None) -> None:
    assert {row["client_cpu"] for row in measures(tables, scenario).values()} == {above}


def test_a_side_without_work_has_no_rate(tables: Tables) -> None:
    sends, receives = figures(tables, "only sends"), figures(tables, "only receives")
    assert (sends["rate.sent"], sends["rate.work"]) == (5.0, 5.0)
    assert (receives["rate.received"], receives["rate.work"], receives["bytes.received"]) == (5.0, 5.0, 60.0)
    assert not {"rate.received", "bytes.received", "rate.round_trips"} & sends.keys()
    assert not {"rate.sent", "rate.round_trips"} & receives.keys()


def test_what_was_not_sampled_has_no_figure(tables: Tables) -> None:
    assert not any(metric.startswith(("cpu", "rss", "sync", "h")) for metric in figures(tables, "clean"))


@pytest.mark.parametrize(
    ("scenario", "bound_by"),
    [
        ("clean", None),
        ("idle", None),
        ("bound by the disk", "disk"),
        ("bound by a client", "client"),
        ("bound by the broker", "broker"),
        ("a full machine", "machine full"),
        ("a full machine with a busy broker", "machine full"),
        ("little lab in a busy agent", "client"),
        ("much lab in a busy agent", "lab"),
        ("agents elsewhere, and no machine full", None),
        ("bound by a client elsewhere", "client"),
        ("much lab in a busy agent elsewhere", "lab"),
        ("little lab in idle agents", None),
        ("much lab in idle agents", None),
        ("little lab beside a busy broker", "broker"),
        ("much lab beside a busy broker", "broker"),
        ("little lab on a full machine", "machine full"),
        ("much lab on a full machine", "lab"),
        ("little lab between confirmations", None),
        ("much lab between confirmations", "lab"),
        ("much lab for two that wait", None),
        ("much lab by a schedule", None),
        ("transactions of two batches", "lab"),
        ("the lab between round trips of 1", "lab"),
        ("the lab between round trips of 2", None),
        ("majority", "broker"),
        ("split", None),
        ("bound by the network", "network"),
        ("a line that is not full", None),
        ("elsewhere, with a busy disk here", None),
    ],
)
def test_what_holds_a_point_back(tables: Tables, scenario: str, bound_by: str | None) -> None:
    assert {row["bound_by"] for row in measures(tables, scenario).values()} == {bound_by}


@pytest.mark.parametrize(
    ("scenario", "percent"), [("little lab in idle agents", 19.9), ("much lab by a schedule", 20.1)]
)
def test_the_work_of_the_lab_in_all_agents(tables: Tables, scenario: str, percent: float) -> None:
    assert figures(tables, scenario)["cpu.lab"] == pytest.approx(percent)


def test_an_agent_that_hosts_the_broker_shares_its_core_with_the_lab(spark: SparkSession) -> None:
    used = spark.sql(
        """SELECT *, cpu_broker AS cpu_busiest_broker, NULL AS cpu_busiest_agent, cpu_broker AS cpu_here,
        0D AS sync_share, 0D AS disk_share, 0D AS network_share, map('agent-2', 0D) AS cpu_by_agent
        FROM VALUES (0, 90D), (1, 90D), (2, 80D) AS t(run, cpu_broker)"""
    )
    work = spark.sql(
        "SELECT * FROM VALUES (0, 1, 11D, 0D), (1, 1, 9D, 0D), (2, 1, 11D, 0D) AS t(run, agent, cpu, wait)"
    )
    points = spark.sql("SELECT id AS run, NULL AS client_cpu FROM range(3)")
    found = {row.run: row.bound_by for row in bottlenecks(used, work, points, cores=2).collect()}
    assert found == {0: "lab", 1: "broker", 2: None}


def test_mean_and_interval_over_the_valid_runs(tables: Tables) -> None:
    row = measures(tables, "repeated")["rate.received"]
    rates = np.array([1_000, 1_100, 1_300]) / 2
    assert row["value"] == pytest.approx(rates.mean())
    assert row["ci95"] == pytest.approx(half_width(tables, ("repeated", "")))
    assert row["ci95"] < t975(2) * rates.std(ddof=1) / math.sqrt(3), "the other points tell of the noise, too"
    assert (row["study"], row["unit"], row["runs"], row["attempted"], row["void"]) == (
        "made-up", "messages/s", 3, 4, 1,
    )  # fmt: skip


def test_one_run_has_the_interval_of_the_noise_of_the_others(tables: Tables) -> None:
    row = measures(tables, "clean")["rate.received"]
    assert (row["value"], row["runs"]) == (10.0, 1)
    assert row["ci95"] == pytest.approx(half_width(tables, ("clean", "")), rel=1e-9)


def test_metrics_have_the_names_and_units_of_the_study(tables: Tables) -> None:
    found = {row["metric"]: row["unit"] for row in tables["measures"]}
    assert found == {name: metric.unit for name, metric in METRICS.items()}


def test_buckets(spark: SparkSession) -> None:
    """No duration is no bucket; an upper edge is never below a duration, and less than 0.2 % above it."""
    durations = [None, 0, 1, 2, 999, 10**6, 10**6 + 1, 123_456_789, 10**12]
    given = spark.range(1).select(fn.explode(fn.array(*(fn.lit(d).cast("long") for d in durations))).alias("ns"))
    rows = given.withColumn("b", bucket(fn.col("ns"))).selectExpr("*", f"{upper_edge('b')} AS edge").collect()
    assert [row.b for row in rows if row.ns is None] == [None]
    assert [row.b for row in rows if row.ns in (0, 1)] == [0, 0]
    assert GROWTH < 1.002
    for row in rows[2:]:
        assert row.ns <= row.edge * (1 + 1e-9)
        assert row.edge < row.ns * GROWTH * (1 + 1e-9)
