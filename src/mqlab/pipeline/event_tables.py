"""The event tables of a run folder as DataFrames, with explicit schemas and all times on the controller's clock."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from math import ceil
from typing import Final

import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as fn
from pyspark.sql.pandas.types import from_arrow_schema

from mqlab.events.compacted import read_groups
from mqlab.events.schema import MEASURE, TABLES, WARM_UP
from mqlab.events.slices import Switch, slice_edges, total_ns
from mqlab.events.sources import EventSources, count_rows
from mqlab.pipeline.kernels.run_events import share_rows

# The keys of study.Point that the pipeline needs. A missing key has the default of Point.
_POINT_SCHEMA: Final = (
    "pattern string, domain string, load string, send string, transaction int, rate double, size bigint, batch bigint, "
    "producers int, consumers int, requesters int, messages bigint, consume_rate double, client_cpu double, "
    "faults string, profile string, priority string, key string, base string, parameters map<string, string>"
)


# Whether the messages of a producer arrive in their order. Those with a higher priority overtake others, and there is
# an order among those with the same key only.
_IS_ORDERED: Final = "coalesce(declared.key, '') = '' AND coalesce(declared.priority, '') NOT RLIKE '[^0-9]'"


@dataclass(frozen=True)
class MessageEvents:
    """The tables with rows for messages. The agent's clock offset is added to times; not to those of operations."""

    sends: DataFrame
    receipts: DataFrame
    round_trips: DataFrame
    operations: DataFrame


class EventTables:
    """One DataFrame for each of the other tables: a few rows for each run or second.

    `runs` has every run, damaged ones with that status; the others have the events of those whose files are intact. A
    table is read when it is first asked for, so that the first job of the pipeline need not wait for all.
    """

    def __init__(self, spark: SparkSession, sources: EventSources) -> None:
        self._spark = spark
        self._sources = sources

    @cached_property
    def runs(self) -> DataFrame:
        return self._read("runs")

    @cached_property
    def roles(self) -> DataFrame:
        return self._read("roles")

    @cached_property
    def samples(self) -> DataFrame:
        samples = self._read("samples")
        is_large = _is_large(self._sources, "samples")
        return _share(self._spark, samples, self._sources.sharing) if is_large else samples

    @cached_property
    def phases(self) -> DataFrame:
        return self._read("phases")

    @cached_property
    def faults(self) -> DataFrame:
        return self._read("faults")

    @cached_property
    def switches(self) -> DataFrame:
        return self._read("switches")

    @cached_property
    def clocks(self) -> DataFrame:
        return self._read("clocks")

    @cached_property
    def machine(self) -> DataFrame:
        return self._read("machine")

    @cached_property
    def travel(self) -> DataFrame:
        return self._read("travel")

    def _read(self, table: str) -> DataFrame:
        return _read(self._spark, self._sources, table)


_LAST_RUN: Final = 2**31 - 1
# Tables whose rows belong to one run alone, even if others share the events of it.
_UNSHARED: Final = ("runs", "switches")
_SMALL: Final = ("runs", "roles", "samples", "phases", "faults", "switches", "clocks", "machine", "travel")
# More rows of samples than this do not go through this process; a run of a second has about a hundred.
MOST_LOCAL_SAMPLES: Final = 1_000_000
# Of the rows of a local table, for each of its tasks; Spark refuses tasks of more than 128 MiB.
TASK_BYTES: Final = 32 << 20


def read_message_events(spark: SparkSession, sources: EventSources, clocks: DataFrame) -> MessageEvents:
    def read(table: str, *times: str) -> DataFrame:
        return _share(spark, align_clocks(_read(spark, sources, table), clocks, *times), sources.sharing)

    return MessageEvents(
        sends=read("sends", "t_planned", "t_sent", "t_confirmed"),
        receipts=read("receipts", "t_received", "t_acknowledged"),
        round_trips=read("round_trips", "t_planned", "t_sent", "t_received"),
        operations=_share(spark, _read(spark, sources, "operations"), sources.sharing),
    )


def _share(spark: SparkSession, events: DataFrame, sharing: Mapping[int, Sequence[int]]) -> DataFrame:
    """The events, once more for each further run that shares those of a run."""
    pairs = [(run, member) for run, members in sharing.items() for member in members if member != run]
    if not pairs:
        return events
    members = spark.createDataFrame(pairs, "run int, member int")
    return events.unionByName(events.join(fn.broadcast(members), "run").drop("run").withColumnRenamed("member", "run"))


