"""Tasks of Spark that read event files and count: whole runs, or a split or block of a large one.

Tasks read the files themselves, so that the events of a run need neither a shuffle nor a way through Java. Files that
only Spark reads, through the connectors of Hadoop, come to the tasks as contents, through a shuffle. All counts
are rows of one table, which one job makes: the column `counts` names the table that a row belongs to, and columns of
other tables are null. Executors import this module: they have no package but numpy, pyarrow and pyspark.
"""

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as fn
from pyspark.sql.pandas.types import from_arrow_schema

from mqlab.events import schema
from mqlab.events.compacted import FileGroups, read_groups
from mqlab.pipeline.counts.row_groups import BOUNDS, RowGroups, count_bounds, read_rows
from mqlab.pipeline.kernels import blocks, run_counts, run_deliveries
from mqlab.pipeline.kernels.blocks import EarlierAbove, Extent
from mqlab.pipeline.kernels.run_events import NEEDED, RunWindow, align_clocks, of_sharing_runs

_ADDED: Final = {**run_deliveries.SCHEMAS, **run_counts.SCHEMAS}
# The tables that cut large runs into blocks.
_OF_BLOCKS: Final = {"cells": blocks.CELLS, "bounds": BOUNDS}
SCHEMAS: Final = {**_ADDED, **_OF_BLOCKS, "arrivals": run_deliveries.ARRIVALS}
_COUNTS: Final = "counts"
_URL: Final = re.compile(r"[a-z][a-z0-9+.-]*:/", re.IGNORECASE)
_PLACES: Final = pa.schema({"id": pa.int64(), "path": pa.string()})
_WORK: Final = pa.schema({"id": pa.int64(), "partition": pa.string()})
_SCHEMA: Final = pa.schema({
    _COUNTS: pa.string(), **{column.name: column.type for table in SCHEMAS.values() for column in table},
})  # fmt: skip
# Rows with the same of these count different events of the same things.
_KEYS: Final = (_COUNTS, "run", "agent", "slot", "measured", "bucket", "application", "operation")
# How columns add up that are no sums.
_NOT_SUMMED: Final = {"longest": "max", "largest_batch": "max", "first": "min", "last": "max"}


@dataclass
class EventPartition:
    """The work of a task: `files` by table, whole or some of their row groups, and the windows of `RunWindow` by run.

    A split of large runs has the bits of cells, and some row groups; a block has what `blocks.Block` has.
    `only_arrivals`: the task gives the table `arrivals`, or what cuts its runs into blocks, instead of the counts.
    """

    files: dict[str, list[FileGroups]] = field(default_factory=lambda: {table: [] for table in NEEDED})
    windows: dict[int, list[int]] = field(default_factory=dict)
    rows: int = 0
    groups: RowGroups = field(default_factory=dict)
    cell_bits: int | None = None
    extents: list[Extent] = field(default_factory=list)
    earlier_above: list[EarlierAbove] = field(default_factory=list)
    # The runs that share the events of one of them, by that one.
    sharing: dict[int, list[int]] = field(default_factory=dict)
    only_arrivals: bool = False

    def paths(self) -> Iterator[str]:
        for files in self.files.values():
            yield from (path for path, _ in files)
        for groups in self.groups.values():
            yield from groups

    def placed(self, places: Mapping[str, str]) -> "EventPartition":
        """The same with other paths of its files."""
        files = {table: [(places[path], numbers) for path, numbers in of] for table, of in self.files.items()}
        groups = {table: {places[path]: each for path, each in of.items()} for table, of in self.groups.items()}
        return replace(self, files=files, groups=groups)


def read_partitions(spark: SparkSession, partitions: Sequence[EventPartition]) -> DataFrame:
    """The counts of the partitions, each made by a task of its own. `counts_of` gives a table of them."""
    schema = from_arrow_schema(_SCHEMA)
    if any(is_url(path) for partition in partitions for path in partition.paths()):
        return _with_contents(spark, partitions).groupBy("id").applyInArrow(_count_contents, schema)
    return one_a_task(spark, partitions).mapInArrow(_count_partitions, schema)


def gather(rows: DataFrame, partitions: int) -> DataFrame:
    """The rows in one partition, so that no table made from them needs a shuffle; in several, each run is in one.

    This is a shuffle itself: without it, one task would do the work of all.
    """
    return rows.repartition(partitions, "run") if partitions > 1 else rows.repartition(1)


def is_url(path: str) -> bool:
    return _URL.match(path) is not None


def one_a_task(spark: SparkSession, partitions: Sequence[EventPartition]) -> DataFrame:
    """A row for each partition, as JSON, each of them alone in a task."""
    # Joined by number: Spark sends the list once to each executor, not with each task.
    numbers = spark.range(0, len(partitions), 1, max(1, len(partitions)))
    return numbers.join(fn.broadcast(_work(spark, partitions)), "id")


def _work(spark: SparkSession, partitions: Sequence[EventPartition]) -> DataFrame:
    work = pa.table({"id": range(len(partitions)), "partition": [json.dumps(vars(each)) for each in partitions]}, _WORK)
    return spark.createDataFrame(work, from_arrow_schema(_WORK))


