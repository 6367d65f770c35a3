"""What applications did, as the system traced it: how often, how fast, and how much went wrong."""

from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as fn

from mqlab.pipeline.event_tables import NANOSECONDS
from mqlab.pipeline.kernels.histogram import bucket, exact_total, percentiles
from mqlab.pipeline.schema import OperationRow, columns

_POINT: Final = ("scenario", "point", "system")
_WHAT: Final = ("application", "operation")
_SHARES: Final = {"p50": 500, "p90": 900, "p99": 990}
# What a traced operation that went well has for a code.
_WELL: Final = ("", "0", "ok")


def traced(operations: DataFrame) -> DataFrame:
    """Operations by run, kind of application and duration `bucket`: small, however many were traced.

    Applications whose names differ in their last number only are of one kind: hundreds of requesters do the same.
    """
    kind = fn.regexp_replace("application", r"\d+$", "")
    failed = ~fn.coalesce(fn.col("code"), fn.lit("")).isin(*_WELL)
    duration = fn.greatest(fn.col("duration"), fn.lit(0))
    return (
        operations.withColumn("application", kind)
        .withColumn("duration", duration)
        .withColumn("bucket", bucket(fn.col("duration")))
        .groupBy("run", *_WHAT, "bucket")
        .agg(
            fn.count(fn.lit(1)).alias("count"),
            exact_total(fn.col("duration"), fn.lit(1)).alias("nanoseconds"),
            fn.max("duration").alias("longest"),
            fn.sum("messages").alias("messages"),
            fn.sum("bytes").alias("bytes"),
            fn.sum(failed.cast("long")).alias("failed"),
            fn.min("t").alias("first"),
            fn.max("t").alias("last"),
        )
        .select(
            *("run", *_WHAT, "bucket", "count", "nanoseconds", "longest", "messages", "bytes", "failed"),
            *("first", "last"),
        )
    )


def operations(traced: DataFrame, valid: DataFrame) -> DataFrame:
    """Over the valid runs of a point on a system. Durations are in seconds; `rate` is in operations a second.

    The times are the system's own, which no phase can be laid over: a run's time is that from its first traced
    operation to its last, and the rate that of all runs together.
    """
    of_runs = traced.join(fn.broadcast(valid), "run")
    key = (*_POINT, *_WHAT)
    lengths = (
        of_runs.groupBy("run", *_POINT)
        .agg((fn.max("last") - fn.min("first")).alias("length"))
        .groupBy(*_POINT)
        .agg(fn.sum("length").alias("length"))
    )
    totals = of_runs.groupBy(*key).agg(
        *(fn.sum(name).alias(name) for name in ("count", "messages", "bytes", "failed")),
        (fn.sum("nanoseconds").cast("double") / fn.sum("count") / NANOSECONDS).alias("mean"),
        (fn.max("longest") / NANOSECONDS).alias("max"),
    )
    shares = percentiles(of_runs.withColumn("messages", fn.col("count")), _SHARES, key)
    rate = fn.when(fn.col("length") > 0, fn.col("count") / (fn.col("length") / NANOSECONDS))
    return (
        totals.join(fn.broadcast(lengths), list(_POINT))
        .join(fn.broadcast(shares), list(key))
        .withColumn("rate", rate)
        .withColumns({name: fn.col(name) / NANOSECONDS for name in _SHARES})
        .select(*columns(OperationRow))
    )
