"""Latency from the planned time to the first delivery at each subscription, and from a send to its confirmation.

Both are of the messages planned in the measure phase, also when they arrive after it: leaving those out would leave
out the slowest. A message whose first delivery never reached a consumer counts with the one that did.
"""

from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as fn

from mqlab.events.schema import CONFIRMED
from mqlab.pipeline.histogram import bucket, percentiles, upper_edge
from mqlab.pipeline.metrics import as_metrics
from mqlab.pipeline.tables import NANOSECONDS, within_measure

_LATENCY: Final = {"latency.p50": 500, "latency.p90": 900, "latency.p99": 990, "latency.p99.9": 999}
_CONFIRM: Final = {"confirm.p50": 500, "confirm.p99": 990}


def latency(fates: DataFrame) -> DataFrame:
    """(run, metric, value) in seconds: the percentiles, and the exact highest and mean."""
    timed = fates.where(fn.col("bucket").isNotNull())
    exact = timed.groupBy("run").agg(
        fn.max("longest").alias("longest"),
        (fn.sum("nanoseconds").cast("double") / fn.sum("messages")).alias("mean"),
    )
    in_seconds = {"latency.max": fn.col("longest") / NANOSECONDS, "latency.mean": fn.col("mean") / NANOSECONDS}
    return _percentiles(timed, _LATENCY).unionByName(as_metrics(exact, in_seconds)).select("run", "metric", "value")


def confirmation(sends: DataFrame, spans: DataFrame) -> DataFrame:
    """(run, metric, value) in seconds, for the sends that got a confirmation."""
    confirmed = (fn.col("outcome") == CONFIRMED) & fn.col("t_confirmed").isNotNull()
    duration = fn.greatest(fn.col("t_confirmed") - fn.col("t_sent"), fn.lit(0))
    timed = (
        sends.where(confirmed)
        .join(fn.broadcast(spans), "run")
        .where(within_measure(fn.col("t_planned")))
        .withColumn("duration", duration)
        .withColumn("bucket", bucket(fn.col("duration")))
        .groupBy("run", "bucket")
        .agg(fn.sum("count").alias("messages"), fn.max("duration").alias("longest"))
    )
    return _percentiles(timed, _CONFIRM).select("run", "metric", "value")


def latencies(fates: DataFrame, valid: DataFrame) -> DataFrame:
    """The histogram of a point on a system over its valid runs; `latency` is the bucket's upper edge in seconds."""
    return (
        fates.where(fn.col("bucket").isNotNull())
        .join(fn.broadcast(valid), "run")
        .groupBy("scenario", "point", "system", "bucket")
        .agg(fn.sum("messages").alias("count"))
        .withColumn("latency", upper_edge(fn.col("bucket")) / NANOSECONDS)
        .select("scenario", "point", "system", "latency", "count")
    )


def _percentiles(timed: DataFrame, per_mille: dict[str, int]) -> DataFrame:
    # Dots in a column's name would be read as a path into it.
    columns = {metric.replace(".", "_"): share for metric, share in per_mille.items()}
    values = {metric: fn.col(metric.replace(".", "_")) / NANOSECONDS for metric in per_mille}
    return as_metrics(percentiles(timed, columns), values)
