"""The event tables of a run folder as DataFrames: explicit schemas, every time on the controller's clock."""

from dataclasses import dataclass
from typing import Final

import pyarrow as pa
import pyarrow.dataset as ds
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as fn
from pyspark.sql.types import (
    BooleanType,
    DataType,
    DoubleType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
)

from mqlab.events.schema import MEASURE, TABLES, WARM_UP
from mqlab.pipeline.sources import Sources

NANOSECONDS: Final = 1_000_000_000

# A few rows a run or a second, in a file of their own for each run.
_SMALL: Final = ("runs", "roles", "samples", "phases", "clocks")

_TYPES: Final[dict[pa.DataType, DataType]] = {
    pa.int32(): IntegerType(),
    pa.int64(): LongType(),
    pa.float64(): DoubleType(),
    pa.bool_(): BooleanType(),
    pa.string(): StringType(),
}


@dataclass(frozen=True)
class Events:
    """One DataFrame a table. Times of sends, receipts and round trips have their agent's clock offset added."""

    runs: DataFrame
    roles: DataFrame
    sends: DataFrame
    receipts: DataFrame
    round_trips: DataFrame
    operations: DataFrame
    samples: DataFrame
    phases: DataFrame
    clocks: DataFrame


def read_events(spark: SparkSession, sources: Sources) -> Events:
    """The events of all runs whose files are intact; every run is in `runs`, the damaged ones marked."""
    clocks = _read(spark, sources, "clocks")
    return Events(
        runs=_read(spark, sources, "runs"),
        roles=_read(spark, sources, "roles"),
        sends=on_one_clock(_read(spark, sources, "sends"), clocks, "t_planned", "t_sent", "t_confirmed"),
        receipts=on_one_clock(_read(spark, sources, "receipts"), clocks, "t_received", "t_acknowledged"),
        round_trips=on_one_clock(_read(spark, sources, "round_trips"), clocks, "t_planned", "t_sent", "t_received"),
        operations=_read(spark, sources, "operations"),
        samples=_read(spark, sources, "samples"),
        phases=_read(spark, sources, "phases"),
        clocks=clocks,
    )


def on_one_clock(events: DataFrame, clocks: DataFrame, *times: str) -> DataFrame:
    """The same rows with each agent's offset added to `times`.

    An agent without an offset was cut off: its times stay as they are, and the audit makes its run incomplete.
    """
    offsets = fn.broadcast(clocks.select("run", "agent", "offset"))
    offset = fn.coalesce(fn.col("offset"), fn.lit(0))
    moved = {time: fn.col(time) + offset for time in times}
    return events.join(offsets, ["run", "agent"], "left").withColumns(moved).select(*events.columns)


def spans(phases: DataFrame) -> DataFrame:
    """One row a run: when its load began, and its measure phase [measure_start, measure_end)."""

    def of(phase: str, time: str) -> Column:
        return fn.when(fn.col("phase") == phase, fn.col(time))

    return (
        phases.groupBy("run")
        .agg(
            # A fixed amount of work has no warm-up; what fills the queues before is not the load.
            fn.coalesce(fn.min(of(WARM_UP, "t_start")), fn.min(of(MEASURE, "t_start")), fn.min("t_start")).alias(
                "begin"
            ),
            fn.min(of(MEASURE, "t_start")).alias("measure_start"),
            fn.max(of(MEASURE, "t_end")).alias("measure_end"),
        )
        .select("run", "begin", "measure_start", "measure_end")
    )


def within_measure(time: Column) -> Column:
    """Whether a time lies in the measure phase of its run's `spans`; false where there is none."""
    inside = (time >= fn.col("measure_start")) & (time < fn.col("measure_end"))
    return fn.coalesce(inside, fn.lit(False))


def local(spark: SparkSession, rows: pa.Table) -> DataFrame:
    """Rows that travel with the plan, in one partition: small tables joined and grouped with no shuffle at all."""
    return spark.createDataFrame(rows).coalesce(1)


def _read(spark: SparkSession, sources: Sources, table: str) -> DataFrame:
    schema = TABLES[table]
    files = sources.usable(table)
    if table == "runs":
        rows = ds.dataset(files, schema=schema, format="parquet").to_table() if files else schema.empty_table()
        return local(spark, sources.marked(rows))
    if not files:
        return local(spark, pa.schema([f.with_type(_plain(f.type)) for f in schema]).empty_table())
    if table in _SMALL:
        return local(spark, ds.dataset(files, schema=schema, format="parquet").to_table())
    return spark.read.schema(_struct(schema)).parquet(*files)


def _struct(schema: pa.Schema) -> StructType:
    return StructType([StructField(field.name, _TYPES[_plain(field.type)]) for field in schema])


def _plain(kind: pa.DataType) -> pa.DataType:
    return kind.value_type if pa.types.is_dictionary(kind) else kind
