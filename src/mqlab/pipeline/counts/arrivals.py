"""When each message of the runs with faults arrived: their tables alone need the messages one by one.

The tasks are those of the counts: each sweeps over whole runs, or over a block of a large one.
"""

from dataclasses import replace
from math import ceil
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as fn

from mqlab.events.compacted import read_groups
from mqlab.events.schema import TABLES
from mqlab.events.sources import EventSources, count_rows
from mqlab.pipeline.counts.large_runs import LargeRuns, find_large
from mqlab.pipeline.counts.run_partitions import divide
from mqlab.pipeline.counts.run_source import EventPartition, counts_of, gather, read_partitions, rows_of
from mqlab.pipeline.event_tables import EventTables, read_message_events
from mqlab.pipeline.kernels.deliveries import segments
from mqlab.pipeline.tables.faults import received_messages

_TABLE: Final = "arrivals"
_SWEPT: Final = ("sends", "receipts")
# Event rows of the runs whose arrivals one task orders by time. It spills what its memory cannot hold.
ROWS: Final = 1_000_000


def read_arrivals(
    spark: SparkSession, sources: EventSources, windows: pa.Table, events: EventTables, *, in_sql: bool = False
) -> DataFrame:
    """(run, messages, t_planned, t_received) of the messages that were sent and arrived, in the runs with faults."""
    of_runs = sources.of_runs({file.run for file in sources.readable("faults")})
    arrivals = _in_sql(spark, of_runs, events) if in_sql else _in_columns(spark, of_runs, windows)
    # A file may have runs without faults too.
    chosen = arrivals.join(fn.broadcast(events.faults.select("run").distinct()), "run", "left_semi")
    return gather(chosen, ceil(sum(count_rows(of_runs).values()) / ROWS))


def have_same_arrivals(one: DataFrame, other: DataFrame) -> bool:
    """Whether as many messages have the same times, into however many rows they are divided."""
    difference = one.unionByName(other.withColumn("messages", -fn.col("messages")))
    times = ("run", "t_planned", "t_received")
    return difference.groupBy(*times).agg(fn.sum("messages").alias("messages")).where("messages <> 0").isEmpty()


def _in_sql(spark: SparkSession, sources: EventSources, events: EventTables) -> DataFrame:
    messages = read_message_events(spark, sources, events.clocks)
    return received_messages(segments(messages.sends, messages.receipts, events.roles))


def _in_columns(spark: SparkSession, sources: EventSources, windows: pa.Table) -> DataFrame:
    rows = count_rows(sources)
    large = find_large(sources, rows)
    small = {run: number for run, number in rows.items() if run not in large}
    partitions = [_only_arrivals(partition) for partition in divide(sources, windows, small)]
    if large:
        plan = LargeRuns(sources.of_runs(large), windows)
        splits = [_only_arrivals(split) for split in plan.splits() if not split.groups.keys().isdisjoint(_SWEPT)]
        cut = read_partitions(spark, splits).toArrow()
        cells = rows_of(cut, "cells")
        cells = cells.filter(pc.is_in(cells["run"], _runs_with_faults(sources)))
        partitions += [_only_arrivals(block) for block in plan.blocks(cells, rows_of(cut, "bounds"))]
    return counts_of(read_partitions(spark, partitions), _TABLE)


def _runs_with_faults(sources: EventSources) -> pa.Array:
    """As they were recorded: further runs may share their events."""
    recorded = read_groups(pa.schema([TABLES["faults"].field("run")]), sources.local_groups("faults"))
    return recorded["run"].combine_chunks()


def _only_arrivals(partition: EventPartition) -> EventPartition:
    files = {table: [] if table in ("round_trips", "operations") else of for table, of in partition.files.items()}
    return replace(partition, files=files, only_arrivals=True)
