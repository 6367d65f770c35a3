"""Rates: totals over all roles in the measure phase, divided by its length."""

from pyspark.sql import DataFrame
from pyspark.sql import functions as fn

from mqlab.pipeline.metrics import as_metrics
from mqlab.pipeline.tables import NANOSECONDS


def rates(activity: DataFrame, spans: DataFrame) -> DataFrame:
    """(run, metric, value): rate.received, rate.sent, bytes.received."""
    totals = (
        activity.where(fn.col("measured"))
        .groupBy("run")
        .agg(*(fn.sum(name).alias(name) for name in ("sent", "received", "bytes_received")))
        .join(fn.broadcast(spans), "run")
        .withColumn("seconds", (fn.col("measure_end") - fn.col("measure_start")) / NANOSECONDS)
    )
    return as_metrics(
        totals,
        {
            "rate.received": fn.col("received") / fn.col("seconds"),
            "rate.sent": fn.col("sent") / fn.col("seconds"),
            "bytes.received": fn.col("bytes_received") / fn.col("seconds"),
        },
    ).select("run", "metric", "value")
