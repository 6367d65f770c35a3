"""Parquet files of trace records. A file gets its final name when it is complete."""

import os
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from mqlab.broker.server.trace.records import SCHEMA

# Rows of a Parquet row group: smaller groups make the file larger and slower to read.
_ROW_GROUP: Final = 65_536


class TraceFile:
    """A Parquet file under the name FILE.partial until `finish` renames it, so that readers never see a part."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.rows = 0
        self._partial = path.with_name(f"{path.name}.partial")
        self._writer: Any = pq.ParquetWriter(self._partial, SCHEMA)
        self._tables: list[pa.Table] = []
        self._buffered_rows = 0

    def add(self, table: pa.Table) -> None:
        self._tables.append(table)
        self.rows += table.num_rows
        self._buffered_rows += table.num_rows
        if self._buffered_rows >= _ROW_GROUP:
            self._write()

    def finish(self) -> None:
        self._write()
        self._writer.close()
        # The broker deletes the records after this, so they must be on disk.
        with self._partial.open("rb") as file:
            os.fsync(file.fileno())
        self._partial.rename(self.path)

    def discard(self) -> None:
        self._writer.close()
        self._partial.unlink(missing_ok=True)

    def _write(self) -> None:
        if self._tables:
            self._writer.write_table(pa.concat_tables(self._tables).combine_chunks())
        self._tables, self._buffered_rows = [], 0


def numbered(path: Path, number: int) -> Path:
    """Return the path of the n-th file: `trace.parquet`, `trace-2.parquet`, ..."""
    return path if number == 1 else path.with_name(f"{path.stem}-{number}{path.suffix}")
