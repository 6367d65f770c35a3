"""Requests and their replies: how many came back within the measure phase, and how long those planned in it took.

A request whose reply never came has no time here, and none is invented: the audit of its two legs finds it lost.
"""

from pyspark.sql import DataFrame
from pyspark.sql import functions as fn

from mqlab.pipeline.event_tables import within_measure
from mqlab.pipeline.kernels.histogram import bucket, exact_total


def round_trips(trips: DataFrame, spans: DataFrame) -> DataFrame:
    """Round trips by run and response `bucket`: small, however many there were.

    `arrived` are those whose reply came in the measure phase. The bucket is null unless the request was planned in it
    and answered: `messages` counts these, `nanoseconds` is the sum of their responses, `longest` the highest.
    """
    counts = fn.col("t_received").isNotNull() & within_measure(fn.col("t_planned"))
    # As with latencies: the planned time counts, and a reply before it is within the error of the clocks.
    duration = fn.when(counts, fn.greatest(fn.col("t_received") - fn.col("t_planned"), fn.lit(0)))
    return (
        trips.join(fn.broadcast(spans), "run", "left")
        .withColumn("duration", duration)
        .withColumn("bucket", bucket(fn.col("duration")))
        .groupBy("run", "bucket")
        .agg(
            fn.sum(within_measure(fn.col("t_received")).cast("long")).alias("arrived"),
            fn.count("duration").alias("messages"),
            exact_total(fn.col("duration"), fn.lit(1)).alias("nanoseconds"),
            fn.max("duration").alias("longest"),
        )
        .select("run", "bucket", "arrived", "messages", "nanoseconds", "longest")
    )
