"""The delivery audit: the number of messages in each delivery class, and whether the run is valid."""

from typing import Final

from pyspark.sql import DataFrame
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

# Messages out of order are no fault where the study asks for another order than that of the sends.
_FAULT_COUNTS: Final = {name: name for name in schema.FAULTS} | {"out_of_order": "if(ordered, out_of_order, 0)"}

# Of a run with sent messages: the number of deliveries of each.
COPIES: Final = "coalesce(delivered, 0) / sent"


def audits(runs: DataFrame, roles: DataFrame, clocks: DataFrame, facts: DataFrame) -> DataFrame:
    """One row for each run, with or without events."""
    counts = [f"measured_{name}" for name in _COUNT_LABELS]
    recorded = (
        runs.join(fn.broadcast(facts.drop("scenario", "point", "system", "parameters")), "run")
        .join(fn.broadcast(_agents_without_clock(roles, clocks)), "run", "left")
        .fillna(0, ["sent", *counts, *schema.DELIVERY_CLASSES])
    )
    status = (
        f"CASE WHEN {_why_damaged()} IS NOT NULL THEN '{schema.VOID}' "
        f"WHEN {_why_incomplete()} IS NOT NULL THEN '{schema.INCOMPLETE}' "
        f"WHEN {_why_void()} IS NOT NULL THEN '{schema.VOID}' "
        f"WHEN {_why_failed()} IS NOT NULL THEN '{schema.FAILED}' ELSE '{schema.CLEAN}' END"
    )
    made = {
        "expected": "delivered + lost",
        "status": status,
        "reason": f"coalesce({_why_damaged()}, {_why_incomplete()}, {_why_void()}, {_why_failed()}, '')",
    }
    return recorded.selectExpr(
        *(f"{made[name]} AS {name}" if name in made else name for name in schema.columns(schema.AuditRow))
    )


def copies_per_message(facts: DataFrame) -> DataFrame:
    """(run, metric, value): the number of deliveries of each message."""
    return to_metric_rows(facts.where("sent > 0"), {"copies": COPIES})


def _agents_without_clock(roles: DataFrame, clocks: DataFrame) -> DataFrame:
    """The agents of a run whose clock offset is unknown: their times cannot be compared with those of others."""
    agents = roles.select("run", "agent").distinct()
    silent = agents.join(fn.broadcast(clocks.select("run", "agent")), ["run", "agent"], "left_anti")
    return silent.groupBy("run").agg(fn.array_sort(fn.collect_list("agent")).alias("unclocked"))


def _why_damaged() -> str:
    return f"CASE WHEN status = '{DAMAGED}' THEN reason END"


def _why_incomplete() -> str:
    return (
        f"CASE WHEN status != '{COMPLETE}' "
        "THEN CASE WHEN reason != '' THEN reason ELSE 'the run did not come to its end' END "
        "WHEN unclocked IS NOT NULL "
        "THEN concat('no clock offset from agent ', array_join(CAST(unclocked AS ARRAY<STRING>), ', ')) "
        "WHEN coalesce(measure_end <= measure_start, true) THEN 'no measure phase was recorded' END"
    )


def _why_void() -> str:
    """The record contradicts itself, a message is not the one that was sent, or the measure phase has none."""
    reasons = [
        *(_disagreement(name) for name in _COUNT_LABELS),
        *(_if_any(count, *sentence) for count, sentence in _CONTRADICTIONS.items()),
        "CASE WHEN load = 'send' AND measured_sent = 0 THEN 'no message was sent in the measure phase' "
        "WHEN NOT load = 'send' AND measured_received = 0 THEN 'no message was received in the measure phase' END",
    ]
    return f"coalesce({', '.join(reasons)})"


def _if_any(count: str, of_one: str, of_several: str) -> str:
    sentence = f"CASE WHEN {count} = 1 THEN '{of_one}' ELSE '{of_several}' END"
    return f"CASE WHEN {count} > 0 THEN concat_ws(' ', format_number({count}, 0), {sentence}) END"


def _disagreement(name: str) -> str:
    counted, recorded = f"counted_{name}", f"measured_{name}"
    reason = (
        f"concat('the agents counted ', format_number({counted}, 0), "
        f"' {_COUNT_LABELS[name]} in the measure phase, the events show ', format_number({recorded}, 0))"
    )
    return f"CASE WHEN {counted} != {recorded} THEN {reason} END"


def _why_failed() -> str:
    faults = (
        f"CASE WHEN {count} > 0 THEN concat(format_number({count}, 0), ' {_FAULT_LABELS[name]}') END"
        for name, count in _FAULT_COUNTS.items()
    )
    return f"CASE WHEN {' + '.join(_FAULT_COUNTS.values())} > 0 THEN concat_ws(', ', {', '.join(faults)}) END"
