"""A source of Spark whose tasks read event files and count: whole runs, or a split or block of a large one.

Tasks read the files themselves, so that the events of a run need neither a shuffle nor a way through Java. All counts
are rows of one table, which one job makes: the column `counts` names the table that a row belongs to, and columns of
other tables are null.
"""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce
from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as fn
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType

from mqlab.events import schema
from mqlab.json_values import JsonObject
from mqlab.pipeline.kernels import blocks, run_counts, run_deliveries
from mqlab.pipeline.kernels.blocks import EarlierAbove, Extent
from mqlab.pipeline.kernels.run_events import NEEDED, RunWindow, align_clocks
from mqlab.pipeline.measure_tables import EventSources
from mqlab.pipeline.row_groups import BOUNDS, RowGroups, count_bounds, read_rows

_NAME: Final = "mqlab-runs"
_PARTITIONS: Final = "partitions"
# Event rows of the runs in one partition: a task costs as much as some ten thousand of them. A larger run is alone.
ROWS: Final = 250_000
# Tables of events whose rows are many.
LARGE_TABLES: Final = ("sends", "receipts", "round_trips", "operations")

_ADDED: Final = {"deliveries": run_deliveries.SCHEMA, **run_counts.SCHEMAS}
# The tables that cut large runs into blocks.
_OF_BLOCKS: Final = {"cells": blocks.CELLS, "bounds": BOUNDS}
SCHEMAS: Final = {**_ADDED, **_OF_BLOCKS}
_COUNTS: Final = "counts"
_SCHEMA: Final = pa.schema({
    _COUNTS: pa.string(), **{column.name: column.type for table in SCHEMAS.values() for column in table},
})  # fmt: skip
# Rows with the same of these count different events of the same things.
_KEYS: Final = (_COUNTS, "run", "agent", "slot", "measured", "bucket", "application", "operation")
# How columns add up that are no sums.
_NOT_SUMMED: Final = {"longest": "max", "largest_batch": "max", "first": "min", "last": "max"}


@dataclass
class EventPartition:
    """The work of a task: whole `files` by table, and the windows of `RunWindow` by run.

    A split of large runs has the bits of cells, and some row groups; a block has what `blocks.Block` has.
    """

    files: dict[str, list[str]] = field(default_factory=lambda: {table: [] for table in NEEDED})
    windows: dict[int, list[int]] = field(default_factory=dict)
    rows: int = 0
    groups: RowGroups = field(default_factory=dict)
    cell_bits: int | None = None
    extents: list[Extent] = field(default_factory=list)
    earlier_above: list[EarlierAbove] = field(default_factory=list)


def count_rows(sources: EventSources, tables: Iterable[str] = LARGE_TABLES) -> dict[int | None, int]:
    """The number of rows of each run in these tables; of all runs together, as None, where files have several runs."""
    rows: dict[int | None, int] = {}
    for file in (file for table in tables for file in sources.readable(table)):
        rows[file.run] = rows.get(file.run, 0) + pq.read_metadata(file.path).num_rows
    return {None: sum(rows.values())} if None in rows else rows


def read_counts(
    spark: SparkSession, sources: EventSources, windows: pa.Table, rows: dict[int | None, int]
) -> DataFrame:
    """The counts of the runs in `rows`, which has the number of their event rows. `counts_of` gives a table of them."""
    return read_partitions(spark, divide(sources, windows, rows))


def read_partitions(spark: SparkSession, partitions: list[EventPartition]) -> DataFrame:
    spark.dataSource.register(RunCounts)
    counts = spark.read.format(_NAME).option(_PARTITIONS, json.dumps([*map(vars, partitions)])).load()
    # A shuffle of these few rows: without it, one task would read all partitions into one.
    return counts.repartition(1)


def read_saved_counts(spark: SparkSession, files: Sequence[Path]) -> DataFrame:
    """The counts in Parquet files, which `toArrow` gave before."""
    schema = from_arrow_schema(_SCHEMA)
    if not files:
        return spark.createDataFrame([], schema)
    return spark.read.schema(schema).parquet(*map(str, files)).repartition(1)


def counts_of(counts: DataFrame, table: str) -> DataFrame:
    return counts.where(f"{_COUNTS} = '{table}'").select(SCHEMAS[table].names)


def ordered_counts(counts: pa.Table) -> dict[str, pa.Table]:
    """Each table of the counts but those of blocks, with its rows in order."""
    tables = {}
    for name, columns in _ADDED.items():
        rows = counts.filter(pc.equal(counts[_COUNTS], name)).select(columns.names).cast(columns)
        tables[name] = rows.sort_by([(key, "ascending") for key in _KEYS if key in columns.names]).combine_chunks()
    return tables


