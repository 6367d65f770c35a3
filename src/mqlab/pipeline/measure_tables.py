"""The measure tables in a run folder, as files: written and read by the schema, without Spark."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from mqlab.events.folder import RunFolder
from mqlab.pipeline.schema import TABLES
from mqlab.pipeline.sources import NotMeasuredError


def read_table(folder: RunFolder, table: str) -> list[dict[str, Any]]:
    """The rows of one table of `measures/`. Raises `NotMeasuredError`."""
    path = folder.measures / table
    if not path.is_dir():
        raise NotMeasuredError(f"{folder.path}: not measured yet (it has no {table})")
    try:
        rows: list[dict[str, Any]] = pq.read_table(path).to_pylist()
    except (OSError, pa.ArrowException) as error:
        raise NotMeasuredError(f"{folder.path}: the table {table} of its measures is damaged") from error
    return rows


def write_table(folder: RunFolder, table: str, rows: pa.Table) -> Path:
    """Write one table as a single file, whole or not at all, and return its path."""
    target = folder.measures / table / "part.parquet"
    target.parent.mkdir(parents=True, exist_ok=True)
    unfinished = target.with_name(".unfinished")
    ordered = rows.cast(TABLES[table].schema).sort_by([(column, "ascending") for column in TABLES[table].order])
    pq.write_table(ordered, unfinished)
    return unfinished.replace(target)
