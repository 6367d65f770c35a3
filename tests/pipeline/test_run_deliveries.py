"""Deliveries in columns. That they are right, and the same as in SQL, is in `test_recount`."""

from pathlib import Path

import pyarrow as pa
import pytest

from mqlab.events.checksums import EventFile
from mqlab.events.folder import RunFolder
from mqlab.events.schema import TABLES
from mqlab.pipeline.kernels.run_deliveries import NEEDED, SCHEMA, run_deliveries
from mqlab.pipeline.measure_tables import EventSources
from mqlab.pipeline.run_source import ROWS, divide, read_files
from pipeline.synthetic_runs import Run, write


def events_of(folder: RunFolder) -> dict[str, pa.Table]:
    return {table: read_files(table, [str(path) for path in folder.event_files(table)]) for table in NEEDED}


def counted(events: dict[str, pa.Table]) -> pa.Table:
    return pa.Table.from_batches(run_deliveries(events, {}), SCHEMA)


def test_the_order_of_the_rows_changes_nothing(chance_runs: list[Run], tmp_path: Path) -> None:
    ordered, shuffled = write(tmp_path / "a", chance_runs), write(tmp_path / "b", chance_runs, files=3, seed=5)
    assert counted(events_of(ordered)) == counted(events_of(shuffled))


@pytest.mark.parametrize("missing", ["sends", "receipts", "roles", "clocks"])
def test_a_table_may_be_empty(chance_runs: list[Run], tmp_path: Path, missing: str) -> None:
    events = events_of(write(tmp_path, chance_runs[:3]))
    found = counted({**events, missing: TABLES[missing].empty_table()})
    assert set(found["run"].to_pylist()) == {run.number for run in chance_runs[:3]}


def sources(*runs: int) -> EventSources:
    files = [EventFile(Path(f"run-{run:06}.00000000.parquet"), "") for run in runs]
    return EventSources({table: files if table == "sends" else [] for table in NEEDED})


def windows(*runs: int) -> pa.Table:
    return pa.table({"run": runs, "measure_start": [10] * len(runs), "measure_end": [20] * len(runs)})


def test_small_runs_share_a_partition_and_a_large_one_is_alone() -> None:
    rows = {1: ROWS // 2, 2: ROWS // 2, 3: 1, 4: 3 * ROWS, 5: 1}
    partitions = divide(sources(*rows), windows(*rows), rows)
    assert [[run for run, _, _ in partition.windows] for partition in partitions] == [[1, 2], [3], [4], [5]]
    assert [len(partition.files["sends"]) for partition in partitions] == [2, 1, 1, 1]


def test_a_run_that_is_too_large_for_a_task_is_in_no_partition() -> None:
    partitions = divide(sources(1, 2), windows(1, 2), {2: 5})
    assert [partition.windows for partition in partitions] == [[(2, 10, 20)]]
    assert [len(partition.files["sends"]) for partition in partitions] == [1]
