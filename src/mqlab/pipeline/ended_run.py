"""A run that has just ended, while the lab goes on: its percentiles and its audit, from its event files, without Spark.

The kernels are those of the pipeline, so a small run has its final figures. Of a large one only the last rows are read:
whoever watches must not take the processor from the next run. It has percentiles of these rows, and no audit yet.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from mqlab.events.checksums import EventFile
from mqlab.events.compacted import read_groups
from mqlab.events.folder import RunFolder
from mqlab.events.schema import COMPLETE, MEASURE, TABLES, WARM_UP
from mqlab.events.slices import Switch, slice_edges
from mqlab.json_values import JsonObject
from mqlab.pipeline.counts.run_source import read_files
from mqlab.pipeline.kernels.histogram import percentile_s
from mqlab.pipeline.kernels.run_counts import row_counts
from mqlab.pipeline.kernels.run_deliveries import run_deliveries
from mqlab.pipeline.kernels.run_events import NEEDED, RunWindow, align_clocks, of_sharing_runs
from mqlab.pipeline.schema import FAULTS

# The rows of a table that are read of a run, unless its last row groups have more.
MOST_ROWS: Final = 150_000
PERCENTILES: Final = {"p50": 500, "p99": 990, "p999": 999}


@dataclass(frozen=True)
class EndedRunFigures:
    """Percentiles of the latency, or of the response time, in seconds; None: no message has one.

    `faults`: messages by delivery class; None if not every message was read. Of runs that share their events, the first
    one has the faults of all.
    """

    system: str
    scenario: str
    point: str
    percentiles: Mapping[str, float | None]
    faults: Mapping[str, int] | None


@dataclass
class _Histogram:
    messages: Counter[int] = field(default_factory=Counter)
    longest_ns: int = 0

    def percentile_s(self, per_mille: int) -> float | None:
        return percentile_s(self.messages, per_mille, self.longest_ns)


def runs_files(folder: RunFolder) -> dict[int, Path]:
    """The file that the lab writes last, for each run that has ended; a run that is played again has another one."""
    files = ((EventFile(path, "").run, path) for path in folder.event_files("runs"))
    return {run: path for run, path in files if run is not None}


def figures_of(folder: RunFolder, run: int, most_rows: int = MOST_ROWS) -> list[EndedRunFigures]:
    """The figures of a run that is complete, and of those that share its events; [] of another one.

    Raises OSError and pa.ArrowException if the files are just being replaced.
    """
    small = {table: _read(folder, table, run) for table in ("runs", "phases", "switches")}
    rows = {row["run"]: row for row in small["runs"] if row["status"] == COMPLETE}
    if not rows:
        return []
    windows = _windows(small["phases"], small["switches"], rows)
    events, is_whole = _events(folder, run, most_rows)
    histograms: dict[int, _Histogram] = {}
    faults: Mapping[str, int] | None = None
    for of_run in of_sharing_runs(events, {run: sorted(rows)} if rows.keys() != {run} else {}):
        deliveries = run_deliveries(of_run, windows)["deliveries"]
        if faults is None:
            faults = {name: pc.sum(deliveries[name]).as_py() or 0 for name in FAULTS}
        # A request with its reply has a response time, which counts in place of its latencies.
        for table in (deliveries, row_counts(of_run, windows)["round trips"]):
            histograms |= _histograms(table)
    return [
        EndedRunFigures(
            row["system"], row["scenario"], row["point"],
            {name: histograms.get(number, _Histogram()).percentile_s(share) for name, share in PERCENTILES.items()},
            faults if is_whole and number == min(rows) else None,
        )
        for number, row in rows.items()
    ]  # fmt: skip


def _events(folder: RunFolder, run: int, most_rows: int) -> tuple[dict[str, pa.Table], bool]:
    """The events on the clock of the controller, and whether these are all."""
    events, is_whole = {table: read_files(table, ()) for table in NEEDED}, True
    for table in ("sends", "receipts", "round_trips", "roles", "clocks"):
        files = [_last_groups(path, most_rows) for path in _files(folder, table, run)]
        events[table] = read_files(table, [(str(path), groups) for path, groups, _ in files])
        is_whole = is_whole and all(whole for _, _, whole in files)
    return align_clocks(events), is_whole


def _read(folder: RunFolder, table: str, run: int) -> list[JsonObject]:
    rows: list[JsonObject] = read_groups(
        TABLES[table], [(str(path), None) for path in _files(folder, table, run)]
    ).to_pylist()
    return rows


def _files(folder: RunFolder, table: str, run: int) -> list[Path]:
    return [path for path in folder.event_files(table) if EventFile(path, "").run == run]


def _windows(phases: Iterable[JsonObject], switches: Iterable[JsonObject], runs: Iterable[int]) -> dict[int, RunWindow]:
    """The times that count of each run: its measure phase, or its slices of it."""
    times = {row["phase"]: (row["t_start"], row["t_end"]) for row in phases}
    if MEASURE not in times:
        return {}
    start, end = times[MEASURE]
    load_start = times.get(WARM_UP, times[MEASURE])[0]
    switched = [Switch(row["setting_run"], row["t_asked"], row["t_counted"]) for row in switches]
    edges = slice_edges(switched, start, end) if switched else {}
    return {run: RunWindow(load_start, start, end, tuple(edges.get(run, ()))) for run in runs}


def _last_groups(path: Path, most_rows: int) -> tuple[Path, list[int], bool]:
    """The numbers of the last row groups, with about so many rows, and whether these are all."""
    metadata = pq.read_metadata(path)
    first, rows = metadata.num_row_groups, 0
    while first > 0 and rows < most_rows:
        first -= 1
        rows += metadata.row_group(first).num_rows
    return path, [*range(first, metadata.num_row_groups)], first == 0


def _histograms(counts: pa.Table) -> dict[int, _Histogram]:
    """By run, of the messages that have a duration."""
    histograms: dict[int, _Histogram] = {}
    timed = counts.filter(pc.is_valid(counts["bucket"]))
    for row in timed.select(["run", "bucket", "messages", "longest"]).to_pylist():
        histogram = histograms.setdefault(row["run"], _Histogram())
        histogram.messages[row["bucket"]] += row["messages"]
        histogram.longest_ns = max(histogram.longest_ns, row["longest"])
    return histograms
