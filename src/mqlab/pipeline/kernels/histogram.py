"""Durations as counts in log buckets, so that percentiles of any number of messages come from a few thousand rows."""

import math
from collections.abc import Sequence
from typing import Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as fn

# The upper edge of a bucket is at most this much above anything in it: a reported percentile errs by less than 0.2 %.
GROWTH: Final = 1.0019
_LOG_GROWTH: Final = math.log(GROWTH)


def bucket(nanoseconds: Column) -> Column:
    """The number of the bucket; 0 holds everything up to one nanosecond. Null where there is no duration."""
    # `greatest` passes nulls over: without the condition, no duration would count as one of a nanosecond.
    at_least_one = fn.when(nanoseconds.isNotNull(), fn.greatest(nanoseconds, fn.lit(1)))
    return fn.ceil(fn.log(at_least_one) / _LOG_GROWTH).cast("int")


def upper_edge(number: Column) -> Column:
    """In nanoseconds."""
    return fn.pow(fn.lit(GROWTH), number)


def exact_total(nanoseconds: Column, count: Column) -> Column:
    """The sum of durations, each counted `count` times: in whole numbers, so that no order of the rows changes it.

    Summed in two halves of 32 bits, since the whole outgrows 64 and a decimal for every row is slow.
    """
    product = nanoseconds * count
    high = fn.sum(fn.shiftright(product, 32)).cast("decimal(19,0)")
    low = fn.sum(product.bitwiseAND(fn.lit(2**32 - 1))).cast("decimal(19,0)")
    return (high * fn.lit(2**32).cast("decimal(10,0)") + low).cast("decimal(38,0)")


def percentiles(histogram: DataFrame, per_mille: dict[str, int], of: Sequence[str] = ("run",)) -> DataFrame:
    """From (`of`, bucket, messages, longest) to `of` and one column of nanoseconds for each name.

    The smallest bucket up to which at least the wanted share lies; never more than the longest duration.
    """
    upwards = Window.partitionBy(*of).orderBy("bucket")
    of_all = Window.partitionBy(*of)
    ranks = {
        name: fn.min(fn.when(fn.col("up_to_here") * 1000 >= fn.col("all") * share, fn.col("bucket"))).alias(name)
        for name, share in per_mille.items()
    }
    values = {name: fn.least(upper_edge(fn.col(name)), fn.col("longest").cast("double")) for name in per_mille}
    return (
        histogram.groupBy(*of, "bucket")
        .agg(fn.sum("messages").alias("messages"), fn.max("longest").alias("longest"))
        .withColumn("up_to_here", fn.sum("messages").over(upwards))
        .withColumn("all", fn.sum("messages").over(of_all))
        .groupBy(*of)
        .agg(fn.max("longest").alias("longest"), *ranks.values())
        .withColumns(values)
        .select(*of, *per_mille)
    )
