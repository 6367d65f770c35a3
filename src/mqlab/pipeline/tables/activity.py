"""What was sent and received when: counts a slot and a run, small however many messages a run moved."""

from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as fn

from mqlab.pipeline.event_tables import NANOSECONDS, within_measure

# As fine as the samples: what is drawn over time shows both.
SLOTS_A_SECOND: Final = 5
SLOT: Final = NANOSECONDS // SLOTS_A_SECOND


def activity(sends: DataFrame, receipts: DataFrame, spans: DataFrame) -> DataFrame:
    """Messages (and bytes received) by `slot` since the warm-up began, apart by whether they count as `measured`.

    A send counts when it left and whatever became of it; a receipt counts for every copy. `most_together` is the
    highest number of messages that moved in one piece.
    """
    nothing = fn.lit(0).cast("long")
    sent = sends.select(
        "run",
        fn.col("t_sent").alias("t"),
        "count",
        fn.col("count").alias("sent"),
        nothing.alias("received"),
        nothing.alias("bytes_received"),
    )
    received = receipts.select(
        "run",
        fn.col("t_received").alias("t"),
        "count",
        nothing.alias("sent"),
        fn.col("count").alias("received"),
        fn.col("bytes").alias("bytes_received"),
    )
    slot = fn.floor((fn.col("t") - fn.col("begin")) / SLOT).cast("int")
    return (
        sent.unionByName(received)
        .join(fn.broadcast(spans), "run", "left")
        .withColumn("slot", slot)
        .withColumn("measured", within_measure(fn.col("t")))
        .groupBy("run", "slot", "measured")
        .agg(
            *(fn.sum(name).alias(name) for name in ("sent", "received", "bytes_received")),
            fn.max("count").alias("most_together"),
        )
        .select("run", "slot", "measured", "sent", "received", "bytes_received", "most_together")
    )
