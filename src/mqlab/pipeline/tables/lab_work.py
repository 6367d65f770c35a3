"""The lab's own work in the agents, from the calls and messages of the events and the calibrations of the lab."""

from typing import Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as fn

from mqlab.json_values import JsonObject

_KEY: Final = {"pattern": "string", "send": "string", "transacted": "boolean", "size": "bigint"}
_COSTS: Final = ("sent_call", "sent_message", "received_call", "received_message")


def calibrations(spark: SparkSession, meta: JsonObject) -> DataFrame:
    """One row for each pattern, way of sending and size: CPU seconds of the lab for a call and for each message."""
    names = (*_KEY, *_COSTS)
    rows = [tuple(row[name] for name in names) for row in meta.get("calibrations") or () if "sent_call" in row]
    types = {**_KEY, **dict.fromkeys(_COSTS, "double")}
    return spark.createDataFrame(rows, ", ".join(f"{name} {kind}" for name, kind in types.items()))


def lab_work(activity: DataFrame, totals: DataFrame, points: DataFrame, calibrations: DataFrame) -> DataFrame:
    """(run, agent, cpu, wait), in percent over the measure phase.

    `cpu` is of one core. `wait` is of the time of one role: where each role waits for the system before its next
    message, the lab's work for the message adds to the time that the message takes. Null where no role waits.
    """
    moved = ("sent", "received", "sends", "receipts")
    by_agent = activity.where(fn.col("measured")).groupBy("run", "agent")
    asks, is_transacted = fn.col("pattern") == "request-reply", fn.coalesce("transaction", fn.lit(0)) > 0
    # A row is a whole transaction, with a call for each of its batches.
    calls = fn.when(is_transacted, fn.greatest("sends", fn.col("sent") / fn.col("batch"))).otherwise(fn.col("sends"))
    # Requesters and responders each send once in a round trip, and do about the same work.
    round_trips = fn.col("sent") * fn.greatest("sent_call", "received_call")
    one_way = calls * fn.col("sent_call") + fn.col("sent") * fn.col("sent_message")
    sending = fn.when(asks, round_trips).otherwise(one_way)
    receiving = fn.col("receipts") * fn.col("received_call") + fn.col("received") * fn.col("received_message")
    all_work = sending + fn.when(asks, 0.0).otherwise(receiving)
    waits = fn.col("rate").isNull() & (asks | is_transacted | (fn.col("send") == "confirmed"))
    waiting_roles = fn.when(asks, fn.col("requesters")).otherwise(fn.col("producers"))
    return (
        by_agent.agg(*(fn.sum(name).alias(name) for name in moved))
        .join(fn.broadcast(points.withColumn("transacted", is_transacted)), "run")
        .join(fn.broadcast(calibrations), list(_KEY))
        .join(fn.broadcast(totals.select("run", "seconds")), "run")
        .withColumn("cpu", 100 * all_work / fn.col("seconds"))
        .withColumn("wait", fn.when(waits, 100 * fn.try_divide(sending / fn.col("seconds"), waiting_roles)))
        .select("run", "agent", "cpu", "wait")
    )
