"""A source of Spark whose partitions are whole runs: a task reads the event files of its runs, and counts deliveries.

Tasks read the files themselves, so that the events of a run need neither a shuffle nor a way through Java.
"""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

import pyarrow as pa
import pyarrow.dataset as ds
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from mqlab.events import schema
from mqlab.json_values import JsonObject
from mqlab.pipeline.kernels.run_deliveries import NEEDED, MeasureWindow, run_deliveries
from mqlab.pipeline.measure_tables import EventSources
from mqlab.pipeline.schema import DELIVERY_CLASSES

_NAME: Final = "mqlab-deliveries"
_PARTITIONS: Final = "partitions"
_COUNTS: Final = "".join(f"{name} bigint, " for name in ("messages", *DELIVERY_CLASSES, "early"))
# Event rows of the runs in one partition: a task costs as much as some ten thousand of them. A larger run is alone.
ROWS: Final = 250_000


@dataclass
class _Partition:
    """`files` by table; `windows`: run, start and end of each measure phase."""

    files: dict[str, list[str]] = field(default_factory=lambda: {table: [] for table in NEEDED})
    windows: list[tuple[int, int, int]] = field(default_factory=list)
    rows: int = 0


def read_deliveries(spark: SparkSession, sources: EventSources, windows: pa.Table, rows: dict[int, int]) -> DataFrame:
    """The delivery classes of the runs in `rows`, which has the number of their event rows."""
    spark.dataSource.register(RunDeliveries)
    partitions = [vars(partition) for partition in divide(sources, windows, rows)]
    found = spark.read.format(_NAME).option(_PARTITIONS, json.dumps(partitions)).load()
    # A shuffle of the few rows that were found: without it, one task would read all partitions into one.
    return found.repartition(1)


def divide(sources: EventSources, windows: pa.Table, rows: dict[int, int]) -> list[_Partition]:
    """Runs in their order, as many in a partition as it may have rows. Files of several runs are in one partition."""
    files: dict[int | None, dict[str, list[str]]] = {}
    for table in NEEDED:
        for file in sources.readable(table):
            files.setdefault(file.run, {}).setdefault(table, []).append(str(file.path))
    measured = {
        row["run"]: (row["run"], row["measure_start"], row["measure_end"])
        for row in windows.to_pylist() if row["measure_start"] is not None and row["run"] in rows
    }  # fmt: skip
    partitions: list[_Partition] = []
    for run in sorted(files, key=lambda run: run or 0):
        if run is not None and run not in rows:
            continue
        own_rows = sum(rows.values()) if run is None else rows[run]
        if not partitions or partitions[-1].rows + own_rows > ROWS:
            partitions.append(_Partition())
        last = partitions[-1]
        last.rows += own_rows
        last.windows += measured.values() if run is None else [measured[run]] if run in measured else []
        for table, paths in files[run].items():
            last.files[table] += paths
    return partitions


class RunDeliveries(DataSource):
    """Made by Spark, on the driver and in every task."""

    @classmethod
    def name(cls) -> str:
        return _NAME

    def schema(self) -> str:
        return f"run int, bucket int, {_COUNTS}nanoseconds decimal(38, 0), longest bigint"

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
            return iter(())
        events = {table: read_files(table, files) for table, files in partition.value["files"].items()}
        windows = {run: MeasureWindow(start, end) for run, start, end in partition.value["windows"]}
        return run_deliveries(events, windows)


def read_files(table: str, files: list[str]) -> pa.Table:
    fields = schema.TABLES[table]
    if not files:
        return fields.empty_table()
    return ds.dataset(files, schema=fields, format="parquet").to_table(columns=[*NEEDED[table]])
