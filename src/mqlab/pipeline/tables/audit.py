"""The delivery audit: the number of messages in each delivery class, and whether the run is valid."""

from dataclasses import dataclass
from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as fn

from mqlab.events.schema import COMPLETE, DAMAGED
from mqlab.pipeline import schema
from mqlab.pipeline.metrics import to_metric_rows

_FAULT_LABELS: Final = {
    "lost": "lost",
    "duplicated": "duplicated without the redelivered mark",
    "out_of_order": "out of order",
    "unexpected": "unexpected",
}
# The counts that the agents keep as well.
_COUNT_LABELS: Final = {"sent": "messages sent", "received": "messages received", "round_trips": "round trips"}
# Why a run with such messages is void: behind the number, of one and of several.
_CONTRADICTIONS: Final = {
    "missing": (
        "message in the sequence of its producer was never recorded as sent",
        "messages in the sequences of their producers were never recorded as sent",
    ),
    "early": (
        "message was received before it was sent, beyond the error of the clocks",
        "messages were received before they were sent, beyond the error of the clocks",
    ),
    "damaged": (
        "message arrived with another body than was sent",
        "messages arrived with another body than was sent",
    ),
    "mismatched": ("reply carried the id of another request", "replies carried the id of another request"),
}


@dataclass(frozen=True)
class EventCounts:
    """Tables counted over all events, small beside them; all other tables are made from these."""

    points: DataFrame
    windows: DataFrame
    delivery_classes: DataFrame
    activity: DataFrame
    round_trips: DataFrame
    gaps: DataFrame


def audits(runs: DataFrame, roles: DataFrame, clocks: DataFrame, tables: EventCounts) -> DataFrame:
    """One row for each run, with or without events."""
    of_class = tables.delivery_classes.groupBy("run").agg(
        *(fn.sum(name).alias(name) for name in (*schema.DELIVERY_CLASSES, "early"))
    )
    answered = tables.round_trips.groupBy("run").agg(
        fn.sum("arrived").alias("measured_round_trips"), fn.sum("mismatched").alias("mismatched")
    )
    counts = [f"measured_{name}" for name in _COUNT_LABELS]
    facts = (
        runs.join(fn.broadcast(of_class), "run", "left")
        .join(fn.broadcast(_counts(tables.activity)), "run", "left")
        .join(fn.broadcast(answered), "run", "left")
        .join(fn.broadcast(tables.gaps), "run", "left")
        .join(fn.broadcast(_agents_without_clock(roles, clocks)), "run", "left")
        .join(fn.broadcast(tables.windows), "run", "left")
        .join(fn.broadcast(tables.points.select("run", "load")), "run", "left")
        .fillna(0, ["sent", *counts, *schema.DELIVERY_CLASSES])
    )
    first_reason = fn.coalesce(_why_damaged(), _why_incomplete(), _why_void(), _why_failed(), fn.lit(""))
    return (
        facts.withColumn("expected", fn.col("delivered") + fn.col("lost"))
        .withColumns({"status": _status(), "reason": first_reason})  # one step: both read the old columns
        .select(*schema.columns(schema.AuditRow))
    )


def copies_per_message(audits: DataFrame) -> DataFrame:
    """(run, metric, value): the number of deliveries of each message."""
    sent = audits.where(fn.col("sent") > 0)
    return to_metric_rows(sent, {"copies": fn.col("delivered") / fn.col("sent")})


def _counts(activity: DataFrame) -> DataFrame:
    def measured(name: str) -> Column:
        return fn.sum(fn.when(fn.col("measured"), fn.col(name)).otherwise(0))

    return activity.groupBy("run").agg(
        fn.sum("sent").alias("sent"),
        fn.sum("damaged").alias("damaged"),
        measured("sent").alias("measured_sent"),
        measured("received").alias("measured_received"),
    )


def _agents_without_clock(roles: DataFrame, clocks: DataFrame) -> DataFrame:
    """The agents of a run whose clock offset is unknown: their times cannot be compared with those of others."""
    agents = roles.select("run", "agent").distinct()
    silent = agents.join(fn.broadcast(clocks.select("run", "agent")), ["run", "agent"], "left_anti")
    return silent.groupBy("run").agg(fn.array_sort(fn.collect_list("agent")).alias("unclocked"))


def _status() -> Column:
    return (
        fn.when(_why_damaged().isNotNull(), schema.VOID)
        .when(_why_incomplete().isNotNull(), schema.INCOMPLETE)
        .when(_why_void().isNotNull(), schema.VOID)
        .when(_why_failed().isNotNull(), schema.FAILED)
        .otherwise(schema.CLEAN)
    )


def _why_damaged() -> Column:
    return fn.when(fn.col("status") == DAMAGED, fn.col("reason"))


def _why_incomplete() -> Column:
    recorded = fn.when(fn.col("reason") != "", fn.col("reason")).otherwise("the run did not come to its end")
    names = fn.array_join(fn.col("unclocked").cast("array<string>"), ", ")
    no_measure = fn.coalesce(fn.col("measure_end") <= fn.col("measure_start"), fn.lit(True))
    return (
        fn.when(fn.col("status") != COMPLETE, recorded)
        .when(fn.col("unclocked").isNotNull(), fn.concat(fn.lit("no clock offset from agent "), names))
        .when(no_measure, "no measure phase was recorded")
    )


def _why_void() -> Column:
    """The record contradicts itself, a message is not the one that was sent, or the measure phase has none."""
    only_sends = fn.col("load") == "send"
    nothing_sent = only_sends & (fn.col("measured_sent") == 0)
    nothing_received = ~only_sends & (fn.col("measured_received") == 0)
    return fn.coalesce(
        *(_disagreement(name) for name in _COUNT_LABELS),
        *(_if_any(count, *sentence) for count, sentence in _CONTRADICTIONS.items()),
        fn.when(nothing_sent, "no message was sent in the measure phase"),
        fn.when(nothing_received, "no message was received in the measure phase"),
    )


def _if_any(count: str, of_one: str, of_several: str) -> Column:
    sentence = fn.when(fn.col(count) == 1, of_one).otherwise(of_several)
    return fn.when(fn.col(count) > 0, fn.concat_ws(" ", fn.format_number(fn.col(count), 0), sentence))


def _disagreement(name: str) -> Column:
    counted, recorded = fn.col(f"counted_{name}"), fn.col(f"measured_{name}")
    reason = fn.concat(
        fn.lit("the agents counted "),
        fn.format_number(counted, 0),
        fn.lit(f" {_COUNT_LABELS[name]} in the measure phase, the events show "),
        fn.format_number(recorded, 0),
    )
    return fn.when(counted != recorded, reason)


def _why_failed() -> Column:
    faults = [
        fn.when(fn.col(name) > 0, fn.concat(fn.format_number(fn.col(name), 0), fn.lit(f" {_FAULT_LABELS[name]}")))
        for name in schema.FAULTS
    ]
    any_fault = sum((fn.col(name) for name in schema.FAULTS), fn.lit(0)) > 0
    return fn.when(any_fault, fn.concat_ws(", ", *faults))
