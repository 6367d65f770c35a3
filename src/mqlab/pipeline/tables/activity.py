"""Messages sent and received over time: counts for each run and slot of a fifth of a second."""

from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as fn

from mqlab.pipeline.event_tables import NANOSECONDS, within_measure

# As fine as the samples: charts over time show both.
SLOTS_A_SECOND: Final = 5
SLOT: Final = NANOSECONDS // SLOTS_A_SECOND


def activity(sends: DataFrame, receipts: DataFrame, windows: DataFrame) -> DataFrame:
    """Count messages and bytes by `slot` since the start of the load, and by whether the measure phase has them.

    A send counts at the time of the send, with any outcome; of receipts every copy counts. `largest_batch` is the
    highest number of messages in one row of events.
    """
    zero = fn.lit(0).cast("long")
    sent = sends.select(
        "run",
        fn.col("t_sent").alias("t"),
        "count",
        fn.col("count").alias("sent"),
        zero.alias("received"),
        zero.alias("bytes_received"),
    )
    received = receipts.select(
        "run",
        fn.col("t_received").alias("t"),
        "count",
        zero.alias("sent"),
        fn.col("count").alias("received"),
        fn.col("bytes").alias("bytes_received"),
    )
    slot = fn.floor((fn.col("t") - fn.col("load_start")) / SLOT).cast("int")
    return (
        sent.unionByName(received)
        .join(fn.broadcast(windows), "run", "left")
        .withColumn("slot", slot)
        .withColumn("measured", within_measure(fn.col("t")))
        .groupBy("run", "slot", "measured")
        .agg(
            *(fn.sum(name).alias(name) for name in ("sent", "received", "bytes_received")),
            fn.max("count").alias("largest_batch"),
        )
    )
