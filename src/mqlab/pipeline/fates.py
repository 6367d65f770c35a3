"""How many messages of a run shared one fate: the classes of the audit, and how long the delivery took.

Small however long the run was, since messages of the same classes and the same latency bucket are one row.
"""

from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from mqlab.pipeline.histogram import bucket, exact_total
from mqlab.pipeline.tables import within_measure

# A message counts once for each subscription, in every class that it belongs to.
CLASSES: Final = (
    "delivered",  # confirmed, and received at least once
    "lost",  # confirmed, never received
    "duplicated",  # received more than once, a second time without the redelivered mark
    "duplicated_marked",  # received more than once, every extra copy with the mark
    "recovered",  # its producer got no answer, yet it was received
    "out_of_order",  # each of its unmarked copies came to a consumer that already had a later message
    "unexpected",  # received, though never sent there, refused, or rolled back
)


def fates(segments: DataFrame, spans: DataFrame) -> DataFrame:
    """The messages of each class, by run and latency `bucket`.

    The bucket is null unless they were planned in the measure phase, sent and received. `messages` counts each once,
    `nanoseconds` is the sum of their latencies, `longest` the highest.
    """
    latency_counts = F.col("was_sent") & F.col("was_received") & within_measure(F.col("t_planned"))
    # A receipt before its plan is within the error of the clocks.
    latency = F.greatest(F.col("t_received") - F.col("t_planned"), F.lit(0))
    in_class = [F.sum(F.when(F.col(name), F.col("messages")).otherwise(0)).alias(name) for name in CLASSES]
    return (
        _classed(segments)
        .join(F.broadcast(spans), "run", "left")
        .withColumn("latency", F.when(latency_counts, latency))
        .withColumn("bucket", bucket(F.col("latency")))
        .groupBy("run", "bucket")
        .agg(
            F.sum("messages").alias("messages"),
            *in_class,
            exact_total(F.col("latency"), F.col("messages")).alias("nanoseconds"),
            F.max("latency").alias("longest"),
        )
        .select("run", "bucket", "messages", *CLASSES, "nanoseconds", "longest")
    )


def _classed(segments: DataFrame) -> DataFrame:
    was_confirmed = F.col("confirmed") > 0
    several = F.col("was_sent") & (F.col("copies") > 1)
    unmarked_extra = F.col("fresh") > 1
    all_late = (F.col("fresh") > 0) & (F.col("late") == F.col("fresh"))
    return (
        segments.withColumn("messages", F.col("end") - F.col("first"))
        .withColumn("copies", F.col("fresh") + F.col("marked"))
        .withColumn("was_sent", F.col("confirmed") + F.col("unknown") > 0)
        .withColumn("was_received", F.col("copies") > 0)
        .withColumn("delivered", was_confirmed & F.col("was_received"))
        .withColumn("lost", was_confirmed & ~F.col("was_received"))
        .withColumn("duplicated", several & unmarked_extra)
        .withColumn("duplicated_marked", several & ~unmarked_extra)
        .withColumn("recovered", F.col("was_sent") & ~was_confirmed & F.col("was_received"))
        .withColumn("out_of_order", F.col("was_sent") & all_late)
        .withColumn("unexpected", ~F.col("was_sent") & F.col("was_received"))
        .select("run", "messages", "was_sent", "was_received", *CLASSES, *("t_planned", "t_received"))
    )
