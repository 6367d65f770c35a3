"""How long things took: latency from the planned time to the first delivery at each subscription, response from the
planned time to the reply, confirmation from a send to its answer.

All are of the messages planned in the measure phase, also when they arrive after it: leaving those out would leave
out the slowest. A message whose first delivery never reached a consumer counts with the one that did.
"""

from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as fn

from mqlab.events.schema import CONFIRMED
from mqlab.pipeline.event_tables import NANOSECONDS, within_measure
from mqlab.pipeline.kernels.histogram import bucket, exact_total, percentiles, upper_edge
from mqlab.pipeline.metrics import as_metrics
from mqlab.pipeline.schema import LatencyRow, columns
from mqlab.study.metric import METRICS

_SHARES: Final = {"p50": 500, "p90": 900, "p99": 990, "p99_9": 999}


def confirmations(sends: DataFrame, spans: DataFrame) -> DataFrame:
    """The sends that got a confirmation, by run and `bucket`: messages, the sum of their durations, the longest."""
    confirmed = (fn.col("outcome") == CONFIRMED) & fn.col("t_confirmed").isNotNull()
    duration = fn.greatest(fn.col("t_confirmed") - fn.col("t_sent"), fn.lit(0))
    return (
        sends.where(confirmed)
        .join(fn.broadcast(spans), "run")
        .where(within_measure(fn.col("t_planned")))
        .withColumn("duration", duration)
        .withColumn("bucket", bucket(fn.col("duration")))
        .groupBy("run", "bucket")
        .agg(
            fn.sum("count").alias("messages"),
            exact_total(fn.col("duration"), fn.col("count")).alias("nanoseconds"),
            fn.max("duration").alias("longest"),
        )
        .select("run", "bucket", "messages", "nanoseconds", "longest")
    )


def durations(fates: DataFrame, round_trips: DataFrame, confirmations: DataFrame) -> DataFrame:
    """(run, metric, value) in seconds of latency.*, response.* and confirm.*: percentiles, exact highest and mean."""
    timed = (
        _named(fates, "latency")
        .unionByName(_named(round_trips, "response"))
        .unionByName(_named(confirmations, "confirm"))
    )
    mean = fn.sum("nanoseconds").cast("double") / fn.sum("messages")
    exact = timed.groupBy("run", "kind").agg(fn.max("longest").alias("max"), mean.alias("mean"))
    figures = (*_SHARES, "max", "mean")
    return (
        as_metrics(
            percentiles(timed, _SHARES, ("run", "kind")).join(fn.broadcast(exact), ["run", "kind"]),
            # A dot in a column's name would be read as a path into it.
            {name.replace("_", "."): fn.col(name) / NANOSECONDS for name in figures},
            "kind",
        )
        .withColumn("metric", fn.concat_ws(".", "kind", "metric"))
        .where(fn.col("metric").isin(*METRICS))
        .select("run", "metric", "value")
    )


def latencies(counts: DataFrame, valid: DataFrame) -> DataFrame:
    """The histogram of a point on a system over its valid runs, from `fates` or from `round_trips`.

    `latency` is the bucket's upper edge in seconds.
    """
    return (
        counts.where(fn.col("bucket").isNotNull())
        .join(fn.broadcast(valid), "run")
        .groupBy("scenario", "point", "system", "bucket")
        .agg(fn.sum("messages").alias("count"))
        .withColumn("latency", upper_edge(fn.col("bucket")) / NANOSECONDS)
        .select(*columns(LatencyRow))
    )


def _named(counts: DataFrame, kind: str) -> DataFrame:
    timed = counts.where(fn.col("bucket").isNotNull())
    return timed.select("run", fn.lit(kind).alias("kind"), "bucket", "messages", "nanoseconds", "longest")