def unite_counts(tables: dict[str, DataFrame]) -> DataFrame:
    """One table of the counts in several, as `counts_of` takes it apart."""
    named = [table.withColumn(_COUNTS, fn.lit(name)) for name, table in tables.items()]
    return reduce(lambda counts, table: counts.unionByName(table, allowMissingColumns=True), named)


def add_counts(counts: DataFrame) -> DataFrame:
    """Add up rows that count different events of the same runs; without the tables of blocks."""
    summed = dict.fromkeys(name for columns in _ADDED.values() for name in columns.names if name not in _KEYS)
    added = [fn.expr(f"{_NOT_SUMMED.get(name, 'sum')}({name})").alias(name) for name in summed]
    return counts.where(~fn.col(_COUNTS).isin(*_OF_BLOCKS)).groupBy(*_KEYS).agg(*added)


def windows_by_run(windows: pa.Table) -> dict[int, list[int]]:
    return {
        row["run"]: [row[name] for name in RunWindow._fields if row[name] is not None] for row in windows.to_pylist()
    }


def divide(sources: EventSources, windows: pa.Table, rows: dict[int | None, int]) -> list[EventPartition]:
    """Runs in their order, as many in a partition as it may have rows. Files of several runs are in one partition."""
    files: dict[int | None, dict[str, list[str]]] = {}
    for table in NEEDED:
        for file in sources.readable(table):
            run = None if None in rows else file.run
            files.setdefault(run, {}).setdefault(table, []).append(str(file.path))
    by_run = windows_by_run(windows)
    partitions: list[EventPartition] = []
    for run in sorted(files.keys() & rows.keys(), key=lambda run: run or 0):
        if not partitions or partitions[-1].rows + rows[run] > ROWS:
            partitions.append(EventPartition())
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
        # Removed: Spark sends this object to every task, which needs its own partition alone.
        return _Reader(json.loads(self.options.pop(_PARTITIONS)))


class _Reader(DataSourceReader):
    def __init__(self, partitions: Sequence[JsonObject]) -> None:
        self._partitions = partitions

    def __getstate__(self) -> JsonObject:
        """Nothing: Spark sends each task its own partition, and this object as well."""
        return {}

    def partitions(self) -> Sequence[InputPartition]:
        return [InputPartition(partition) for partition in self._partitions] or [InputPartition(None)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        if partition.value is None:
            return
        for name, rows in _count(EventPartition(**partition.value)):
            if rows.num_rows:
                yield from _widen(name, rows).to_batches()


def _count(partition: EventPartition) -> Iterator[tuple[str, pa.Table]]:
    windows = {int(run): RunWindow(*times) for run, times in partition.windows.items()}
    if partition.cell_bits is not None:
        yield from _count_split(partition, windows, partition.cell_bits)
        return
    events = align_clocks(read_block(partition) if partition.extents else _read_whole(partition))
    yield "deliveries", run_deliveries.run_deliveries(events, windows)
    yield "gaps", run_counts.gaps(events["sends"])
    if not partition.extents:
        yield from run_counts.row_counts(events, windows).items()


def _count_split(
    partition: EventPartition, windows: Mapping[int, RunWindow], cell_bits: int
) -> Iterator[tuple[str, pa.Table]]:
    others = _read_whole(partition)
    for table, groups in partition.groups.items():
        for part in read_rows(table, groups):
            events = align_clocks({**others, table: part.rows})
            yield from run_counts.row_counts(events, windows).items()
            if table in ("sends", "receipts"):
                yield "cells", blocks.count_cells(events[table], cell_bits)
                yield "bounds", count_bounds(part)


def read_block(partition: EventPartition) -> dict[str, pa.Table]:
    """The events of a block, with rows that stand for what is outside."""
    extents = [Extent(*extent) for extent in partition.extents]
    outside = {
        "sends": blocks.outside_sends(extents),
        "receipts": blocks.outside_receipts([EarlierAbove(*earlier) for earlier in partition.earlier_above]),
    }
    events = _read_whole(partition)
    for table, rows in outside.items():
        groups = partition.groups.get(table, {})
        parts = [blocks.rows_of_block(part.rows, extents) for part in read_rows(table, groups)]
        events[table] = blocks.append_rows(pa.concat_tables(parts) if parts else events[table], rows)
    return events


def _read_whole(partition: EventPartition) -> dict[str, pa.Table]:
    return {table: read_files(table, files) for table, files in partition.files.items()}


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
