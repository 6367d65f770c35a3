"""Messages over time since the start of the load: by second, and by slot of a fifth of a second."""

from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as fn

from mqlab.pipeline.event_tables import within_measure
from mqlab.pipeline.kernels.count_keys import NANOSECONDS, SLOT, SLOTS_A_SECOND
from mqlab.pipeline.schema import PaceRow, RunColumns, SeriesRow, columns

_RUN: Final = columns(RunColumns)
_SUMMED: Final = ("sent", "received", "bytes_received", "damaged", "sends", "receipts")


def activity(sends: DataFrame, receipts: DataFrame, windows: DataFrame) -> DataFrame:
    """Count messages and bytes by agent, by `slot` since the start of the load, and by whether the measure phase has
    them.

    A send counts at the time of the send, with any outcome; of receipts every copy counts. `sends` and `receipts` count
    the rows of events; `largest_batch` is the highest number of messages in one row, `damaged` that of messages with
    another body than was sent.
    """
    zero, one = fn.lit(0).cast("long"), fn.lit(1).cast("long")
    sent = sends.select(
        "run",
        "agent",
        fn.col("t_sent").alias("t"),
        "count",
        fn.col("count").alias("sent"),
        zero.alias("received"),
        zero.alias("bytes_received"),
        zero.alias("damaged"),
        one.alias("sends"),
        zero.alias("receipts"),
    )
    received = receipts.select(
        "run",
        "agent",
        fn.col("t_received").alias("t"),
        "count",
        zero.alias("sent"),
        fn.col("count").alias("received"),
        fn.col("bytes").alias("bytes_received"),
        "damaged",
        zero.alias("sends"),
        one.alias("receipts"),
    )
    slot = fn.floor((fn.col("t") - fn.col("load_start")) / SLOT).cast("int")
    return (
        sent.unionByName(received)
        .join(fn.broadcast(windows), "run", "left")
        .withColumn("slot", slot)
        .withColumn("measured", within_measure(fn.col("t")))
        .groupBy("run", "agent", "slot", "measured")
        .agg(
            *(fn.sum(name).alias(name) for name in _SUMMED),
            fn.max("count").alias("largest_batch"),
        )
    )


def paces(activity: DataFrame, phases: DataFrame, windows: DataFrame, used: DataFrame) -> DataFrame:
    """Messages a second in each slot of a valid run, up to its last message.

    A slot without messages has zeros. `phase` is the phase in the middle of the slot; after the last phase, the last.
    """
    counts = (
        activity.where("slot >= 0")
        .groupBy("run", "slot")
        .agg(fn.sum("sent").alias("sent"), fn.sum("received").alias("received"))
    )
    starts = phases.groupBy("run").agg(fn.expr("array_sort(collect_list(struct(t_start, phase))) AS starts"))
    middle = f"load_start + CAST(slot AS LONG) * {SLOT} + {SLOT // 2}"
    made = {
        "seconds": f"slot / {SLOTS_A_SECOND}",
        "phase": f"element_at(filter(starts, start -> start.t_start <= {middle}), -1).phase",
        **{name: f"CAST(coalesce({name}, 0) AS DOUBLE) * {SLOTS_A_SECOND}" for name in ("sent", "received")},
    }
    return (
        _slots(counts, windows)
        .join(fn.broadcast(used), "run")
        .join(fn.broadcast(counts), ["run", "slot"], "left")
        .join(fn.broadcast(starts), "run")
        .selectExpr(*(f"{made[name]} AS {name}" if name in made else name for name in columns(PaceRow)))
        .where("phase IS NOT NULL")
    )


def series(paces: DataFrame, broker_samples: DataFrame) -> DataFrame:
    """Messages in each second, the phase in its middle, and the depth at its last sample."""
    phase_in_middle = fn.when(fn.round(fn.col("seconds") % 1 * SLOTS_A_SECOND) == SLOTS_A_SECOND // 2, fn.col("phase"))
    return (
        paces.withColumn("second", fn.floor("seconds").cast("int"))
        .groupBy(*_RUN, "second")
        .agg(
            (fn.sum("sent") / SLOTS_A_SECOND).alias("sent"),
            (fn.sum("received") / SLOTS_A_SECOND).alias("received"),
            # The last second may end before its middle.
            fn.coalesce(fn.max(phase_in_middle), fn.max_by("phase", "seconds")).alias("phase"),
        )
        .join(fn.broadcast(_depth(broker_samples)), ["run", "second"], "left")
        .select(*columns(SeriesRow))
    )


def _slots(counts: DataFrame, windows: DataFrame) -> DataFrame:
    last_active = counts.groupBy("run").agg(fn.max("slot").alias("last_active"))
    last_measured = f"CAST(ceil((measure_end - load_start) / {SLOT}) AS INT) - 1"
    slots = f"explode(sequence(0, greatest(last_active, {last_measured}))) AS slot"
    return windows.join(fn.broadcast(last_active), "run", "left").selectExpr("run", "load_start", slots)


def _depth(broker_samples: DataFrame) -> DataFrame:
    """The messages in all brokers of a run at the last sample of each second."""
    return (
        broker_samples.where(fn.col("depth").isNotNull())
        .withColumn("second", fn.floor(fn.col("nanoseconds") / NANOSECONDS).cast("int"))
        .groupBy("run", "source", "second")
        .agg(fn.max_by("depth", "nanoseconds").alias("depth"))
        .groupBy("run", "second")
        .agg(fn.sum("depth").cast("double").alias("depth"))
    )
