"""Random runs: the pipeline must agree with a plain recount of each, however its work is cut up."""

import math
from collections import Counter
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame, SparkSession

from mqlab.pipeline import event_tables
from mqlab.pipeline.measure import differing_counts, measure
from mqlab.pipeline.measure_tables import read_table
from mqlab.pipeline.schema import DELIVERY_CLASSES, TABLES
from mqlab.study.metric import PERCENTILES
from pipeline.cases import CASES, EXHIBITS
from pipeline.random_runs import SEED
from pipeline.recount import percentile, recount
from pipeline.synthetic_runs import Run, write
from table_rows import Tables


def test_classes_are_those_of_the_recount(chance_runs: list[Run], tables: Tables) -> None:
    audits = {row["run"]: row for row in tables["audits"]}
    seen: set[str] = set()
    for run in chance_runs:
        truth = recount(run)
        row = audits[run.number]
        assert {name: row[name] for name in (*DELIVERY_CLASSES, "status")} == {
            name: truth[name] for name in (*DELIVERY_CLASSES, "status")
        }, f"run {run.number} of seed {SEED}"
        seen |= {name for name in DELIVERY_CLASSES if truth[name]} | {truth["status"]}
    assert seen >= {*DELIVERY_CLASSES, "clean", "failed", "void"}, "the random runs leave something untried"


def test_figures_are_those_of_the_recount(chance_runs: list[Run], tables: Tables) -> None:
    compared: Counter[str] = Counter()
    for run in chance_runs:
        truth = recount(run)
        row = {r["metric"]: r["value"] for r in tables["run_measures"] if r["run"] == run.number}
        if truth["status"] != "clean":
            assert row == {}
            continue
        assert row["rate.received"] == truth["received"] / 2
        compared["latency"] += _same_durations(row, "latency", truth["latencies"])
        compared["response"] += _same_durations(row, "response", truth["responses"])
        if run.declared:
            assert row["rate.round_trips"] == row["rate.work"] == truth["arrived"] / 2
            assert row["bytes.round_trips"] == truth["arrived"] * 1024 / 2
        else:
            assert "rate.round_trips" not in row
            assert row["rate.work"] == row["rate.received"]
    assert compared["latency"] > 20
    assert compared["response"] > 10


def test_latencies_over_time_are_those_of_the_recount(chance_runs: list[Run], tables: Tables) -> None:
    compared: Counter[str] = Counter()
    for run in chance_runs:
        truth = recount(run)
        found = {
            (row["kind"], round(row["seconds"] / row["length"]), round(math.log(row["latency"] * 1e9, 1.0019) / 152)):
            row["count"]
            for row in tables["latency_slots"] if row["run"] == run.number
        }  # fmt: skip
        assert found == (truth["slots"] if truth["status"] == "clean" else {}), f"run {run.number} of seed {SEED}"
        compared.update(kind for kind, _, _ in found)
    assert compared["latency"] > 20
    assert compared["response"] > 10


def _same_durations(row: dict[str, float], name: str, truth: list[int]) -> bool:
    """Whether there was something to compare."""
    if not truth:
        assert not any(metric.startswith(name) for metric in row)
        return False
    assert row[f"{name}.max"] == truth[-1] / 1e9
    assert row[f"{name}.mean"] == pytest.approx(sum(truth) / len(truth) / 1e9, rel=1e-12)
    for statistic, per_mille in PERCENTILES.items():
        assert row[f"{name}.{statistic}"] == pytest.approx(percentile(truth, per_mille), rel=0.002, abs=2e-9)
    return True


def test_sql_and_columns_give_the_same_tables_and_partitions_and_order_of_the_rows_change_nothing(
    spark: SparkSession, tmp_path: Path, chance_runs: list[Run], tables: Tables
) -> None:
    """To the last digit. The usual pass is the run before: it computed the deliveries in columns."""
    settings = {
        # An odd number: what was together in a partition, with 2 to each core, no longer is.
        "spark.sql.shuffle.partitions": "5",
        "spark.sql.adaptive.coalescePartitions.enabled": "false",
    }
    before = {name: spark.conf.get(name) for name in settings}
    try:
        for name, value in settings.items():
            spark.conf.set(name, value)
        folder = write(tmp_path, [*CASES.values(), *chance_runs], files=3, seed=2)
        measure(spark, folder, exhibits=EXHIBITS, in_sql=True)
        again = {name: read_table(folder, name) for name in TABLES}
    finally:
        for name, former in before.items():
            spark.conf.set(name, str(former))
    assert again == tables


def test_blocks_of_a_few_rows_give_the_same_tables(
    spark: SparkSession, tmp_path: Path, chance_runs: list[Run], tables: Tables, monkeypatch: pytest.MonkeyPatch
) -> None:
    """To the last digit, though faults of every kind lie across the borders of blocks."""
    monkeypatch.setattr("mqlab.pipeline.counts.large_runs.BLOCK_ROWS", 400)
    monkeypatch.setattr("mqlab.pipeline.counts.large_runs.SPLIT_ROWS", 100)
    folder = write(tmp_path, [*CASES.values(), *chance_runs], seed=2)
    measure(spark, folder, exhibits=EXHIBITS)
    assert {name: read_table(folder, name) for name in TABLES} == tables


def test_what_stays_in_spark_of_very_many_runs_gives_the_same_tables(
    spark: SparkSession, tmp_path: Path, chance_runs: list[Run], tables: Tables, monkeypatch: pytest.MonkeyPatch
) -> None:
    """To the last digit: samples that Spark reads, activity that is not fetched, tables in several tasks."""
    monkeypatch.setattr("mqlab.pipeline.event_tables.MOST_LOCAL_SAMPLES", 0)
    monkeypatch.setattr("mqlab.pipeline.event_tables.TASK_BYTES", 1000)
    monkeypatch.setattr("mqlab.pipeline.measure.MOST_FETCHED", 0)
    monkeypatch.setattr("mqlab.pipeline.measure.RUNS_OF_PARTITION", 100)
    monkeypatch.setattr("mqlab.pipeline.counts.arrivals.ROWS", 20_000)
    folder = write(tmp_path, [*CASES.values(), *chance_runs], files=3, seed=2)
    fetched: list[int] = []
    local_table = event_tables.local_table

    def counted(spark: SparkSession, rows: pa.Table) -> DataFrame:
        fetched.append(len(rows))
        return local_table(spark, rows)

    monkeypatch.setattr(event_tables, "local_table", counted)
    measure(spark, folder, exhibits=EXHIBITS)
    assert {name: read_table(folder, name) for name in TABLES} == tables
    samples = pq.read_table(folder.events / "samples").num_rows
    assert samples > 0
    assert samples not in fetched


def test_the_counts_of_both_ways_are_compared(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = write(tmp_path, [CASES["lost"], CASES["a gap in the sends"]])
    assert differing_counts(spark, folder) == []
    monkeypatch.setattr(
        "mqlab.pipeline.counts.sql_counts.untiled",
        lambda sends: sends.where("false").select("run", "destination", "producer"),
    )
    assert differing_counts(spark, folder) == ["gaps"]
