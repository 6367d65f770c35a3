"""The delivery audit: how many messages are in each class, and whether the run may give any figure."""

from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from mqlab.events.schema import COMPLETE
from mqlab.pipeline.fates import CLASSES

CLEAN: Final = "clean"
FAILED: Final = "failed"  # a message was lost, duplicated without its mark, out of order or unexpected
VOID: Final = "void"  # the events cannot be trusted: they differ from what the agents counted
INCOMPLETE: Final = "incomplete"  # the run, or an agent of it, did not come to its end

# What a system must never do, in words. Marked duplicates and recovered messages are its right.
_FAULTS: Final = {
    "lost": "lost",
    "duplicated": "duplicated without the redelivered mark",
    "out_of_order": "out of order",
    "unexpected": "unexpected",
}
_COUNTS: Final = ("measured_sent", "measured_received")


def audits(
    runs: DataFrame, roles: DataFrame, clocks: DataFrame, spans: DataFrame, fates: DataFrame, activity: DataFrame
) -> DataFrame:
    """One row a run, whether or not it has any events."""
    of_class = fates.groupBy("run").agg(*(F.sum(name).alias(name) for name in CLASSES))
    facts = (
        runs.join(F.broadcast(of_class), "run", "left")
        .join(F.broadcast(_counts(activity)), "run", "left")
        .join(F.broadcast(_cut_off(roles, clocks)), "run", "left")
        .join(F.broadcast(spans), "run", "left")
        .fillna(0, ["sent", *_COUNTS, *CLASSES])
    )
    first_reason = F.coalesce(_why_incomplete(), _why_void(), _why_failed(), F.lit(""))
    return (
        facts.withColumn("expected", F.col("delivered") + F.col("lost"))
        .withColumns({"status": _status(), "reason": first_reason})  # at once: both are made of what was there
        .select(
            "run", "scenario", "point", "system", "repetition", "sent", "expected", *CLASSES, "status", "reason"
        )
    )


def valid(audits: DataFrame) -> DataFrame:
    """The runs that give figures, with what names them."""
    return audits.where(F.col("status") == CLEAN).select("run", "scenario", "point", "system", "repetition")


def _counts(activity: DataFrame) -> DataFrame:
    def measured(name: str) -> Column:
        return F.sum(F.when(F.col("measured"), F.col(name)).otherwise(0))

    return activity.groupBy("run").agg(
        F.sum("sent").alias("sent"),
        measured("sent").alias("measured_sent"),
        measured("received").alias("measured_received"),
    )


def _cut_off(roles: DataFrame, clocks: DataFrame) -> DataFrame:
    """The agents of a run that never sent their clock offset, which is the last thing an agent does."""
    agents = roles.select("run", "agent").distinct()
    silent = agents.join(F.broadcast(clocks.select("run", "agent")), ["run", "agent"], "left_anti")
    return silent.groupBy("run").agg(F.array_sort(F.collect_list("agent")).alias("cut_off"))


def _status() -> Column:
    return (
        F.when(_why_incomplete().isNotNull(), INCOMPLETE)
        .when(_why_void().isNotNull(), VOID)
        .when(_why_failed().isNotNull(), FAILED)
        .otherwise(CLEAN)
    )


def _why_incomplete() -> Column:
    said = F.when(F.col("reason") != "", F.col("reason")).otherwise("the run did not come to its end")
    names = F.array_join(F.col("cut_off").cast("array<string>"), ", ")
    no_measure = F.coalesce(F.col("measure_end") <= F.col("measure_start"), F.lit(True))
    return (
        F.when(F.col("status") != COMPLETE, said)
        .when(F.col("cut_off").isNotNull(), F.concat(F.lit("no clock offset from agent "), names))
        .when(no_measure, "no measure phase was recorded")
    )


def _why_void() -> Column:
    """A measure phase in which nothing arrived proves nothing: that it is clean must not be read from silence."""
    nothing = F.col("measured_received") == 0
    return F.coalesce(
        _disagreement("sent"),
        _disagreement("received"),
        F.when(nothing, "no message was received in the measure phase"),
    )


def _disagreement(verb: str) -> Column:
    counted, found = F.col(f"counted_{verb}"), F.col(f"measured_{verb}")
    words = F.concat(
        F.lit("the agents counted "), F.format_number(counted, 0), F.lit(f" messages {verb} in the measure phase, "),
        F.lit("the events show "), F.format_number(found, 0),
    )
    return F.when(counted != found, words)


def _why_failed() -> Column:
    faults = [
        F.when(F.col(name) > 0, F.concat(F.format_number(F.col(name), 0), F.lit(f" {words}")))
        for name, words in _FAULTS.items()
    ]
    any_fault = sum((F.col(name) for name in _FAULTS), F.lit(0)) > 0
    return F.when(any_fault, F.concat_ws(", ", *faults))
