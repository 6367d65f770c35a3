"""The partitions of small runs: which event files a task of `run_source` reads."""

from collections.abc import Iterable
from typing import Final

import pyarrow as pa

from mqlab.pipeline.counts.run_source import EventPartition
from mqlab.pipeline.kernels.run_events import NEEDED, RunWindow
from mqlab.pipeline.measure_tables import EventSources

# Event rows of the runs in one partition: a task costs as much as some ten thousand of them. A larger run is alone.
ROWS: Final = 250_000
# Tables of events whose rows are many.
LARGE_TABLES: Final = ("sends", "receipts", "round_trips", "operations")


def count_rows(sources: EventSources, tables: Iterable[str] = LARGE_TABLES) -> dict[int | None, int]:
    """The number of rows of each run in these tables; of all runs together, as None, where files have several runs."""
    rows: dict[int | None, int] = {}
    for file in (file for table in tables for file in sources.readable(table)):
        rows[file.run] = rows.get(file.run, 0) + sum(file.row_group_sizes())
    return {None: sum(rows.values())} if None in rows else rows


def windows_by_run(windows: pa.Table) -> dict[int, list[int]]:
    return {
        row["run"]: [row[name] for name in RunWindow._fields if row[name] is not None] for row in windows.to_pylist()
    }


def divide(sources: EventSources, windows: pa.Table, rows: dict[int | None, int]) -> list[EventPartition]:
    """Runs in their order, as many in a partition as it may have rows. Files of several runs are in one partition."""
    files: dict[int | None, dict[str, list[str]]] = {}
    for table in NEEDED:
        for file in sources.readable(table):
            run = None if None in rows else file.run
            files.setdefault(run, {}).setdefault(table, []).append(file.location)
    by_run = windows_by_run(windows)
    partitions: list[EventPartition] = []
    for run in sorted(files.keys() & rows.keys(), key=lambda run: run or 0):
        if not partitions or partitions[-1].rows + rows[run] > ROWS:
            partitions.append(EventPartition())
        last = partitions[-1]
        last.rows += rows[run]
        last.windows |= by_run if run is None else {run: by_run[run]} if run in by_run else {}
        for table, paths in files[run].items():
            last.files[table] += paths
    return partitions
