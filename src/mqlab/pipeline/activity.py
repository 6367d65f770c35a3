"""What was sent and received when: counts a second and a run, small however long the run was."""

from pyspark.sql import DataFrame
from pyspark.sql import functions as fn

from mqlab.pipeline.tables import NANOSECONDS, within_measure


def activity(sends: DataFrame, receipts: DataFrame, spans: DataFrame) -> DataFrame:
    """Messages (and bytes received) by `second` since the warm-up began, apart by whether they count as `measured`.

    A send counts when it left and whatever became of it; a receipt counts for every copy.
    """
    nothing = fn.lit(0).cast("long")
    sent = sends.select(
        "run",
        fn.col("t_sent").alias("t"),
        fn.col("count").alias("sent"),
        nothing.alias("received"),
        nothing.alias("bytes_received"),
    )
    received = receipts.select(
        "run",
        fn.col("t_received").alias("t"),
        nothing.alias("sent"),
        fn.col("count").alias("received"),
        fn.col("bytes").alias("bytes_received"),
    )
    second = fn.floor((fn.col("t") - fn.col("begin")) / NANOSECONDS).cast("int")
    return (
        sent.unionByName(received)
        .join(fn.broadcast(spans), "run", "left")
        .withColumn("second", second)
        .withColumn("measured", within_measure(fn.col("t")))
        .groupBy("run", "second", "measured")
        .agg(*(fn.sum(name).alias(name) for name in ("sent", "received", "bytes_received")))
        .select("run", "second", "measured", "sent", "received", "bytes_received")
    )
