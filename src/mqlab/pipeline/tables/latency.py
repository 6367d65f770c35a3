"""Durations: latency to the first delivery at each subscription, response time to the reply, confirmation of a send.

Latency and response time begin at `t_planned`: in a closed loop the call that hands the message over, so
that the time in the client's own buffer counts; in an open loop the time of the schedule.

All messages planned in the measure phase count, also those received after it: they are the slowest ones.
A request without a reply has no response time; the audit counts it as lost.

Latencies over time: how many messages of each slot of the load had a latency, or a response time, of each bucket. The
table of a run is small, however long it is: it has at most MOST_LATENCY_SLOTS slots, and about eight buckets a decade.
A message counts in the slot in which it was planned; messages of the warm-up count too.
"""

from typing import Final

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as fn
from pyspark.sql.pandas.types import from_arrow_schema

from mqlab.events.schema import CONFIRMED
from mqlab.pipeline.event_tables import within_measure
from mqlab.pipeline.kernels.count_keys import COARSE_BUCKETS, MOST_LATENCY_SLOTS, NANOSECONDS, SLOT
from mqlab.pipeline.kernels.durations import FIGURES, KINDS, find_durations
from mqlab.pipeline.kernels.histogram import bucket, exact_total, upper_edge
from mqlab.pipeline.schema import LatencyRow, LatencySlotRow, columns
from mqlab.study.metric import METRICS, PERCENTILES

_OF_HISTOGRAM: Final = ("run", "counts", "bucket", "messages", "nanoseconds", "longest")
_SLOT_KINDS: Final = {"latency slots": "latency", "response slots": "response"}
# As `RunWindow.latency_slot`.
_SLOT_LENGTH: Final = f"(greatest(ceil((measure_end - load_start) / {MOST_LATENCY_SLOTS * SLOT}), 1) * {SLOT})"


def round_trips(trips: DataFrame, windows: DataFrame) -> DataFrame:
    """Count round trips by run and `bucket` of the response time.

    `arrived` counts replies received in the measure phase, `mismatched` those with the id of another request. The
    bucket is null unless the request was planned in it and has a reply: `messages` counts these, `nanoseconds` is the
    sum of their response times, `longest` the highest.
    """
    counts = fn.col("t_received").isNotNull() & within_measure(fn.col("t_planned"))
    # As with latencies: a reply before that time is an error of the clocks.
    duration = fn.when(counts, fn.greatest(fn.col("t_received") - fn.col("t_planned"), fn.lit(0)))
    return (
        trips.join(fn.broadcast(windows), "run", "left")
        .withColumn("duration", duration)
        .withColumn("bucket", bucket(fn.col("duration")))
        .groupBy("run", "bucket")
        .agg(
            fn.sum(within_measure(fn.col("t_received")).cast("long")).alias("arrived"),
            fn.sum(fn.col("mismatched").cast("long")).alias("mismatched"),
            fn.count("duration").alias("messages"),
            exact_total(fn.col("duration"), fn.lit(1)).alias("nanoseconds"),
            fn.max("duration").alias("longest"),
        )
    )


def confirmations(sends: DataFrame, windows: DataFrame) -> DataFrame:
    """Confirmed sends by run and `bucket`: messages and sends, the sum of their durations, the longest."""
    confirmed = (fn.col("outcome") == CONFIRMED) & fn.col("t_confirmed").isNotNull()
    duration = fn.greatest(fn.col("t_confirmed") - fn.col("t_sent"), fn.lit(0))
    return (
        sends.where(confirmed)
        .join(fn.broadcast(windows), "run")
        .where(within_measure(fn.col("t_planned")))
        .withColumn("duration", duration)
        .withColumn("bucket", bucket(fn.col("duration")))
        .groupBy("run", "bucket")
        .agg(
            fn.sum("count").alias("messages"),
            fn.count(fn.lit(1)).alias("sends"),
            exact_total(fn.col("duration"), fn.col("count")).alias("nanoseconds"),
            fn.max("duration").alias("longest"),
        )
    )


