"""What was sent and received when: counts a second and a run, small however long the run was."""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from mqlab.pipeline.tables import NANOSECONDS, within_measure


def activity(sends: DataFrame, receipts: DataFrame, spans: DataFrame) -> DataFrame:
    """Messages (and bytes received) by `second` since the warm-up began, apart by whether they count as `measured`.

    A send counts when it left and whatever became of it; a receipt counts for every copy.
    """
    nothing = F.lit(0).cast("long")
    sent = sends.select(
        "run", F.col("t_sent").alias("t"), F.col("count").alias("sent"), nothing.alias("received"),
        nothing.alias("bytes_received"),
    )
    received = receipts.select(
        "run", F.col("t_received").alias("t"), nothing.alias("sent"), F.col("count").alias("received"),
        F.col("bytes").alias("bytes_received"),
    )
    second = F.floor((F.col("t") - F.col("begin")) / NANOSECONDS).cast("int")
    return (
        sent.unionByName(received)
        .join(F.broadcast(spans), "run", "left")
        .withColumn("second", second)
        .withColumn("measured", within_measure(F.col("t")))
        .groupBy("run", "second", "measured")
        .agg(*(F.sum(name).alias(name) for name in ("sent", "received", "bytes_received")))
        .select("run", "second", "measured", "sent", "received", "bytes_received")
    )
