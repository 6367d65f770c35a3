"""Records of a trace in Parquet files: each is whole when it has its name."""

import os
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from mqlab.broker.server.trace.records import SCHEMA

# Rows of one group in a file: fewer would make it large and slow to read.
_GROUP: Final = 65_536


class TraceFile:
    """One file. Until it is finished it has another name, so nobody takes a part of it for all."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.rows = 0
        self._partial = path.with_name(f"{path.name}.partial")
        self._writer: Any = pq.ParquetWriter(self._partial, SCHEMA)
        self._tables: list[pa.Table] = []
        self._waiting = 0

    def add(self, table: pa.Table) -> None:
        self._tables.append(table)
        self.rows += table.num_rows
        self._waiting += table.num_rows
        if self._waiting >= _GROUP:
            self._write()

    def finish(self) -> None:
        self._write()
        self._writer.close()
        # What the broker is told to forget must be on disk.
        with self._partial.open("rb") as file:
            os.fsync(file.fileno())
        self._partial.rename(self.path)

    def give_up(self) -> None:
        self._writer.close()
        self._partial.unlink(missing_ok=True)

    def _write(self) -> None:
        if self._tables:
            self._writer.write_table(pa.concat_tables(self._tables).combine_chunks())
        self._tables, self._waiting = [], 0


def numbered(path: Path, number: int) -> Path:
    """The first is as it was named; the next ones are `trace-2.parquet` and so on."""
    return path if number == 1 else path.with_name(f"{path.stem}-{number}{path.suffix}")
