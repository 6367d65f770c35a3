"""Operations of applications, as the system traced them: counts, rates, durations and failures."""

from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as fn

from mqlab.pipeline.kernels.count_keys import NANOSECONDS, OPERATION_BUCKETS, SUCCESS_CODES
from mqlab.pipeline.kernels.histogram import coarse_bucket, exact_total, percentiles
from mqlab.pipeline.schema import OperationSummaryRow, columns

_POINT: Final = ("scenario", "point", "system")
_OPERATION: Final = ("application", "operation")
_PER_MILLE: Final = {"p50": 500, "p90": 900, "p99": 990}


def operation_counts(operations: DataFrame) -> DataFrame:
    """Count operations by run, kind of application and duration `bucket`.

    Applications whose names differ only in their last number are of one kind.
    """
    kind = fn.regexp_replace("application", r"\d+$", "")
    failed = ~fn.coalesce(fn.col("code"), fn.lit("")).isin(*SUCCESS_CODES)
    duration = fn.greatest(fn.col("duration"), fn.lit(0))
    return (
        operations.withColumn("application", kind)
        .withColumn("duration", duration)
        .withColumn("bucket", coarse_bucket(fn.col("duration"), OPERATION_BUCKETS))
        .groupBy("run", *_OPERATION, "bucket")
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
    )


def operations(counts: DataFrame, used: DataFrame) -> DataFrame:
    """Summarize operations over the valid runs of a point on a system.

    Their times are of the system's own clock, which the phases cannot be compared with: the length of a run is the
    time from its first traced operation to its last, and `rate` is over all runs together.
    """
    of_runs = counts.join(fn.broadcast(used), "run")
    key = (*_POINT, *_OPERATION)
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
    shares = percentiles(of_runs.withColumn("messages", fn.col("count")), _PER_MILLE, key)
    rate = fn.when(fn.col("length") > 0, fn.col("count") / (fn.col("length") / NANOSECONDS))
    return (
        totals.join(fn.broadcast(lengths), list(_POINT))
        .join(fn.broadcast(shares), list(key))
        .withColumn("rate", rate)
        .withColumns({name: fn.col(name) / NANOSECONDS for name in _PER_MILLE})
        .select(*columns(OperationSummaryRow))
    )
