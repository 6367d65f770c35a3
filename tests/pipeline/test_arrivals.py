"""The arrivals in runs with faults: the same in columns and in SQL, however the runs are cut."""

import random
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as fn

from mqlab.events.folder import RunFolder
from mqlab.events.sources import examine_events
from mqlab.pipeline.counts import arrivals, large_runs
from mqlab.pipeline.counts.arrivals import have_same_arrivals, read_arrivals
from mqlab.pipeline.counts.run_source import gather
from mqlab.pipeline.event_tables import EventTables, measure_windows
from mqlab.pipeline.measure import differing_counts
from mqlab.pipeline.tables.faults import fault_latencies
from pipeline.cases import CASES
from pipeline.random_runs import random_runs
from pipeline.synthetic_runs import MEASURE, SECOND, Run, write, write_by_run

RUNS = 12


@pytest.fixture(scope="module")
def runs() -> list[Run]:
    """With topics, copies, gaps, refused sends and clocks that differ; the last one has no fault."""
    made = random_runs()[:RUNS]
    for run in made[:-1]:
        run.fault(MEASURE, MEASURE + SECOND // 2)
    return made


def both_ways(spark: SparkSession, folder: RunFolder) -> list[DataFrame]:
    sources = examine_events(folder)
    events = EventTables(spark, sources)
    windows = measure_windows(spark, events, sources.sharing).toArrow()
    return [read_arrivals(spark, sources, windows, events, in_sql=in_sql) for in_sql in (False, True)]


@pytest.mark.parametrize("block_rows", [large_runs.BLOCK_ROWS, 40], ids=["whole", "blocks"])
@pytest.mark.parametrize("one_file", [True, False], ids=["one file", "a file for each run"])
def test_columns_and_sql_find_the_same_arrivals(
    one_file: bool, block_rows: int, runs: list[Run], spark: SparkSession, tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.setattr(large_runs, "BLOCK_ROWS", block_rows)
    monkeypatch.setattr(large_runs, "SPLIT_ROWS", block_rows)
    monkeypatch.setattr(arrivals, "ROWS", 100)
    folder = write(tmp_path / "run", runs if one_file else [])
    if not one_file:
        write_by_run(folder, runs)
    in_columns, in_sql = both_ways(spark, folder)
    assert in_columns.rdd.getNumPartitions() > 1
    assert {row.run for row in in_columns.select("run").distinct().collect()} <= {run.number for run in runs[:-1]}
    assert in_columns.count() > 100
    assert have_same_arrivals(in_columns, in_sql)
    assert not have_same_arrivals(in_columns, in_sql.limit(1))


def test_the_check_compares_them(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = write(tmp_path, [CASES["killed once"]])
    assert differing_counts(spark, folder) == []
    monkeypatch.setattr(
        "mqlab.pipeline.counts.arrivals.received_messages",
        lambda _: spark.sql("SELECT 1 AS run, 1L AS messages, 0L AS t_planned, 1L AS t_received"),
    )
    assert differing_counts(spark, folder) == ["arrivals"]


def test_a_run_is_in_one_partition_of_several(spark: SparkSession) -> None:
    rows = gather(spark.range(1000).selectExpr("CAST(id % 50 AS int) AS run"), 4)
    places = rows.withColumn("place", fn.spark_partition_id()).distinct().collect()
    assert len({row.place for row in places}) == 4
    assert len(places) == 50
    assert gather(rows, 1).rdd.getNumPartitions() == 1


@pytest.mark.parametrize("times", [1, 2, 500])
def test_percentiles_of_a_fault_are_those_of_spark(spark: SparkSession, times: int) -> None:
    """Spark's own holds all different times in memory."""
    chance = random.Random(times)
    received = spark.createDataFrame(
        [
            (run, chance.randint(1, 40), planned := chance.randint(0, 900), planned + chance.randint(-9, 99))
            for run in (1, 2) for _ in range(times)
        ],
        "run int, messages long, t_planned long, t_received long",
    )  # fmt: skip
    scopes = spark.sql("SELECT explode(array(1, 2)) AS run, 1 AS number, -99L AS t_start, 9999L AS scope_end")
    none = spark.sql("SELECT 1 AS run, 1 AS number, 0L AS t_recovered").where("false")
    latency = "greatest(t_received - t_planned, 0)"
    expected = received.groupBy("run").agg(
        fn.sum("messages").alias("messages"), fn.expr(f"max({latency})").alias("latency_max"),
        *(fn.expr(f"percentile({latency}, {share}, messages)").alias(name)
          for name, share in (("latency_p50", 0.5), ("latency_p99", 0.99))),
    )  # fmt: skip
    found = fault_latencies(received, scopes, none).orderBy("run").toArrow().to_pylist()
    for row, known in zip(found, expected.orderBy("run").toArrow().to_pylist(), strict=True):
        assert row == known | {"number": 1} | {
            name: pytest.approx(known[name]) for name in ("latency_p50", "latency_p99")
        }
