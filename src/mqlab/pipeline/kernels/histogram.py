"""Histograms of durations with logarithmic buckets: percentiles of any number of messages from few rows."""

import math
from collections.abc import Mapping, Sequence
from itertools import accumulate
from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as fn

# The ratio of two neighbouring bucket edges: the error of a reported percentile is below 0.2 %.
GROWTH: Final = 1.0019
LOG_GROWTH: Final = math.log(GROWTH)


def bucket(nanoseconds: Column) -> Column:
    """The number of the bucket; 0 holds everything up to one nanosecond. A missing duration gives null."""
    # `greatest` ignores nulls: without the condition, a missing duration would count as one nanosecond.
    at_least_one = fn.when(nanoseconds.isNotNull(), fn.greatest(nanoseconds, fn.lit(1)))
    return fn.ceil(fn.log(at_least_one) / LOG_GROWTH).cast("int")


def coarse_bucket(nanoseconds: Column, many: int) -> Column:
    """The highest of `many` buckets that are one: a multiple of `many`."""
    return (fn.ceil(bucket(nanoseconds) / many) * many).cast("int")


def upper_edge(bucket: str) -> str:
    return f"pow({GROWTH!r}D, {bucket})"


def exact_total(nanoseconds: Column, count: Column) -> Column:
    """The sum of durations, each counted `count` times, in integers: the order of the rows does not change it.

    The halves of 32 bits are summed apart: the sum exceeds 64 bits, and a decimal for every row is slow.
    """
    product = nanoseconds * count
    high = fn.sum(fn.shiftright(product, 32)).cast("decimal(19,0)")
    low = fn.sum(product.bitwiseAND(fn.lit(2**32 - 1))).cast("decimal(19,0)")
    return (high * fn.lit(2**32).cast("decimal(10,0)") + low).cast("decimal(38,0)")


def percentiles(histogram: DataFrame, per_mille: dict[str, int], keys: Sequence[str] = ("run",)) -> DataFrame:
    """From (`keys`, bucket, messages, longest) to `keys` and one column of nanoseconds for each name.

    A percentile is the upper edge of the first bucket that reaches the share; never above the longest duration.
    """
    of_keys = f"PARTITION BY {', '.join(keys)}"
    ranks = (
        f"min(CASE WHEN cumulated * 1000 >= total * {share} THEN bucket END) AS {name}"
        for name, share in per_mille.items()
    )
    values = (f"least({upper_edge(name)}, CAST(longest AS DOUBLE)) AS {name}" for name in per_mille)
    return (
        histogram.groupBy(*keys, "bucket")
        .agg(fn.sum("messages").alias("messages"), fn.max("longest").alias("longest"))
        .selectExpr(
            "*",
            f"sum(messages) OVER ({of_keys} ORDER BY bucket) AS cumulated",
            f"sum(messages) OVER ({of_keys}) AS total",
        )
        .groupBy(*keys)
        .agg(fn.max("longest").alias("longest"), *map(fn.expr, ranks))
        .selectExpr(*keys, *values)
    )


def percentile_s(messages: Mapping[int, int], per_mille: int, longest_ns: float = math.inf) -> float | None:
    """The same in seconds, of a histogram in memory: messages by bucket. None if it is empty."""
    buckets = sorted(messages)
    reached = zip(buckets, accumulate(messages[bucket] for bucket in buckets), strict=True)
    total = sum(messages.values())
    bucket = next((bucket for bucket, cumulated in reached if cumulated * 1000 >= total * per_mille), None)
    return None if bucket is None else min(GROWTH**bucket, longest_ns) / 1e9
