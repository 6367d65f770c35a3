"""How many times as much: the ratio of two points' or two systems' means, with its 95 % interval.

It is a ratio of geometric means, and the interval is taken on the logarithms: so the ratio of A to B is exactly one
over that of B to A, and an interval never reaches below zero.

Where the two were run in turns and both have the same repetitions, each repetition gives one ratio, in which what
the machine did at that time falls out: Student's t of the logarithms of these ratios (`paired`). Otherwise the two
spreads add up as Welch does it, with his degrees of freedom rounded down, which makes the interval a little wider.
"""

from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as fn

from mqlab.pipeline.kernels.intervals import half_width, mean, quantile, square_error

RATIO: Final = ("ratio", "low", "high", "paired", "runs")


def values_of(run_measures: DataFrame) -> DataFrame:
    """The figures of each point, system and metric as `values`, by repetition, where all are above zero."""
    in_order = fn.array_sort(fn.collect_list(fn.struct("repetition", "run", "value")))
    return (
        run_measures.groupBy("scenario", "point", "system", "metric")
        .agg(in_order.alias("values"))
        .where(fn.forall("values", lambda run: run["value"] > 0))
        .select("scenario", "point", "system", "metric", "values")
    )


def with_ratio(pairs: DataFrame, in_turns: Column) -> DataFrame:
    """`pairs` with RATIO: of its columns `first` and `second`, each as in `values_of`.

    `low` and `high` are null where one of them has a single run, unless they are paired. `runs`: the fewer of both.
    """
    same = fn.transform("first", lambda run: run["repetition"]) == fn.transform("second", lambda run: run["repetition"])
    half = fn.when(fn.col("paired"), half_width(fn.col("differences"))).otherwise(_welch())
    return (
        pairs.withColumn("paired", in_turns & same)
        .withColumn("logs_first", fn.transform("first", lambda run: fn.log(run["value"])))
        .withColumn("logs_second", fn.transform("second", lambda run: fn.log(run["value"])))
        .withColumn("differences", fn.zip_with("logs_first", "logs_second", lambda first, second: first - second))
        .withColumn("log_ratio", mean(fn.col("logs_first")) - mean(fn.col("logs_second")))
        .withColumn("half", half)
        .withColumn("ratio", fn.exp("log_ratio"))
        .withColumn("low", fn.exp(fn.col("log_ratio") - fn.col("half")))
        .withColumn("high", fn.exp(fn.col("log_ratio") + fn.col("half")))
        .withColumn("runs", fn.least(fn.size("first"), fn.size("second")))
        .select(*pairs.columns, *RATIO)
    )


def wider_half(value: Column, low: Column, high: Column) -> Column:
    """For readers of one number: `value` give or take it holds the interval."""
    return fn.when(low.isNotNull(), fn.greatest(high - value, value - low))


def _welch() -> Column:
    """Half of the interval of the difference of two means of logarithms; null where one is of a single run."""
    first, second = fn.col("logs_first"), fn.col("logs_second")
    several = (fn.size(first) > 1) & (fn.size(second) > 1)
    error_first, error_second = square_error(first), square_error(second)
    both = error_first + error_second
    share = error_first / both
    spread = fn.pow(share, 2) / (fn.size(first) - 1) + fn.pow(1 - share, 2) / (fn.size(second) - 1)
    return fn.when(several & (both > 0), quantile(fn.floor(1 / spread)) * fn.sqrt(both)).when(several, 0.0)
