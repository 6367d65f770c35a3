"""Rates: totals over all roles in the measure phase, divided by its length."""

from pyspark.sql import DataFrame
from pyspark.sql import functions as fn

from mqlab.pipeline.kernels.count_keys import NANOSECONDS
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
    asks, sends, receives = "pattern = 'request-reply'", "load != 'receive'", "load != 'send'"
    return (
        points.join(fn.broadcast(windows), "run")
        .where("measure_end > measure_start")
        .join(fn.broadcast(counts), "run", "left")
        .join(fn.broadcast(replies), "run", "left")
        .fillna(0, ["sent", "received", "bytes_received", "arrived"])
        .selectExpr(
            "run",
            f"nullif(measured_ns, 0) / {NANOSECONDS} AS seconds",
            f"CASE WHEN {sends} THEN sent END AS sent",
            f"CASE WHEN {receives} THEN received END AS received",
            f"CASE WHEN {receives} THEN bytes_received END AS bytes_received",
            f"CASE WHEN {asks} THEN arrived END AS round_trips",
            f"CASE WHEN {asks} THEN arrived * size END AS bytes_round_trips",
            f"CASE WHEN {asks} THEN arrived WHEN {receives} THEN received ELSE sent END AS work",
        )
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
    return to_metric_rows(totals, {metric: f"{column} / seconds" for metric, column in metrics.items()})
