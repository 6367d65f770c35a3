"""How messages travelled, as the agents and drivers counted it: records in a message, messages in a frame, waits."""

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as fn

from mqlab.pipeline.metrics import to_metric_rows


def travel(roles: DataFrame) -> DataFrame:
    """(run, metric, value): message.records, frame.messages and message.waits of each run that recorded them."""

    def total(name: str) -> Column:
        return fn.sum(fn.col(f"sent_{name}") + fn.col(f"received_{name}"))

    # Null if a driver does not tell its frames.
    frames = fn.when(fn.count("sent_frames") == fn.count("sent_messages"), fn.sum("sent_frames")) + fn.when(
        fn.count("received_frames") == fn.count("received_messages"), fn.sum("received_frames")
    )
    totals = roles.groupBy("run").agg(
        total("records").alias("records"),
        total("messages").alias("messages"),
        frames.alias("frames"),
        fn.sum("sent_messages").alias("sent"),
        fn.sum("waits").alias("waits"),
    )
    return to_metric_rows(
        totals,
        {
            "message.records": "try_divide(records, messages)",
            "frame.messages": "try_divide(messages, frames)",
            "message.waits": "try_divide(waits, sent)",
        },
    )
