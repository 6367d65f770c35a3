"""Means of the values of runs with their 95 % intervals, and the ratio of two points' or two systems' means.

Values are arrays in the order of the runs, since the last digit of a floating-point sum depends on the order.

A ratio is one of geometric means, and its interval is computed on the logarithms: the ratio of A to B is exactly one
over that of B to A, and no interval reaches below zero.

Where the runs of the two were interleaved, each repetition that both have gives one ratio, which cancels what the
machine did at that time: the interval is Student's t of the logarithms of these ratios (`paired`). With fewer than two
of them it is Welch's interval, with the degrees of freedom rounded down, which makes it a little wider.
"""

from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as fn

from mqlab.study.statistics import t975

# Beyond this number of degrees of freedom Student's t hardly falls; the last quantile serves, a little too wide.
_QUANTILES: Final = 100
RATIO: Final = ("ratio", "low", "high", "paired", "runs")


def mean(values: Column) -> Column:
    return _sum(values) / fn.size(values)


def half_width(values: Column) -> Column:
    """Half the width of the interval of the mean; null for a single value."""
    count = fn.size(values)
    return fn.when(count > 1, quantile(count - 1) * fn.sqrt(square_error(values)))


def square_error(values: Column) -> Column:
    """The square of the standard error of the mean, of two values or more."""
    centre = mean(values)
    count = fn.size(values)
    return _sum(fn.transform(values, lambda value: fn.pow(value - centre, 2))) / ((count - 1) * count)


def quantile(degrees_of_freedom: Column) -> Column:
    """The 97.5 % quantile of Student's t, for one degree of freedom or more."""
    quantiles = fn.array(*(fn.lit(t975(degrees)) for degrees in range(1, _QUANTILES + 1)))
    return fn.element_at(quantiles, fn.least(degrees_of_freedom, fn.lit(_QUANTILES)).cast("int"))


def _sum(values: Column) -> Column:
    return fn.aggregate(values, fn.lit(0.0), lambda total, value: total + value)


def run_values(run_measures: DataFrame) -> DataFrame:
    """The values of each point, system and metric as an array `values` by repetition, where all are above zero."""
    in_order = fn.array_sort(fn.collect_list(fn.struct("repetition", "run", "value")))
    return (
        run_measures.groupBy("scenario", "point", "system", "metric")
        .agg(in_order.alias("values"))
        .where(fn.forall("values", lambda run: run["value"] > 0))
    )


def add_ratio(pairs: DataFrame, interleaved: Column) -> DataFrame:
    """Add the columns RATIO to `pairs`, from its columns `first` and `second`, which are as in `run_values`.

    `low` and `high` are null where one side has a single run, unless they are paired. `runs` is the lower number.
    """
    same = _repetitions("first") == _repetitions("second")
    half = fn.when(fn.col("paired"), half_width(fn.col("differences"))).otherwise(_welch())
    return (
        pairs.withColumn("common", fn.array_intersect(_repetitions("first"), _repetitions("second")))
        .withColumn("paired", interleaved & ((fn.size("common") > 1) | same))
        .withColumn("logs_first", _logs("first"))
        .withColumn("logs_second", _logs("second"))
        .withColumn("differences", fn.zip_with("logs_first", "logs_second", lambda first, second: first - second))
        .withColumn("log_ratio", mean(fn.col("logs_first")) - mean(fn.col("logs_second")))
        .withColumn("half", half)
        .withColumn("ratio", fn.exp("log_ratio"))
        .withColumn("low", fn.exp(fn.col("log_ratio") - fn.col("half")))
        .withColumn("high", fn.exp(fn.col("log_ratio") + fn.col("half")))
        .withColumn("runs", fn.least(fn.size("logs_first"), fn.size("logs_second")))
        .select(*pairs.columns, *RATIO)
    )


def _repetitions(side: str) -> Column:
    return fn.transform(side, lambda run: run["repetition"])


def _logs(side: str) -> Column:
    """The logarithms of the values; of pairs, those of the common repetitions."""
    chosen = fn.filter(side, lambda run: ~fn.col("paired") | fn.array_contains("common", run["repetition"]))
    return fn.transform(chosen, lambda run: fn.log(run["value"]))


def wider_half_width(value: Column, low: Column, high: Column) -> Column:
    """The wider half of an interval: `value` plus or minus it covers the interval."""
    return fn.when(low.isNotNull(), fn.greatest(high - value, value - low))


def _welch() -> Column:
    """Half the width of the interval of the difference of two means of logarithms; null if one has a single run."""
    first, second = fn.col("logs_first"), fn.col("logs_second")
    several = (fn.size(first) > 1) & (fn.size(second) > 1)
    error_first, error_second = square_error(first), square_error(second)
    both = error_first + error_second
    share = error_first / both
    spread = fn.pow(share, 2) / (fn.size(first) - 1) + fn.pow(1 - share, 2) / (fn.size(second) - 1)
    return fn.when(several & (both > 0), quantile(fn.floor(1 / spread)) * fn.sqrt(both)).when(several, 0.0)