def durations(counts: DataFrame) -> DataFrame:
    """(run, metric, value) in seconds of latency.*, response.* and confirm.*."""
    timed = counts.where(f"bucket IS NOT NULL AND counts IN ({', '.join(map(repr, KINDS))})").select(*_OF_HISTOGRAM)

    def find(histograms: pa.Table) -> pa.Table:
        return find_durations(histograms, PERCENTILES)

    return timed.groupBy("run").applyInArrow(find, from_arrow_schema(FIGURES)).where(fn.col("metric").isin(*METRICS))


def observations(facts: DataFrame) -> DataFrame:
    """(run, kind, observations): how many independent observations the durations of a run have, at most.

    Messages that were sent together, or received together, share one delay: the sends or the receipts of the measure
    phase count, whichever are fewer. Each round trip and each confirmed send is one observation.
    """
    counted = {
        "latency": "least(measured_sends, measured_receipts)",
        "response": "timed_round_trips",
        "confirm": "timed_sends",
    }
    kinds = (f"named_struct('kind', '{kind}', 'observations', {count})" for kind, count in counted.items())
    return facts.selectExpr("run", f"inline(array({', '.join(kinds)}))")


def latencies(counts: DataFrame, table: str, used: DataFrame) -> DataFrame:
    """The histogram of a point on a system over its valid runs, from the counts of a table, such as `deliveries`.

    `latency` is the upper edge of the bucket in seconds.
    """
    made = {"latency": f"{upper_edge('bucket')} / {NANOSECONDS}"}
    return (
        counts.where(f"counts = '{table}' AND bucket IS NOT NULL")
        .join(fn.broadcast(used), "run")
        .groupBy("scenario", "point", "system", "bucket")
        .agg(fn.sum("messages").alias("count"))
        .selectExpr(*(f"{made[name]} AS {name}" if name in made else name for name in columns(LatencyRow)))
    )


def message_slots(segments: DataFrame, windows: DataFrame) -> DataFrame:
    """(run, slot, bucket, messages) of all messages that were sent and received."""
    timed = segments.where("confirmed + unknown > 0 AND fresh + marked > 0")
    return _count_slots(timed.selectExpr("run", "t_planned", "t_received", "end - first AS messages"), windows)


def response_slots(trips: DataFrame, windows: DataFrame) -> DataFrame:
    """The same of all requests that have a reply."""
    replied = trips.where(fn.col("t_received").isNotNull())
    return _count_slots(replied.select("run", "t_planned", "t_received", fn.lit(1).alias("messages")), windows)


def _count_slots(timed: DataFrame, windows: DataFrame) -> DataFrame:
    latency = fn.greatest(fn.col("t_received") - fn.col("t_planned"), fn.lit(0))
    return (
        timed.join(fn.broadcast(windows), "run")
        .where("t_planned >= load_start AND t_planned < measure_end")
        .withColumn("slot", fn.expr(f"CAST(floor((t_planned - load_start) / {_SLOT_LENGTH}) AS INT)"))
        .withColumn("bucket", fn.ceil(bucket(latency) / COARSE_BUCKETS).cast("int"))
        .groupBy("run", "slot", "bucket")
        .agg(fn.sum("messages").alias("messages"))
    )


def latency_slots(counts: DataFrame, windows: DataFrame, used: DataFrame) -> DataFrame:
    """The table of all used runs."""
    kind = " ".join(f"WHEN '{table}' THEN '{name}'" for table, name in _SLOT_KINDS.items())
    made = {
        "kind": f"CASE counts {kind} END",
        "length": f"{_SLOT_LENGTH} / {NANOSECONDS}",
        "seconds": f"slot * {_SLOT_LENGTH} / {NANOSECONDS}",
        "latency": f"{upper_edge(f'bucket * {COARSE_BUCKETS}')} / {NANOSECONDS}",
    }
    return (
        counts.where(f"counts IN ({', '.join(map(repr, _SLOT_KINDS))})")
        .groupBy("run", "counts", "slot", "bucket")
        .agg(fn.sum("messages").alias("count"))
        .join(fn.broadcast(windows), "run")
        .join(fn.broadcast(used), "run")
        .selectExpr(*(f"{made[name]} AS {name}" if name in made else name for name in columns(LatencySlotRow)))
    )
