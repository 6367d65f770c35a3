"""The lab's own work in the agents, from the calls and messages of the events and the calibrations of the lab."""

from typing import Final

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as fn

from mqlab.json_values import JsonObject
from mqlab.pipeline.event_tables import local_table

_KEY: Final = {"pattern": pa.string(), "send": pa.string(), "transacted": pa.bool_(), "size": pa.int64()}
_OF_POINT: Final = ("pattern", "send", "size", "batch", "rate", "profile", "requesters", "producers")
_COSTS: Final = ("sent_call", "sent_message", "received_call", "received_message")
_CALIBRATIONS: Final = pa.schema({**_KEY, **dict.fromkeys(_COSTS, pa.float64())})


def calibrations(spark: SparkSession, meta: JsonObject) -> DataFrame:
    """One row for each pattern, way of sending and size: CPU seconds of the lab for a call and for each message."""
    rows = [row for row in meta.get("calibrations") or () if "sent_call" in row]
    return local_table(spark, pa.Table.from_pylist(rows, _CALIBRATIONS))


def lab_work(activity: DataFrame, facts: DataFrame, calibrations: DataFrame) -> DataFrame:
    """(run, agent, cpu, wait), in percent over the measure phase.

    `cpu` is of one core. `wait` is of the time of one role: where each role waits for the system before its next
    message, the lab's work for the message adds to the time that the message takes. Null where no role waits.
    """
    moved = ("sent", "received", "sends", "receipts")
    by_agent = activity.where("measured").groupBy("run", "agent").agg(*(fn.sum(name).alias(name) for name in moved))
    asks = "pattern = 'request-reply'"
    # A row is a whole transaction, with a call for each of its batches.
    calls = "CASE WHEN transacted THEN greatest(sends, sent / batch) ELSE sends END"
    # Requesters and responders each send once in a round trip, and do about the same work.
    round_trips = "sent * greatest(sent_call, received_call)"
    sending = f"(CASE WHEN {asks} THEN {round_trips} ELSE {calls} * sent_call + sent * sent_message END)"
    receiving = "receipts * received_call + received * received_message"
    all_work = f"({sending} + CASE WHEN {asks} THEN 0D ELSE {receiving} END)"
    waits = f"rate IS NULL AND profile = '' AND ({asks} OR transacted OR send = 'confirmed')"
    waiting_roles = f"CASE WHEN {asks} THEN requesters ELSE producers END"
    of_runs = facts.where("measure_end > measure_start").selectExpr(
        "run", *_OF_POINT, "coalesce(transaction, 0) > 0 AS transacted", "seconds"
    )
    return (
        by_agent.join(fn.broadcast(of_runs), "run")
        .join(fn.broadcast(calibrations), list(_KEY))
        .selectExpr(
            "run",
            "agent",
            f"100 * {all_work} / seconds AS cpu",
            f"CASE WHEN {waits} THEN 100 * try_divide({sending} / seconds, {waiting_roles}) END AS wait",
        )
    )