def _with_contents(spark: SparkSession, partitions: Sequence[EventPartition]) -> DataFrame:
    """A row for each file of each partition, with its content, which Spark reads."""
    places = [(number, path) for number, each in enumerate(partitions) for path in dict.fromkeys(each.paths())]
    assigned = pa.table({"id": [number for number, _ in places], "path": [path for _, path in places]}, _PLACES)
    contents = spark.read.format("binaryFile").load([*dict.fromkeys(path for _, path in places)])
    return (
        contents.select("path", "content")
        .join(fn.broadcast(spark.createDataFrame(assigned, from_arrow_schema(_PLACES))), "path")
        .join(fn.broadcast(_work(spark, partitions)), "id")
    )


def read_saved_counts(spark: SparkSession, files: Sequence[Path]) -> DataFrame:
    """The counts in Parquet files, which `toArrow` gave before."""
    schema = from_arrow_schema(_SCHEMA)
    if not files:
        return spark.createDataFrame([], schema)
    return spark.read.schema(schema).parquet(*map(str, files))


def counts_of(counts: DataFrame, table: str) -> DataFrame:
    return counts.where(f"{_COUNTS} = '{table}'").select(SCHEMAS[table].names)


def rows_of(counts: pa.Table, table: str) -> pa.Table:
    """The same of counts that were fetched."""
    columns = SCHEMAS[table]
    return counts.filter(pc.equal(counts[_COUNTS], table)).select(columns.names).cast(columns)


def without_blocks(counts: pa.Table) -> pa.Table:
    return counts.filter(pc.invert(pc.is_in(counts[_COUNTS], pa.array([*_OF_BLOCKS]))))


def ordered_counts(counts: pa.Table) -> dict[str, pa.Table]:
    """Each table of the counts but those of blocks, with its rows in order."""
    tables = {}
    for name, columns in _ADDED.items():
        order = [(key, "ascending") for key in _KEYS if key in columns.names]
        tables[name] = rows_of(counts, name).sort_by(order).combine_chunks()
    return tables


def unite_counts(tables: dict[str, DataFrame]) -> DataFrame:
    """One table of the counts in several, as `counts_of` takes it apart."""
    named = [table.withColumn(_COUNTS, fn.lit(name)) for name, table in tables.items()]
    return reduce(lambda counts, table: counts.unionByName(table, allowMissingColumns=True), named)


def add_counts(counts: DataFrame) -> DataFrame:
    """Add up rows that count different events of the same runs."""
    summed = dict.fromkeys(name for columns in _ADDED.values() for name in columns.names if name not in _KEYS)
    added = [fn.expr(f"{_NOT_SUMMED.get(name, 'sum')}({name})").alias(name) for name in summed]
    return counts.groupBy(*_KEYS).agg(*added)


def _count_partitions(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The work of a task: its rows are partitions."""
    for text in (text for batch in batches for text in batch["partition"].to_pylist()):
        for name, rows in _count(EventPartition(**json.loads(text))):
            if rows.num_rows:
                yield from _widen(name, rows).to_batches()


def _count_contents(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The same with the contents of the files, which the task writes to a folder of its own."""
    urls: dict[str, str] = {}
    text = ""
    with TemporaryDirectory(prefix="mqlab-events-") as folder:
        for row in (row for batch in batches for row in batch.to_pylist()):
            file = Path(folder, str(len(urls)))
            file.write_bytes(row["content"])
            urls[str(file)], text = row["path"], row["partition"]
        partition = EventPartition(**json.loads(text)).placed({url: file for file, url in urls.items()})
        for name, rows in _count(partition):
            if "file" in rows.column_names:
                named = pa.array([urls[file] for file in rows["file"].to_pylist()], pa.string())
                rows = rows.set_column(rows.column_names.index("file"), "file", named)
            if rows.num_rows:
                yield from _widen(name, rows).to_batches()


def _count(partition: EventPartition) -> Iterator[tuple[str, pa.Table]]:
    windows = {int(run): RunWindow.of(times) for run, times in partition.windows.items()}
    sharing = {int(run): runs for run, runs in partition.sharing.items()}
    if partition.cell_bits is not None:
        yield from _count_split(partition, windows, sharing, partition.cell_bits)
        return
    recorded = align_clocks(read_block(partition) if partition.extents else _read_whole(partition))
    for events in of_sharing_runs(recorded, sharing):
        if partition.only_arrivals:
            yield "arrivals", run_deliveries.arrivals(events)
            continue
        yield from run_deliveries.run_deliveries(events, windows).items()
        yield "gaps", run_counts.gaps(events["sends"])
        if not partition.extents:
            yield from run_counts.row_counts(events, windows).items()


def _count_split(
    partition: EventPartition, windows: Mapping[int, RunWindow], sharing: Mapping[int, list[int]], cell_bits: int
) -> Iterator[tuple[str, pa.Table]]:
    others = _read_whole(partition)
    for table, groups in partition.groups.items():
        for part in read_rows(table, groups):
            events = align_clocks({**others, table: part.rows})
            for of_run in () if partition.only_arrivals else of_sharing_runs(events, sharing):
                yield from run_counts.row_counts(of_run, windows).items()
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


def read_files(table: str, files: Iterable[FileGroups]) -> pa.Table:
    """The columns that are needed."""
    return read_groups(pa.schema([schema.TABLES[table].field(name) for name in NEEDED[table]]), files)
