"""Rates: totals over all roles in the measure phase, divided by its length."""

from pyspark.sql import DataFrame

from mqlab.pipeline.metrics import to_metric_rows


def totals(facts: DataFrame) -> DataFrame:
    """One row for each run with a measure phase: its `seconds` and counts; null where its point has no such count.

    `work` is what the point is about: round trips; with `load: send` messages sent; otherwise messages received.
    """
    sent, received, arrived, of_bodies = (
        f"coalesce(measured_{name}, 0)" for name in ("sent", "received", "round_trips", "bytes_received")
    )
    asks, sends, receives = "pattern = 'request-reply'", "load != 'receive'", "load != 'send'"
    return facts.where("measure_end > measure_start").selectExpr(
        "run",
        "seconds",
        f"CASE WHEN {sends} THEN {sent} END AS sent",
        f"CASE WHEN {receives} THEN {received} END AS received",
        f"CASE WHEN {receives} THEN {of_bodies} END AS bytes_received",
        f"CASE WHEN {asks} THEN {arrived} END AS round_trips",
        f"CASE WHEN {asks} THEN {arrived} * size END AS bytes_round_trips",
        f"CASE WHEN {asks} THEN {arrived} WHEN {receives} THEN {received} ELSE {sent} END AS work",
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
