"""The event tables of a run folder as DataFrames, with explicit schemas and all times on the controller's clock."""

from dataclasses import dataclass, fields
from typing import Final

import pyarrow as pa
import pyarrow.dataset as ds
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as fn
from pyspark.sql.pandas.types import from_arrow_schema

from mqlab.events.schema import MEASURE, TABLES, WARM_UP
from mqlab.pipeline.measure_tables import EventSources

# The keys of study.Point that the pipeline needs. A missing key has the default of Point.
_POINT_SCHEMA: Final = (
    "pattern string, domain string, load string, send string, transaction int, rate double, size bigint, batch bigint, "
    "producers int, consumers int, requesters int, messages bigint, consume_rate double, client_cpu double, "
    "faults string, profile string, base string, parameters map<string, string>"
)


@dataclass(frozen=True)
class MessageEvents:
    """The tables with rows for messages. The agent's clock offset is added to times; not to those of operations."""

    sends: DataFrame
    receipts: DataFrame
    round_trips: DataFrame
    operations: DataFrame


@dataclass(frozen=True)
class EventTables:
    """One DataFrame for each of the other tables: a few rows for each run or second."""

    runs: DataFrame
    roles: DataFrame
    samples: DataFrame
    phases: DataFrame
    faults: DataFrame
    clocks: DataFrame
    machine: DataFrame
    travel: DataFrame


_SMALL: Final = tuple(field.name for field in fields(EventTables))


def read_events(spark: SparkSession, sources: EventSources) -> EventTables:
    """Read the events of all runs whose files are intact. `runs` has every run, damaged ones with that status."""
    return EventTables(**{table: _read(spark, sources, table) for table in _SMALL})


def read_message_events(spark: SparkSession, sources: EventSources, clocks: DataFrame) -> MessageEvents:
    return MessageEvents(
        sends=align_clocks(_read(spark, sources, "sends"), clocks, "t_planned", "t_sent", "t_confirmed"),
        receipts=align_clocks(_read(spark, sources, "receipts"), clocks, "t_received", "t_acknowledged"),
        round_trips=align_clocks(_read(spark, sources, "round_trips"), clocks, "t_planned", "t_sent", "t_received"),
        operations=_read(spark, sources, "operations"),
    )


def align_clocks(events: DataFrame, clocks: DataFrame, *times: str) -> DataFrame:
    """Return the same rows with each agent's clock offset added to the columns `times`.

    Times of an agent without an offset stay as they are; the audit marks its run as incomplete.
    """
    offsets = fn.broadcast(clocks.select("run", "agent", "offset"))
    offset = fn.coalesce(fn.col("offset"), fn.lit(0))
    aligned = {time: fn.col(time) + offset for time in times}
    return events.join(offsets, ["run", "agent"], "left").withColumns(aligned).select(*events.columns)


def measure_windows(phases: DataFrame) -> DataFrame:
    """One row for each run: the start of its load, and its measure phase [measure_start, measure_end)."""

    def in_phase(phase: str, time: str) -> Column:
        return fn.when(fn.col("phase") == phase, fn.col(time))

    return phases.groupBy("run").agg(
        # A run with a fixed number of messages has no warm-up. Filling the queues is not part of the load.
        fn.coalesce(
            fn.min(in_phase(WARM_UP, "t_start")), fn.min(in_phase(MEASURE, "t_start")), fn.min("t_start")
        ).alias("load_start"),
        fn.min(in_phase(MEASURE, "t_start")).alias("measure_start"),
        fn.max(in_phase(MEASURE, "t_end")).alias("measure_end"),
    )


def within_measure(time: Column) -> Column:
    """Whether a time lies in the measure phase of its run, by `measure_windows`; false where there is none."""
    inside = (time >= fn.col("measure_start")) & (time < fn.col("measure_end"))
    return fn.coalesce(inside, fn.lit(False))


def local_table(spark: SparkSession, rows: pa.Table) -> DataFrame:
    """Make a DataFrame of one partition that is part of the plan: joins and groupings of it need no shuffle."""
    plain = rows.cast(pa.schema([field.with_type(_value_type(field.type)) for field in rows.schema]))
    return spark.createDataFrame(plain, from_arrow_schema(plain.schema)).coalesce(1)


def _read(spark: SparkSession, sources: EventSources, table: str) -> DataFrame:
    schema = TABLES[table]
    files = sources.readable_files(table)
    if table == "runs":
        rows = ds.dataset(files, schema=schema, format="parquet").to_table() if files else schema.empty_table()
        return local_table(spark, sources.mark_damaged(rows))
    if not files:
        return local_table(spark, schema.empty_table())
    if table in _SMALL:
        return local_table(spark, ds.dataset(files, schema=schema, format="parquet").to_table())
    plain = pa.schema([field.with_type(_value_type(field.type)) for field in schema])
    return spark.read.schema(from_arrow_schema(plain)).parquet(*(file.location for file in sources.readable(table)))


def _value_type(kind: pa.DataType) -> pa.DataType:
    return kind.value_type if pa.types.is_dictionary(kind) else kind


def points(runs: DataFrame) -> DataFrame:
    """One row for each run, valid or not. `parameters` are written as in the names of points."""
    declared = fn.from_json("parameters", _POINT_SCHEMA)
    return runs.withColumn("declared", declared).select(
        "run",
        "scenario",
        "point",
        "system",
        fn.coalesce("declared.pattern", fn.lit("one-way")).alias("pattern"),
        fn.coalesce("declared.load", fn.lit("both")).alias("load"),
        fn.coalesce("declared.requesters", fn.lit(0)).alias("requesters"),
        *(fn.coalesce(f"declared.{name}", fn.lit("")).alias(name) for name in ("faults", "profile")),
        *(f"declared.{name}" for name in ("send", "transaction", "rate", "size", "batch", "producers", "consumers")),
        *("declared.client_cpu", "declared.messages", "declared.consume_rate"),
        *("declared.base", "declared.parameters"),
    )
