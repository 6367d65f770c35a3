"""Random runs: the pipeline must agree with a plain recount of each, however its work is cut up."""

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from tests.pipeline.cases import CASES
from tests.pipeline.made_up import Run, write
from tests.pipeline.random_runs import SEED
from tests.pipeline.recount import percentile, recount

from mqlab.pipeline.fates import CLASSES
from mqlab.pipeline.measure import TABLES, measure, read

Tables = dict[str, list[dict[str, Any]]]


def test_classes_are_those_of_the_recount(chance_runs: list[Run], tables: Tables) -> None:
    audits = {row["run"]: row for row in tables["audits"]}
    seen: set[str] = set()
    for run in chance_runs:
        truth = recount(run)
        row = audits[run.number]
        assert {name: row[name] for name in (*CLASSES, "status")} == {
            name: truth[name] for name in (*CLASSES, "status")
        }, f"run {run.number} of seed {SEED}"
        seen |= {name for name in CLASSES if truth[name]} | {truth["status"]}
    assert seen >= {*CLASSES, "clean", "failed"}, "the random runs leave something untried"


def test_figures_are_those_of_the_recount(chance_runs: list[Run], tables: Tables) -> None:
    compared = 0
    for run in chance_runs:
        truth = recount(run)
        row = {r["metric"]: r["value"] for r in tables["run_measures"] if r["run"] == run.number}
        if truth["status"] != "clean":
            assert row == {}
            continue
        assert row["rate.received"] == truth["received"] / 2
        if latencies := truth["latencies"]:
            assert row["latency.max"] == latencies[-1] / 1e9
            assert row["latency.mean"] == pytest.approx(sum(latencies) / len(latencies) / 1e9, rel=1e-12)
            for name, share in (("p50", 500), ("p90", 900), ("p99", 990), ("p99.9", 999)):
                assert row[f"latency.{name}"] == pytest.approx(percentile(latencies, share), rel=0.002, abs=2e-9)
            compared += 1
    assert compared > 20


@pytest.mark.parametrize(("partitions", "files", "seed"), [(1, 1, 1), (8, 3, 2), (64, 8, 3)])
def test_partitions_and_order_of_the_rows_change_nothing(
    spark: SparkSession, tmp_path: Path, chance_runs: list[Run], tables: Tables, partitions: int, files: int, seed: int
) -> None:
    """To the last digit. The pass with the usual partitions is the run before: so this is also a second run."""
    settings = {
        "spark.sql.shuffle.partitions": str(partitions),
        "spark.sql.adaptive.coalescePartitions.enabled": "false",
    }
    before = {name: spark.conf.get(name) for name in settings}
    try:
        for name, value in settings.items():
            spark.conf.set(name, value)
        folder = write(tmp_path, [*CASES.values(), *chance_runs], files, seed)
        measure(spark, folder)
        again = {name: read(folder, name) for name in TABLES}
    finally:
        for name, value in before.items():
            spark.conf.set(name, str(value))
    assert again == tables
