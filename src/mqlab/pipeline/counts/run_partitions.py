"""The partitions of small runs: which event files a task of `run_source` reads."""

from collections.abc import Mapping
from typing import Final

import pyarrow as pa

from mqlab.events.compacted import FileGroups, join_groups
from mqlab.events.sources import EventSources
from mqlab.pipeline.counts.run_source import EventPartition
from mqlab.pipeline.kernels.run_events import NEEDED

# Event rows of the runs in one partition: a task costs as much as some ten thousand of them. A larger run is alone.
ROWS: Final = 150_000


def windows_by_run(windows: pa.Table) -> dict[int, list[int]]:
    names = ("load_start", "measure_start", "measure_end")
    return {
        row["run"]: [*(row[name] for name in names if row[name] is not None), *(row.get("edges") or ())]
        for row in windows.to_pylist()
    }


def divide(sources: EventSources, windows: pa.Table, rows: dict[int | None, int]) -> list[EventPartition]:
    """Runs in their order, as many in a partition as it may have rows. Files of several runs are in one partition."""
    files: dict[int | None, dict[str, list[FileGroups]]] = {}
    for table in NEEDED:
        for file in sources.readable(table):
            run = None if None in rows else file.run
            files.setdefault(run, {}).setdefault(table, []).append((file.location, file.group_numbers))
    by_run = windows_by_run(windows)
    partitions: list[EventPartition] = []
    for run in sorted(files.keys() & rows.keys(), key=lambda run: run or 0):
        if not partitions or partitions[-1].rows + rows[run] > ROWS:
            partitions.append(EventPartition())
        last = partitions[-1]
        last.rows += rows[run]
        last.sharing |= sources.sharing if run is None else _only(run, sources.sharing)
        chosen = last.sharing.get(run, [run]) if run is not None else by_run
        last.windows |= {each: by_run[each] for each in chosen if each in by_run}
        for table, of_run in files[run].items():
            last.files[table] += of_run
    for partition in partitions:
        partition.files = {table: join_groups(of_table) for table, of_table in partition.files.items()}
    return partitions


def _only(run: int, sharing: Mapping[int, list[int]]) -> dict[int, list[int]]:
    return {run: sharing[run]} if run in sharing else {}
