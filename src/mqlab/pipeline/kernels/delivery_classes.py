"""The number of messages of a run in each delivery class of the audit and each bucket of latency.

The table is small even for a long run: messages of one latency bucket are one row.
"""

from pyspark.sql import DataFrame
from pyspark.sql import functions as fn

from mqlab.pipeline.event_tables import within_measure
from mqlab.pipeline.kernels.count_keys import DELIVERY_CLASSES
from mqlab.pipeline.kernels.histogram import bucket, exact_total


def delivery_classes(segments: DataFrame, windows: DataFrame, clocks: DataFrame) -> DataFrame:
    """Count the messages of each class, by run and latency `bucket`.

    The bucket is null unless the messages were planned in the measure phase, sent and received. `messages` counts each
    message once, `nanoseconds` is the sum of their latencies, `longest` the highest. `early` counts those that were
    received before they were sent, by more than the clocks of a sender and a receiver can be wrong together.
    """
    tolerance = clocks.groupBy("run").agg((2 * fn.max("error")).alias("tolerance"))
    is_early = fn.col("t_received") + fn.coalesce("tolerance", fn.lit(0)) < fn.col("t_sent")
    latency_counts = fn.col("was_sent") & fn.col("was_received") & within_measure(fn.col("t_planned"))
    # A receipt before the planned time is an error of the clocks, within their tolerance.
    latency = fn.greatest(fn.col("t_received") - fn.col("t_planned"), fn.lit(0))
    in_class = [fn.sum(fn.when(fn.col(name), fn.col("messages")).otherwise(0)).alias(name) for name in DELIVERY_CLASSES]
    return (
        _classify(segments)
        .join(fn.broadcast(windows), "run", "left")
        .join(fn.broadcast(tolerance), "run", "left")
        .withColumn("latency", fn.when(latency_counts, latency))
        .withColumn("bucket", bucket(fn.col("latency")))
        .groupBy("run", "bucket")
        .agg(
            fn.sum("messages").alias("messages"),
            *in_class,
            fn.sum(fn.when(is_early, fn.col("messages")).otherwise(0)).alias("early"),
            exact_total(fn.col("latency"), fn.col("messages")).alias("nanoseconds"),
            fn.max("latency").alias("longest"),
        )
    )


def _classify(segments: DataFrame) -> DataFrame:
    was_confirmed = fn.col("confirmed") > 0
    several = fn.col("was_sent") & (fn.col("copies") > 1)
    times_sent = fn.col("confirmed") + fn.col("unknown")
    unmarked_extra = fn.col("fresh") > fn.greatest(times_sent, fn.lit(1))
    all_late = (fn.col("fresh") > 0) & (fn.col("late") == fn.col("fresh"))
    return (
        segments.withColumn("messages", fn.col("end") - fn.col("first"))
        .withColumn("copies", fn.col("fresh") + fn.col("marked"))
        .withColumn("was_sent", times_sent > 0)
        .withColumn("was_received", fn.col("copies") > 0)
        .withColumn("delivered", was_confirmed & fn.col("was_received"))
        .withColumn("lost", was_confirmed & ~fn.col("was_received"))
        .withColumn("resent", times_sent > 1)
        .withColumn("duplicated", several & unmarked_extra)
        .withColumn("duplicated_resent", several & ~unmarked_extra & (fn.col("fresh") > 1))
        .withColumn("duplicated_marked", several & (fn.col("fresh") <= 1))
        .withColumn("recovered", fn.col("was_sent") & ~was_confirmed & fn.col("was_received"))
        .withColumn("out_of_order", fn.col("was_sent") & all_late)
        .withColumn("unexpected", ~fn.col("was_sent") & fn.col("was_received"))
        .select(
            "run", "messages", "was_sent", "was_received", *DELIVERY_CLASSES, *("t_planned", "t_sent", "t_received")
        )
    )
