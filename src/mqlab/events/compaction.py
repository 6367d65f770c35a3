"""Compaction: the event files of a complete run folder become a few files with the same rows, sorted by run.

Agents write about ten small files for each run. A compacted file of a table has the rows of many runs; its format is
in `compacted`. Only files that match their checksums, of runs that are sound and not large, are compacted.

A file is removed when its rows are durable in a compacted file, and read back from there. Both may be there when the
process is killed: readers take a file that is also a part of a compacted file once, since the part has its name.
"""

import os
from collections.abc import Iterator, Sequence
from io import BytesIO
from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq

from mqlab.errors import MqlabError
from mqlab.events.checksums import EventFile, file_name
from mqlab.events.compacted import MAX_RUNS, PARTS_KEY, Part, compacted_name, encode_parts, runs_of_name, with_columns
from mqlab.events.folder import ROW_GROUP_ROWS, RunFolder
from mqlab.events.schema import COMPLETE, TABLES
from mqlab.events.sources import EventSources, count_rows, examine_events, examine_parts, extend

# Event rows of the runs in a compacted file of each table: about what a task of the pipeline counts, which so reads a
# file or two of a table. A larger run keeps its files.
_BATCH_ROWS: Final = 250_000


class CompactionError(MqlabError):
    """The event files of a run folder cannot be compacted; they stay as they are."""


def compact(folder: RunFolder) -> None:
    """Compact what can be. Raises CompactionError, RunFolderBusyError if another process reads the events, OSError."""
    # Of other folders a lab that goes on may remove runs.
    if folder.meta().get("status") != COMPLETE:
        raise CompactionError(f"{folder.path}: only a complete run folder can be compacted")
    with folder.events_locked(exclusive=True):
        for unfinished in folder.events.glob("*/.*"):
            unfinished.unlink()
        _remove_duplicates(folder)
        sources = examine_events(folder)
        for runs in _batches(sources):
            of_batch = sources.of_runs(runs)
            for table in TABLES:
                files = [file for file in of_batch.readable(table) if not file.part]
                if len(files) > 1:
                    _replace(folder, table, files)


def _batches(sources: EventSources) -> Iterator[list[int]]:
    """Sound runs in their order, as many in a batch as it may have rows."""
    rows = count_rows(sources)
    runs = sorted({file.run for file in sources.readable("runs") if file.run is not None} - sources.damaged.keys())
    batch: list[int] = []
    filled = 0
    for run in runs if None not in sources.damaged else ():
        if rows.get(run, 0) > _BATCH_ROWS:
            continue
        if batch and (filled + rows.get(run, 0) > _BATCH_ROWS or run - batch[0] >= MAX_RUNS):
            yield batch
            batch, filled = [], 0
        batch.append(run)
        filled += rows.get(run, 0)
    yield batch


def _replace(folder: RunFolder, table: str, files: Sequence[EventFile]) -> None:
    runs = [file.run for file in files if file.run is not None]
    content = merge(table, files)
    name = file_name(compacted_name(min(runs), max(runs)), content)
    path = _write_durably(folder.events / table, name, content)
    written = {part.name for part in examine_parts(path) if not part.damage}
    if written != {file.name for file in files}:
        path.unlink()
        raise CompactionError(f"{path}: was written, and cannot be read back")
    for file in files:
        file.path.unlink()


def merge(table: str, files: Sequence[EventFile]) -> bytes:
    """A compacted file with the rows of these."""
    schema, sink = TABLES[table], BytesIO()
    parts: list[Part] = []
    merged: list[pa.Table] = []
    with pq.ParquetWriter(sink, schema) as writer:
        for file in files:
            with pq.ParquetFile(file.path) as opened:
                rows = with_columns(opened.read(), schema)
            writer.write_table(rows, row_group_size=ROW_GROUP_ROWS)
            begin, crc = (parts[-1].end, parts[-1].crc) if parts else (0, 0)
            with sink.getbuffer() as content:
                parts.append(Part(file.name, _group_sizes(len(rows)), len(content), extend(crc, content[begin:])))
            merged.append(rows)
        writer.add_key_value_metadata({PARTS_KEY: encode_parts(parts)})
    _check_rows(table, sink.getvalue(), parts, pa.concat_tables(merged))
    return sink.getvalue()


def _group_sizes(rows: int) -> list[int]:
    """Of the row groups that Arrow writes; an empty table has one."""
    return [min(ROW_GROUP_ROWS, rows - begin) for begin in range(0, rows, ROW_GROUP_ROWS)] or [0]


def _check_rows(table: str, content: bytes, parts: Sequence[Part], rows: pa.Table) -> None:
    with pq.ParquetFile(pa.BufferReader(content)) as written:
        sizes = [written.metadata.row_group(number).num_rows for number in range(written.num_row_groups)]
        is_same = written.read().cast(TABLES[table]).equals(rows)
    if not is_same or sizes != [size for part in parts for size in part.row_groups]:
        raise CompactionError(f"{parts[0].name} and others of the table {table} would not keep their rows")


def _remove_duplicates(folder: RunFolder) -> None:
    """Remove the files whose rows are in compacted files: of a compaction that was killed."""
    for table in TABLES:
        paths = folder.event_files(table)
        compacted = [path for path in paths if runs_of_name(path.name) is not None]
        parts = {part.name for path in compacted for part in examine_parts(path) if not part.damage}
        for path in paths:
            if path.name in parts:
                path.unlink()


def _write_durably(folder: Path, name: str, content: bytes) -> Path:
    unfinished = folder / f".{name}.unfinished"
    with unfinished.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    path = unfinished.replace(folder / name)
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
    return path
