"""Counts of runs in columns. That they are right, and the same as in SQL, is in `test_recount`."""

import json
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as fn

from mqlab.events.checksums import EventFile
from mqlab.events.folder import RunFolder
from mqlab.events.schema import TABLES
from mqlab.events.sources import EventSources, count_rows, examine_events
from mqlab.pipeline.counts.run_partitions import ROWS, divide
from mqlab.pipeline.counts.run_source import EventPartition, one_a_task, read_files
from mqlab.pipeline.kernels.run_counts import gaps, row_counts
from mqlab.pipeline.kernels.run_deliveries import run_deliveries
from mqlab.pipeline.kernels.run_events import NEEDED, align_clocks
from pipeline.synthetic_runs import Run, write


def events_of(folder: RunFolder) -> dict[str, pa.Table]:
    return {table: read_files(table, [(str(path), None) for path in folder.event_files(table)]) for table in NEEDED}


def counted(events: dict[str, pa.Table]) -> dict[str, pa.Table]:
    aligned = align_clocks(events)
    counts = {
        **run_deliveries(aligned, {}), "gaps": gaps(aligned["sends"]), **row_counts(aligned, {}),
    }  # fmt: skip
    keys = ("run", "agent", "bucket", "measured", "slot", "application", "operation")
    return {
        name: table.sort_by([(key, "ascending") for key in keys if key in table.column_names])
        for name, table in counts.items()
    }


def test_the_order_of_the_rows_changes_nothing(chance_runs: list[Run], tmp_path: Path) -> None:
    ordered, shuffled = write(tmp_path / "a", chance_runs), write(tmp_path / "b", chance_runs, files=3, seed=5)
    assert counted(events_of(ordered)) == counted(events_of(shuffled))


@pytest.mark.parametrize("missing", NEEDED)
def test_a_table_may_be_empty(chance_runs: list[Run], tmp_path: Path, missing: str) -> None:
    events = events_of(write(tmp_path, chance_runs[:3]))
    found = counted({**events, missing: TABLES[missing].empty_table()})
    runs = {run.number for run in chance_runs[:3]}
    assert set(found["deliveries"]["run"].to_pylist()) == set(found["activity"]["run"].to_pylist()) == runs


def sources(*runs: int) -> EventSources:
    files = [EventFile(Path(f"run-{run:06}.00000000.parquet"), "") for run in runs]
    return EventSources({table: files if table == "sends" else [] for table in TABLES})


def windows(*runs: int) -> pa.Table:
    times = {"load_start": 5, "measure_start": 10, "measure_end": 20}
    return pa.table({"run": runs} | {name: [time] * len(runs) for name, time in times.items()})


def test_small_runs_share_a_partition_and_a_large_one_is_alone() -> None:
    runs = (1, 2, 3, 4, 5)
    rows: dict[int | None, int] = dict(zip(runs, (ROWS // 2, ROWS // 2, 1, 3 * ROWS, 1), strict=True))
    partitions = divide(sources(*runs), windows(*runs), rows)
    assert [[*partition.windows] for partition in partitions] == [[1, 2], [3], [4], [5]]
    assert [len(partition.files["sends"]) for partition in partitions] == [2, 1, 1, 1]


def test_a_run_that_is_too_large_for_a_task_is_in_no_partition() -> None:
    partitions = divide(sources(1, 2), windows(1, 2), {2: 5})
    assert [partition.windows for partition in partitions] == [{2: [5, 10, 20]}]
    assert [len(partition.files["sends"]) for partition in partitions] == [1]


def test_rows_are_counted_by_run_unless_a_file_has_several_runs(chance_runs: list[Run], tmp_path: Path) -> None:
    folder = write(tmp_path, chance_runs[:2])
    events = events_of(folder)
    number = sum(events[table].num_rows for table in ("sends", "receipts", "round_trips", "operations"))
    assert number
    assert count_rows(examine_events(folder)) == {None: number}
    for path in folder.events.rglob("part-0.*"):
        path.rename(path.with_name(path.name.replace("part-0", "run-000007")))
    assert count_rows(examine_events(folder)) == {7: number}


def test_a_task_gets_no_partition_but_its_own(spark: SparkSession) -> None:
    work = one_a_task(spark, [EventPartition(rows=number) for number in range(50)])
    in_tasks = work.groupBy(fn.spark_partition_id()).agg(fn.collect_list("partition").alias("partitions")).collect()
    assert sorted(json.loads(text)["rows"] for task in in_tasks for text in task["partitions"]) == [*range(50)]
    assert len(in_tasks) == 50
