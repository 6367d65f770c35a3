"""The measure tables in a run folder, as files, and the event files that they come from, without Spark.

`measures/sources.json` holds the checksum of each event file that was measured, and of each measure table. The files
are checked before the pipeline and before a report.
"""

import json
from collections.abc import Container, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq

from mqlab.errors import MqlabError
from mqlab.events.checksums import EventFile, checksum, examine
from mqlab.events.folder import RunFolder
from mqlab.events.schema import DAMAGED, TABLES
from mqlab.json_values import JsonObject
from mqlab.pipeline import schema
from mqlab.regular_file import read_regular

# The file has a line for each event file, about ten for each run.
_SOURCES_BYTES: Final = 256_000_000
_THREADS: Final = 4
_UNKNOWN: Final = "unknown"


class NotMeasuredError(MqlabError, ValueError):
    """The run folder has no measures, or they do not belong to its present events."""


@dataclass(frozen=True)
class EventSources:
    """The event files by table, and for each run with a damaged file the reason; the key None means every run."""

    files: dict[str, Sequence[EventFile]]
    damaged: dict[int | None, str] = field(default_factory=dict)

    def readable(self, table: str) -> list[EventFile]:
        """The files of a table, without those of damaged runs; of the table `runs`, all undamaged files."""
        return [file for file in self.files[table] if not file.damage and not self._is_excluded(table, file)]

    def of_runs(self, runs: Container[int | None]) -> "EventSources":
        """Without the files of other runs. None in `runs` stands for all: a file has several runs."""
        if None in runs:
            return self
        files = {table: [file for file in files if file.run in runs] for table, files in self.files.items()}
        return EventSources({**files}, self.damaged)

    def readable_files(self, table: str) -> list[str]:
        return [str(file.path) for file in self.readable(table)]

    def _is_excluded(self, table: str, file: EventFile) -> bool:
        return table != "runs" and (None in self.damaged or file.run in self.damaged)

    def mark_damaged(self, runs: pa.Table) -> pa.Table:
        """Return the table `runs` with the status of damaged runs set; adds runs whose own row cannot be read."""
        if not self.damaged:
            return runs
        rows = runs.to_pylist()
        for row in rows:
            reason = self.damaged.get(row["run"], self.damaged.get(None))
            if reason:
                row.update(status=DAMAGED, reason=reason)
        known = {row["run"] for row in rows}
        for run, reason in self.damaged.items():
            if run is not None and run not in known:
                rows.append(_unreadable_run(run, reason))
        return pa.Table.from_pylist(rows, schema=runs.schema)


def examine_events(folder: RunFolder, runs: Container[int | None] | None = None) -> EventSources:
    """Read every event file of the folder, or of some runs, once and check it."""
    # A task may run in another folder.
    paths = [path.absolute() for table in TABLES for path in folder.event_files(table) if _is_of(path, runs)]
    with ThreadPoolExecutor(_THREADS) as threads:
        return event_sources(threads.map(examine, paths))


def event_sources(examined: Iterable[EventFile]) -> EventSources:
    """The event files of a folder: all of them, since a run that has no row in `runs` is damaged."""
    files: dict[str, list[EventFile]] = {table: [] for table in TABLES}
    damaged: dict[int | None, str] = {}
    for file in examined:
        files[file.path.parent.name].append(file)
        if file.damage:
            damaged.setdefault(file.run, f"damaged: events/{_name(file.path)} {file.damage}")
    recorded = {file.run for file in files["runs"]}
    for file in (file for of_table in files.values() for file in of_table):
        if file.run is not None and file.run not in recorded:
            damaged.setdefault(file.run, f"damaged: events/runs has no file of run {file.run}")
    return EventSources({**files}, damaged)


def _is_of(path: Path, runs: Container[int | None] | None) -> bool:
    return runs is None or EventFile(path, "").run in runs


def begin_measures(folder: RunFolder) -> None:
    """Record that the measures are being written: they are invalid until `complete_measures`."""
    _write(folder, {"complete": False})


def complete_measures(folder: RunFolder, sources: EventSources, tables: dict[str, Path]) -> None:
    events = {_name(file.path): file.checksum for files in sources.files.values() for file in files}
    measures = {name: checksum(path) for name, path in tables.items()}
    _write(folder, {"complete": True, "events": events, "measures": measures})


def check_measures(folder: RunFolder) -> None:
    """Raise NotMeasuredError if the measures are damaged or do not belong to the present events."""
    path = sources_file(folder)
    if not path.exists():
        raise NotMeasuredError(f"{folder.path}: not measured yet (it has no {path.relative_to(folder.path)})")
    try:
        record = json.loads(read_regular(path, _SOURCES_BYTES))
        if not record["complete"]:
            raise NotMeasuredError(f"{folder.path}: its measures are unfinished")
        for name, known in record["measures"].items():
            if checksum(folder.measures / name / "part.parquet") != known:
                raise NotMeasuredError(f"{folder.path}: the table {name} of its measures is damaged")
        events = dict(record["events"])
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        if isinstance(error, NotMeasuredError):
            raise
        raise NotMeasuredError(f"{folder.path}: its measures are damaged") from error
    now = {_name(path): path for table in TABLES for path in folder.event_files(table)}
    for name in sorted(now.keys() ^ events.keys()):
        raise NotMeasuredError(f"{folder.path}: {name} was added or removed since the events were measured")
    for name, known in events.items():
        if _checksum_now(now[name]) != known:
            raise NotMeasuredError(f"{folder.path}: {name} has changed since the events were measured")


def _checksum_now(path: Path) -> str:
    """The checksum as `examine` gives it: "" for a file that cannot be read."""
    try:
        return checksum(path)
    except OSError:
        return ""


def _unreadable_run(run: int, reason: str) -> JsonObject:
    texts = dict.fromkeys(("study", "scenario", "point", "system"), _UNKNOWN)
    counts = dict.fromkeys(("counted_sent", "counted_received", "counted_round_trips"), 0)
    return {"run": run, **texts, "repetition": 0, "parameters": "{}", "status": DAMAGED, "reason": reason, **counts}


def _name(path: Path) -> str:
    return f"{path.parent.name}/{path.name}"


def sources_file(folder: RunFolder) -> Path:
    return folder.measures / "sources.json"


def _write(folder: RunFolder, record: JsonObject) -> None:
    folder.measures.mkdir(exist_ok=True)
    unfinished = sources_file(folder).with_name(".sources.unfinished")
    unfinished.write_text(json.dumps(record, indent=1) + "\n")
    unfinished.replace(sources_file(folder))


def read_table(folder: RunFolder, table: str) -> list[JsonObject]:
    """The rows of one table of `measures/`. Raises `NotMeasuredError`."""
    path = folder.measures / table
    if not path.is_dir():
        raise NotMeasuredError(f"{folder.path}: not measured yet (it has no {table})")
    try:
        rows: list[JsonObject] = pq.read_table(path).to_pylist()
    except (OSError, pa.ArrowException) as error:
        raise NotMeasuredError(f"{folder.path}: the table {table} of its measures is damaged") from error
    return rows


def write_table(folder: RunFolder, table: str, rows: pa.Table) -> Path:
    """Write one table as a single file, whole or not at all, and return its path."""
    target = folder.measures / table / "part.parquet"
    target.parent.mkdir(parents=True, exist_ok=True)
    unfinished = target.with_name(".unfinished")
    ordered = rows.cast(schema.TABLES[table].schema).sort_by(
        [(column, "ascending") for column in schema.TABLES[table].order]
    )
    pq.write_table(ordered, unfinished)
    return unfinished.replace(target)
