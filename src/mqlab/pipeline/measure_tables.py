"""The measure tables in a run folder, as files, and the event files that they come from, without Spark.

`measures/sources.json` holds the checksum of each event file that was measured, and of each measure table. The files
are checked before the pipeline and before a report.
"""

import json
from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq

from mqlab.errors import MqlabError
from mqlab.events.checksums import checksum
from mqlab.events.folder import RunFolder
from mqlab.events.sources import EventSources, examine_events
from mqlab.json_values import JsonObject
from mqlab.pipeline import schema
from mqlab.regular_file import read_regular

# The file has a line for each event file, about ten for each run.
_SOURCES_BYTES: Final = 256_000_000


class NotMeasuredError(MqlabError, ValueError):
    """The run folder has no measures, or they do not belong to its present events."""


def begin_measures(folder: RunFolder) -> None:
    """Record that the measures are being written: they are invalid until `complete_measures`."""
    _write(folder, {"complete": False})


def complete_measures(folder: RunFolder, sources: EventSources, tables: dict[str, Path]) -> None:
    events = _checksums(sources)
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
    with folder.events_locked():
        now = _checksums(examine_events(folder))
    for name in sorted(now.keys() ^ events.keys()):
        raise NotMeasuredError(f"{folder.path}: {name} was added or removed since the events were measured")
    for name, known in events.items():
        if now[name] != known:
            raise NotMeasuredError(f"{folder.path}: {name} has changed since the events were measured")


def _checksums(sources: EventSources) -> dict[str, str]:
    """By the names that the agents gave: compaction changes neither these nor the checksums."""
    return {f"{file.table}/{file.name}": file.checksum for files in sources.files.values() for file in files}


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
