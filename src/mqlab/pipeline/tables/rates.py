"""Rates: totals over all roles in the measure phase, divided by its length."""

from pyspark.sql import DataFrame
from pyspark.sql import functions as fn

from mqlab.pipeline.event_tables import NANOSECONDS
from mqlab.pipeline.metrics import to_metric_rows


def totals(activity: DataFrame, round_trips: DataFrame, windows: DataFrame, points: DataFrame) -> DataFrame:
    """One row for each run with a measure phase: its `seconds` and counts; null where its point has no such count.

    `work` is what the point is about: round trips; with `load: send` messages sent; otherwise messages received.
    """
    counts = (
        activity.where(fn.col("measured"))
        .groupBy("run")
        .agg(*(fn.sum(name).alias(name) for name in ("sent", "received", "bytes_received")))
    )
    replies = round_trips.groupBy("run").agg(fn.sum("arrived").alias("arrived"))
    is_request_reply = fn.col("pattern") == "request-reply"
    sends, receives = fn.col("load") != "receive", fn.col("load") != "send"
    one_way = fn.when(receives, fn.col("received")).otherwise(fn.col("sent"))
    work = fn.when(is_request_reply, fn.col("round_trips")).otherwise(one_way)
    return (
        points.join(fn.broadcast(windows), "run")
        .where(fn.col("measure_end") > fn.col("measure_start"))
        .join(fn.broadcast(counts), "run", "left")
        .join(fn.broadcast(replies), "run", "left")
        .fillna(0, ["sent", "received", "bytes_received", "arrived"])
        .withColumn("seconds", (fn.col("measure_end") - fn.col("measure_start")) / NANOSECONDS)
        .withColumn("sent", fn.when(sends, fn.col("sent")))
        .withColumn("received", fn.when(receives, fn.col("received")))
        .withColumn("bytes_received", fn.when(receives, fn.col("bytes_received")))
        .withColumn("round_trips", fn.when(is_request_reply, fn.col("arrived")))
        .withColumn("bytes_round_trips", fn.col("round_trips") * fn.col("size"))
        .withColumn("work", work)
        .select("run", "seconds", "sent", "received", "bytes_received", "round_trips", "bytes_round_trips", "work")
    )


def rates(totals: DataFrame) -> DataFrame:
    """(run, metric, value): rate.* and bytes.*."""
    metrics = {
        "rate.work": "work",
        "rate.received": "received",
        "rate.sent": "sent",
        "bytes.received": "bytes_received",
        "rate.round_trips": "round_trips",
        "bytes.round_trips": "bytes_round_trips",
    }
    values = {metric: fn.col(column) / fn.col("seconds") for metric, column in metrics.items()}
    return to_metric_rows(totals, values)
