"""The event files of a run folder, checked, and what is damaged. Files may be parts of compacted files."""

from collections.abc import Container, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Final

import google_crc32c
import pyarrow as pa

from mqlab.events.checksums import EventFile, damage, examine
from mqlab.events.compacted import (
    ExaminedPart,
    FileGroups,
    examine_content,
    join_groups,
    part_names,
    read_groups,
    runs_of_name,
)
from mqlab.events.folder import RunFolder, run_name
from mqlab.events.schema import DAMAGED, TABLES
from mqlab.json_values import JsonObject
from mqlab.regular_file import open_regular

_THREADS: Final = 4
_UNKNOWN: Final = "unknown"
# Tables of events whose rows are many.
LARGE_TABLES: Final = ("sends", "receipts", "round_trips", "operations")


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

    def local_groups(self, table: str) -> list[FileGroups]:
        """The files on this machine, with their row groups, that have all readable rows of a table."""
        return join_groups((str(file.path), file.group_numbers) for file in self.readable(table))

    @cached_property
    def sharing(self) -> dict[int, list[int]]:
        """The runs that share the events of one of them, by that one: the lab switched between their settings."""
        if not self.readable("switches"):
            return {}
        columns = pa.schema([TABLES["runs"].field(name) for name in ("run", "events_of")])
        sharing: dict[int, list[int]] = {}
        for row in read_groups(columns, self.local_groups("runs")).to_pylist():
            if row["events_of"] is not None:
                sharing.setdefault(row["events_of"], []).append(row["run"])
        return {run: sorted(runs) for run, runs in sharing.items()}

    def _is_excluded(self, table: str, file: EventFile) -> bool:
        return table != "runs" and (None in self.damaged or file.run in self.damaged)

    def mark_damaged(self, runs: pa.Table) -> pa.Table:
        """Return the table `runs` with the status of damaged runs set; adds runs whose own row cannot be read."""
        if not self.damaged:
            return runs
        rows = runs.to_pylist()
        for row in rows:
            reason = self.damaged.get(row["events_of"] or row["run"], self.damaged.get(None))
            if reason:
                row.update(status=DAMAGED, reason=reason)
        known = {row["run"] for row in rows}
        for run, reason in self.damaged.items():
            if run is not None and run not in known:
                rows.append(_unreadable_run(run, reason))
        return pa.Table.from_pylist(rows, schema=runs.schema)


def count_rows(sources: EventSources, tables: Iterable[str] = LARGE_TABLES) -> dict[int | None, int]:
    """The number of rows of each run in these tables; of all runs together, as None, where files have several runs."""
    rows: dict[int | None, int] = {}
    for file in (file for table in tables for file in sources.readable(table)):
        rows[file.run] = rows.get(file.run, 0) + sum(file.row_group_sizes())
    return {None: sum(rows.values())} if None in rows else rows


def examine_events(folder: RunFolder, runs: Container[int | None] | None = None) -> EventSources:
    """Read every event file of the folder, or of some runs, once and check it."""
    # A task may run in another folder.
    paths = [path.absolute() for table in TABLES for path in folder.event_files(table) if _may_have(path, runs)]
    with ThreadPoolExecutor(_THREADS) as threads:
        examined = [file for files in threads.map(examine_parts, paths) for file in files]
    return event_sources(file for file in examined if runs is None or file.run in runs)


def examine_parts(path: Path) -> list[EventFile]:
    """Read the whole file and check it: one event file, or those that are parts of a compacted file."""
    if runs_of_name(path.name) is None:
        return [examine(path)]
    try:
        with open_regular(path) as file:
            content = file.read()
    except OSError as error:
        return unreadable_parts(path, "", error.strerror or str(error))
    parts = examine_content(path.name, memoryview(content), extend)
    if parts is None:
        present = f"{google_crc32c.value(content):08x}"
        return unreadable_parts(path, present, damage(path.name, present) or "has no list of its parts")
    return [event_file(path, part) for part in parts]


def extend(crc: int, content: memoryview) -> int:
    """Continue a CRC32C."""
    return int(google_crc32c.extend(crc, bytes(content)))


def event_file(path: Path, part: ExaminedPart, url: str = "") -> EventFile:
    return EventFile(
        path, part.checksum, damage(part.name, part.checksum), url, part.row_groups, part.name, part.first_group
    )


def unreadable_parts(path: Path, present: str, reason: str, url: str = "") -> list[EventFile]:
    """A compacted file with a damaged list of parts: a damaged event file for each run that it may have."""
    return [
        EventFile(path, present, reason, url, (), f"{run_name(run)} in {path.name}")
        for run in runs_of_name(path.name) or ()
    ]


def event_sources(examined: Iterable[EventFile]) -> EventSources:
    """The event files of a folder: all of them, since a run that has no row in `runs` is damaged.

    A file that is also a part of a compacted file counts once, as that part: compaction was interrupted before it
    removed the file.
    """
    examined = [*examined]
    parts = {(file.table, file.part) for file in examined if file.part}
    files: dict[str, list[EventFile]] = {table: [] for table in TABLES}
    damaged: dict[int | None, str] = {}
    for file in sorted(examined, key=lambda file: file.name):
        if not file.part and (file.table, file.name) in parts:
            continue
        files[file.table].append(file)
        if file.damage:
            damaged.setdefault(file.run, f"damaged: events/{file.table}/{file.path.name} {file.damage}")
    recorded = {file.run for file in files["runs"]}
    for file in (file for of_table in files.values() for file in of_table):
        if file.run is not None and file.run not in recorded:
            damaged.setdefault(file.run, f"damaged: events/runs has no file of run {file.run}")
    return EventSources({**files}, damaged)


def runs_in(path: Path) -> list[int]:
    """The runs whose events a file has, by the names in it, which are not checked."""
    names = part_names(str(path)) if runs_of_name(path.name) is not None else [path.name]
    runs = (EventFile(Path(name), "").run for name in names)
    return [*dict.fromkeys(run for run in runs if run is not None)]


def _may_have(path: Path, runs: Container[int | None] | None) -> bool:
    in_name = runs_of_name(path.name)
    if runs is None:
        return True
    return EventFile(path, "").run in runs if in_name is None else any(run in runs for run in in_name)


def _unreadable_run(run: int, reason: str) -> JsonObject:
    texts = dict.fromkeys(("study", "scenario", "point", "system"), _UNKNOWN)
    counts = dict.fromkeys(("counted_sent", "counted_received", "counted_round_trips"), 0)
    about = {"repetition": 0, "parameters": "{}", "status": DAMAGED, "reason": reason, "events_of": None}
    return {"run": run, **texts, **about, **counts}
