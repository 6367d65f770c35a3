"""Run folders at a path that all machines of a cluster share: tasks read and check their large event files.

The driver alone would read every event through one connection to the storage, before the first task begins.
"""

from collections.abc import Sequence
from math import ceil
from pathlib import Path
from typing import Final

import pyarrow as pa
from pyspark.sql import Row, SparkSession
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.utils import is_remote

from mqlab.events.checksums import EventFile, damage
from mqlab.events.compacted import runs_of_name
from mqlab.events.folder import RunFolder
from mqlab.events.schema import TABLES
from mqlab.events.sources import (
    LARGE_TABLES,
    EventSources,
    event_sources,
    examine_events,
    examine_parts,
    unreadable_parts,
)
from mqlab.pipeline.event_tables import local_table
from mqlab.pipeline.file_tasks import DESCRIPTIONS, describe_paths

# Of the files that a task checks.
_TASK_BYTES: Final = 128 << 20


def examine(spark: SparkSession, folder: RunFolder) -> EventSources:
    """Read every event file of the folder once and check it: on a cluster in its tasks, else in this process."""
    is_here = not is_remote() and (spark.sparkContext.master or "").startswith("local")
    return examine_events(folder) if is_here else examine_in_tasks(spark, folder)


def examine_in_tasks(spark: SparkSession, folder: RunFolder) -> EventSources:
    paths = [path.absolute() for table in TABLES for path in folder.event_files(table)]
    large = [path for path in paths if path.parent.name in LARGE_TABLES]
    described = _describe(spark, large)
    examined: list[EventFile] = []
    for path in paths:
        # This process reads the files that no task could read, to find the reason.
        rows = described.get(path)
        examined += event_files(path, rows) if rows else examine_parts(path)
    return event_sources(examined)


def _describe(spark: SparkSession, paths: Sequence[Path]) -> dict[Path, list[Row]]:
    if not paths:
        return {}
    listed = local_table(spark, pa.table({"path": [*map(str, paths)]}))
    tasks = min(len(paths), max(1, ceil(sum(path.stat().st_size for path in paths) / _TASK_BYTES)))
    described = listed.repartition(tasks).mapInArrow(describe_paths, from_arrow_schema(DESCRIPTIONS))
    found: dict[Path, list[Row]] = {}
    for row in described.collect():
        found.setdefault(Path(row["path"]), []).append(row)
    return found


def event_files(path: Path, rows: Sequence[Row], url: str = "") -> list[EventFile]:
    """`rows`: those of `describe_files` of one file: of the file, or of its parts. `url`: where Spark reads it."""
    first, *_ = rows
    if not first["part"] and runs_of_name(path.name) is not None:
        present = first["checksum"]
        return unreadable_parts(path, present, damage(path.name, present) or "has no list of its parts", url)
    return [
        EventFile(
            path, row["checksum"], damage(row["part"] or path.name, row["checksum"]), url, tuple(row["row_groups"]),
            row["part"], row["first_group"],
        )
        for row in rows
    ]  # fmt: skip
