"""Round trips: the replies received within the measure phase, and the response times of requests planned in it.

A request without a reply has no response time; the audit counts it as lost.
"""

from pyspark.sql import DataFrame
from pyspark.sql import functions as fn

from mqlab.pipeline.event_tables import within_measure
from mqlab.pipeline.kernels.histogram import bucket, exact_total


def round_trips(trips: DataFrame, windows: DataFrame) -> DataFrame:
    """Count round trips by run and `bucket` of the response time.

    `arrived` counts replies received in the measure phase. The bucket is null unless the request was planned in it and
    has a reply: `messages` counts these, `nanoseconds` is the sum of their response times, `longest` the highest.
    """
    counts = fn.col("t_received").isNotNull() & within_measure(fn.col("t_planned"))
    # As with latencies: from the planned time; a reply before it is an error of the clocks.
    duration = fn.when(counts, fn.greatest(fn.col("t_received") - fn.col("t_planned"), fn.lit(0)))
    return (
        trips.join(fn.broadcast(windows), "run", "left")
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
