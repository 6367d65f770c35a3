"""A source of Spark whose partitions are whole runs: a task reads the event files of its runs, and counts them.

Tasks read the files themselves, so that the events of a run need neither a shuffle nor a way through Java. All counts
are rows of one table, which one job makes: the column `counts` names the table that a row belongs to, and columns of
other tables are null.
"""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as fn
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType

from mqlab.events import schema
from mqlab.json_values import JsonObject
from mqlab.pipeline.kernels import run_counts, run_deliveries
from mqlab.pipeline.kernels.run_events import NEEDED, RunWindow, align_clocks
from mqlab.pipeline.measure_tables import EventSources

_NAME: Final = "mqlab-runs"
_PARTITIONS: Final = "partitions"
# Event rows of the runs in one partition: a task costs as much as some ten thousand of them. A larger run is alone.
ROWS: Final = 250_000
# Tables of events whose rows are many.
_LARGE: Final = ("sends", "receipts", "round_trips", "operations")

SCHEMAS: Final = {"deliveries": run_deliveries.SCHEMA, **run_counts.SCHEMAS}
_COUNTS: Final = "counts"
_SCHEMA: Final = pa.schema({
    _COUNTS: pa.string(), **{column.name: column.type for table in SCHEMAS.values() for column in table},
})  # fmt: skip


@dataclass
class _Partition:
    """`files` by table; `windows`: those of `RunWindow`, by run."""

    files: dict[str, list[str]] = field(default_factory=lambda: {table: [] for table in NEEDED})
    windows: dict[int, list[int]] = field(default_factory=dict)
    rows: int = 0


def count_rows(sources: EventSources) -> dict[int | None, int]:
    """The number of event rows of each run; of all runs together, as None, where files have several runs."""
    rows: dict[int | None, int] = {}
    for file in (file for table in _LARGE for file in sources.readable(table)):
        rows[file.run] = rows.get(file.run, 0) + pq.read_metadata(file.path).num_rows
    return {None: sum(rows.values())} if None in rows else rows


def read_counts(
    spark: SparkSession, sources: EventSources, windows: pa.Table, rows: dict[int | None, int]
) -> DataFrame:
    """The counts of the runs in `rows`, which has the number of their event rows. `counts_of` gives a table of them."""
    spark.dataSource.register(RunCounts)
    partitions = [vars(partition) for partition in divide(sources, windows, rows)]
    found = spark.read.format(_NAME).option(_PARTITIONS, json.dumps(partitions)).load()
    # A shuffle of the few rows that were found: without it, one task would read all partitions into one.
    return found.repartition(1)


def counts_of(counts: DataFrame, table: str) -> DataFrame:
    return counts.where(f"{_COUNTS} = '{table}'").select(SCHEMAS[table].names)


def union_counts(counts: DataFrame, tables: dict[str, DataFrame]) -> DataFrame:
    """Add the rows of other tables of the same names."""
    for name, table in tables.items():
        counts = counts.unionByName(table.withColumn(_COUNTS, fn.lit(name)), allowMissingColumns=True)
    return counts


def divide(sources: EventSources, windows: pa.Table, rows: dict[int | None, int]) -> list[_Partition]:
    """Runs in their order, as many in a partition as it may have rows. Files of several runs are in one partition."""
    files: dict[int | None, dict[str, list[str]]] = {}
    for table in NEEDED:
        for file in sources.readable(table):
            run = None if None in rows else file.run
            files.setdefault(run, {}).setdefault(table, []).append(str(file.path))
    by_run = {
        row["run"]: [row[name] for name in RunWindow._fields if row[name] is not None] for row in windows.to_pylist()
    }
    partitions: list[_Partition] = []
    for run in sorted(files.keys() & rows.keys(), key=lambda run: run or 0):
        if not partitions or partitions[-1].rows + rows[run] > ROWS:
            partitions.append(_Partition())
        last = partitions[-1]
        last.rows += rows[run]
        last.windows |= by_run if run is None else {run: by_run[run]} if run in by_run else {}
        for table, paths in files[run].items():
            last.files[table] += paths
    return partitions


class RunCounts(DataSource):
    """Made by Spark, on the driver and in every task."""

    @classmethod
    def name(cls) -> str:
        return _NAME

    def schema(self) -> StructType:
        return from_arrow_schema(_SCHEMA)

    def reader(self, schema: StructType) -> DataSourceReader:
        del schema
        return _Reader(json.loads(self.options[_PARTITIONS]))


class _Reader(DataSourceReader):
    def __init__(self, partitions: Sequence[JsonObject]) -> None:
        self._partitions = partitions

    def partitions(self) -> Sequence[InputPartition]:
        return [InputPartition(partition) for partition in self._partitions] or [InputPartition(None)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        if partition.value is None:
            return
        events = align_clocks({table: read_files(table, files) for table, files in partition.value["files"].items()})
        windows = {int(run): RunWindow(*times) for run, times in partition.value["windows"].items()}
        deliveries = pa.Table.from_batches(run_deliveries.run_deliveries(events, windows), run_deliveries.SCHEMA)
        for name, rows in {"deliveries": deliveries, **run_counts.run_counts(events, windows)}.items():
            yield from _widen(name, rows).to_batches()


def _widen(name: str, rows: pa.Table) -> pa.Table:
    columns = {column: rows[column] for column in rows.column_names} | {_COUNTS: pa.repeat(pa.scalar(name), len(rows))}
    absent = {
        column.name: pa.repeat(pa.scalar(None, column.type), len(rows))
        for column in _SCHEMA
        if column.name not in columns
    }
    return pa.table({column: (columns | absent)[column] for column in _SCHEMA.names}, _SCHEMA).combine_chunks()


def read_files(table: str, files: list[str]) -> pa.Table:
    fields = schema.TABLES[table]
    if not files:
        return fields.empty_table()
    return ds.dataset(files, schema=fields, format="parquet").to_table(columns=[*NEEDED[table]])
