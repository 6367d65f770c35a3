"""Rates: totals over all roles in the measure phase, divided by its length."""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from mqlab.pipeline.metrics import as_metrics
from mqlab.pipeline.tables import NANOSECONDS


def rates(activity: DataFrame, spans: DataFrame) -> DataFrame:
    """(run, metric, value): rate.received, rate.sent, bytes.received."""
    totals = (
        activity.where(F.col("measured"))
        .groupBy("run")
        .agg(*(F.sum(name).alias(name) for name in ("sent", "received", "bytes_received")))
        .join(F.broadcast(spans), "run")
        .withColumn("seconds", (F.col("measure_end") - F.col("measure_start")) / NANOSECONDS)
    )
    return as_metrics(
        totals,
        {
            "rate.received": F.col("received") / F.col("seconds"),
            "rate.sent": F.col("sent") / F.col("seconds"),
            "bytes.received": F.col("bytes_received") / F.col("seconds"),
        },
    ).select("run", "metric", "value")