def align_clocks(events: DataFrame, clocks: DataFrame, *times: str) -> DataFrame:
    """Return the same rows with each agent's clock offset added to the columns `times`.

    Times of an agent without an offset stay as they are; the audit marks its run as incomplete.
    """
    offsets = fn.broadcast(clocks.select("run", "agent", "offset"))
    offset = fn.coalesce(fn.col("offset"), fn.lit(0))
    aligned = {time: fn.col(time) + offset for time in times}
    return events.join(offsets, ["run", "agent"], "left").withColumns(aligned).select(*events.columns)


def measure_windows(spark: SparkSession, events: EventTables, sharing: Mapping[int, Sequence[int]]) -> DataFrame:
    """One row for each run: the start of its load, and its measure phase [measure_start, measure_end).

    `edges` are those of its slices (`mqlab.events.slices`) within that phase, null if all of it counts; `measured_ns`
    is the time that counts.
    """
    windows = _whole_windows(events.phases)
    whole = "measure_end - measure_start AS measured_ns"
    if not sharing:
        return windows.selectExpr("*", "CAST(null AS ARRAY<BIGINT>) AS edges", whole)
    switches: dict[int, list[Switch]] = {}
    for row in events.switches.collect():
        switches.setdefault(row["run"], []).append(Switch(row["setting_run"], row["t_asked"], row["t_counted"]))
    rows = windows.where("measure_start IS NOT NULL").collect()
    measured = {row["run"]: (row["measure_start"], row["measure_end"]) for row in rows}
    edges = [
        (member, of_member, total_ns(of_member))
        for run, of_run in switches.items() if run in measured
        for member, of_member in slice_edges(of_run, *measured[run]).items()
    ]  # fmt: skip
    slices = spark.createDataFrame(edges, "run int, edges array<bigint>, sliced_ns bigint").coalesce(1)
    return windows.join(fn.broadcast(slices), "run", "left").selectExpr(
        *windows.columns, "edges", "coalesce(sliced_ns, measure_end - measure_start) AS measured_ns"
    )


def _whole_windows(phases: DataFrame) -> DataFrame:

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
    return fn.coalesce(inside & (slice_number(time) % 2 == 1), fn.lit(False))


def slice_number(time: Column) -> Column:
    """The number of edges up to a time, odd within a slice; 1 for a run without slices."""
    passed = fn.size(fn.filter("edges", lambda edge: edge <= time))
    return fn.when(fn.col("edges").isNull(), 1).otherwise(passed)


def local_table(spark: SparkSession, rows: pa.Table) -> DataFrame:
    """Make a DataFrame that is part of the plan. It has one partition: joins and groupings of it need no shuffle.

    A table of very many runs has several, since its rows travel within the tasks, whose size Spark bounds.
    """
    plain = rows.cast(pa.schema([field.with_type(_value_type(field.type)) for field in rows.schema]))
    partitions = max(1, ceil(plain.nbytes / TASK_BYTES))
    return spark.createDataFrame(plain, from_arrow_schema(plain.schema)).coalesce(partitions)


def _read(spark: SparkSession, sources: EventSources, table: str) -> DataFrame:
    schema, files = TABLES[table], sources.readable(table)
    if not files or (table in _SMALL and not _is_large(sources, table)):
        few = read_groups(schema, sources.local_groups(table) if files else [])
        if table not in _UNSHARED:
            few = share_rows(few, sources.sharing)
        return local_table(spark, sources.mark_damaged(few) if table == "runs" else few)
    plain = pa.schema([field.with_type(_value_type(field.type)) for field in schema])
    rows = spark.read.schema(from_arrow_schema(plain)).parquet(*dict.fromkeys(file.location for file in files))
    return rows.where(_is_sound(sources)) if any(file.part for file in files) else rows


def _is_large(sources: EventSources, table: str) -> bool:
    """Whether Spark reads the table: the samples of very many runs, which have rows for each of their seconds."""
    return table == "samples" and sum(count_rows(sources, (table,)).values()) > MOST_LOCAL_SAMPLES


def _is_sound(sources: EventSources) -> Column:
    """Whether a row is of no damaged run. Compacted files have their rows too, in row groups that Spark then skips."""
    runs = [-1, *sorted(run for run in sources.damaged if run is not None), _LAST_RUN]
    between = [f"run > {before} AND run < {behind}" for before, behind in pairwise(runs)]
    return fn.expr(" OR ".join(f"({condition})" for condition in between))


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
        fn.expr(_IS_ORDERED).alias("ordered"),
        *(f"declared.{name}" for name in ("send", "transaction", "rate", "size", "batch", "producers", "consumers")),
        *("declared.client_cpu", "declared.messages", "declared.consume_rate"),
        *("declared.base", "declared.parameters"),
    )
