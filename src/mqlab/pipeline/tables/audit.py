"""The delivery audit: how many messages are in each class, and whether the run may give any figure."""

from dataclasses import dataclass
from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as fn

from mqlab.events.schema import COMPLETE, DAMAGED
from mqlab.pipeline.metrics import as_metrics
from mqlab.pipeline.schema import CLEAN, DELIVERY_CLASSES, FAILED, FAULTS, INCOMPLETE, VOID, AuditRow, RunRow, columns

_FAULT_LABELS: Final = {
    "lost": "lost",
    "duplicated": "duplicated without the redelivered mark",
    "out_of_order": "out of order",
    "unexpected": "unexpected",
}
# What the agents count as well, in words.
_COUNTED: Final = {"sent": "messages sent", "received": "messages received", "round_trips": "round trips"}


@dataclass(frozen=True)
class Found:
    """What the other tables say of the runs."""

    points: DataFrame
    spans: DataFrame
    fates: DataFrame
    activity: DataFrame
    round_trips: DataFrame


def audits(runs: DataFrame, roles: DataFrame, clocks: DataFrame, found: Found) -> DataFrame:
    """One row a run, whether or not it has any events."""
    of_class = found.fates.groupBy("run").agg(*(fn.sum(name).alias(name) for name in DELIVERY_CLASSES))
    answered = found.round_trips.groupBy("run").agg(fn.sum("arrived").alias("measured_round_trips"))
    counts = [f"measured_{name}" for name in _COUNTED]
    facts = (
        runs.join(fn.broadcast(of_class), "run", "left")
        .join(fn.broadcast(_counts(found.activity)), "run", "left")
        .join(fn.broadcast(answered), "run", "left")
        .join(fn.broadcast(_cut_off(roles, clocks)), "run", "left")
        .join(fn.broadcast(found.spans), "run", "left")
        .join(fn.broadcast(found.points.select("run", "load")), "run", "left")
        .fillna(0, ["sent", *counts, *DELIVERY_CLASSES])
    )
    first_reason = fn.coalesce(_why_damaged(), _why_incomplete(), _why_void(), _why_failed(), fn.lit(""))
    return (
        facts.withColumn("expected", fn.col("delivered") + fn.col("lost"))
        .withColumns({"status": _status(), "reason": first_reason})  # at once: both are made of what was there
        .select(*columns(AuditRow))
    )


def valid(audits: DataFrame) -> DataFrame:
    """The runs that give figures, with what names them."""
    return audits.where(fn.col("status") == CLEAN).select(*columns(RunRow))


def copies(audits: DataFrame) -> DataFrame:
    """(run, metric, value): how often each message was delivered; to how many, that is, where none comes twice."""
    sent = audits.where(fn.col("sent") > 0)
    return as_metrics(sent, {"copies": fn.col("delivered") / fn.col("sent")}).select("run", "metric", "value")


def _counts(activity: DataFrame) -> DataFrame:
    def measured(name: str) -> Column:
        return fn.sum(fn.when(fn.col("measured"), fn.col(name)).otherwise(0))

    return activity.groupBy("run").agg(
        fn.sum("sent").alias("sent"),
        measured("sent").alias("measured_sent"),
        measured("received").alias("measured_received"),
    )


def _cut_off(roles: DataFrame, clocks: DataFrame) -> DataFrame:
    """The agents of a run whose clock is not known: their times cannot stand beside those of the others."""
    agents = roles.select("run", "agent").distinct()
    silent = agents.join(fn.broadcast(clocks.select("run", "agent")), ["run", "agent"], "left_anti")
    return silent.groupBy("run").agg(fn.array_sort(fn.collect_list("agent")).alias("cut_off"))


def _status() -> Column:
    return (
        fn.when(_why_damaged().isNotNull(), VOID)
        .when(_why_incomplete().isNotNull(), INCOMPLETE)
        .when(_why_void().isNotNull(), VOID)
        .when(_why_failed().isNotNull(), FAILED)
        .otherwise(CLEAN)
    )


def _why_damaged() -> Column:
    return fn.when(fn.col("status") == DAMAGED, fn.col("reason"))


def _why_incomplete() -> Column:
    said = fn.when(fn.col("reason") != "", fn.col("reason")).otherwise("the run did not come to its end")
    names = fn.array_join(fn.col("cut_off").cast("array<string>"), ", ")
    no_measure = fn.coalesce(fn.col("measure_end") <= fn.col("measure_start"), fn.lit(True))
    return (
        fn.when(fn.col("status") != COMPLETE, said)
        .when(fn.col("cut_off").isNotNull(), fn.concat(fn.lit("no clock offset from agent "), names))
        .when(no_measure, "no measure phase was recorded")
    )


def _why_void() -> Column:
    """A measure phase in which nothing moved proves nothing: that it is clean must not be read from silence."""
    only_sends = fn.col("load") == "send"
    nothing_sent = only_sends & (fn.col("measured_sent") == 0)
    nothing_received = ~only_sends & (fn.col("measured_received") == 0)
    return fn.coalesce(
        *(_disagreement(name) for name in _COUNTED),
        fn.when(nothing_sent, "no message was sent in the measure phase"),
        fn.when(nothing_received, "no message was received in the measure phase"),
    )


def _disagreement(name: str) -> Column:
    counted, found = fn.col(f"counted_{name}"), fn.col(f"measured_{name}")
    words = fn.concat(
        fn.lit("the agents counted "),
        fn.format_number(counted, 0),
        fn.lit(f" {_COUNTED[name]} in the measure phase, the events show "),
        fn.format_number(found, 0),
    )
    return fn.when(counted != found, words)


def _why_failed() -> Column:
    faults = [
        fn.when(fn.col(name) > 0, fn.concat(fn.format_number(fn.col(name), 0), fn.lit(f" {_FAULT_LABELS[name]}")))
        for name in FAULTS
    ]
    any_fault = sum((fn.col(name) for name in FAULTS), fn.lit(0)) > 0
    return fn.when(any_fault, fn.concat_ws(", ", *faults))
