"""Means of the values of runs with their 95 % intervals, and the ratio of two points' or two systems' means.

Values are arrays in the order of the runs, since the last digit of a floating-point sum depends on the order.

A ratio is one of geometric means, and its interval is computed on the logarithms: the ratio of A to B is exactly one
over that of B to A, and no interval reaches below zero.

Where the runs of the two were interleaved, each repetition that both have gives one ratio, which cancels what the
machine did at that time: the interval is Student's t of the logarithms of these ratios (`paired`). With fewer than two
of them it is Welch's interval, with the degrees of freedom rounded down, which makes it a little wider.

`looks`: how often the lab looked at the runs, to decide whether it needs more (study/statistics.py).
"""

from collections.abc import Sequence
from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as fn

from mqlab.pipeline.kernels.shared_noise import double_array, moderate
from mqlab.study.statistics import look_quantile

# Beyond this number of degrees of freedom Student's t hardly falls; the last quantile serves, a little too wide.
_QUANTILES: Final = 100
RATIO: Final = ("ratio", "low", "high", "paired", "runs", "degrees_of_freedom")


def mean(values: Column) -> Column:
    return _sum(values) / fn.size(values)


def half_width(looks: int) -> Column:
    """Half the width of the interval of a mean, from the columns `variance`, `degrees_of_freedom` and `runs`."""
    return quantile(fn.col("degrees_of_freedom"), looks) * fn.sqrt(fn.col("variance") / fn.col("runs"))


def square_error(values: Column) -> Column:
    """The square of the standard error of the mean, of two values or more."""
    centre = mean(values)
    count = fn.size(values)
    return _sum(fn.transform(values, lambda value: fn.pow(value - centre, 2))) / ((count - 1) * count)


def quantile(degrees_of_freedom: Column, looks: int) -> Column:
    """The quantile of Student's t for a 95 % interval; null below one degree of freedom."""
    quantiles = double_array(look_quantile(degrees, looks) for degrees in range(1, _QUANTILES + 1))
    index = fn.least(degrees_of_freedom, fn.lit(_QUANTILES)).cast("int")
    return fn.when(degrees_of_freedom > 0, fn.element_at(quantiles, index))


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


def add_ratio(
    pairs: DataFrame, interleaved: Column, looks: int, over: Sequence[str], order: Sequence[str]
) -> DataFrame:
    """Add the columns RATIO to `pairs`, from its columns `first` and `second`, which are as in `run_values`.

    `low` and `high` are null where one side has a single run, unless they are paired. `runs` is the lower number. The
    noise of pairs is moderated by that of all pairs with the same columns `over`; `order` sorts these.
    """
    same = _repetitions("first") == _repetitions("second")
    count, differences = fn.col("runs"), fn.col("differences")
    paired_variance = fn.when(fn.col("paired") & (count > 1), square_error(differences) * count)
    noisy = (
        pairs.withColumn("common", fn.array_intersect(_repetitions("first"), _repetitions("second")))
        .withColumn("paired", interleaved & ((fn.size("common") > 1) | same))
        .withColumn("logs_first", _logs("first"))
        .withColumn("logs_second", _logs("second"))
        .withColumn("differences", fn.zip_with("logs_first", "logs_second", lambda first, second: first - second))
        .withColumn("log_ratio", mean(fn.col("logs_first")) - mean(fn.col("logs_second")))
        .withColumn("runs", fn.least(fn.size("logs_first"), fn.size("logs_second")))
        .withColumn("variance", paired_variance)
        .withColumn("degrees_of_freedom", fn.when(fn.col("paired"), count - 1).otherwise(_welch_degrees()))
    )
    half = fn.when(fn.col("paired"), half_width(looks)).otherwise(_welch(looks))
    return (
        moderate(noisy, over, order)
        .withColumn("half", half)
        .withColumn("ratio", fn.exp("log_ratio"))
        .withColumn("low", fn.exp(fn.col("log_ratio") - fn.col("half")))
        .withColumn("high", fn.exp(fn.col("log_ratio") + fn.col("half")))
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


def _welch(looks: int) -> Column:
    """Half the width of the interval of the difference of two means of logarithms; null if one has a single run."""
    both = square_error(fn.col("logs_first")) + square_error(fn.col("logs_second"))
    degrees = fn.col("degrees_of_freedom")
    return fn.when(degrees.isNotNull(), fn.when(both > 0, quantile(degrees, looks) * fn.sqrt(both)).otherwise(0.0))


def _welch_degrees() -> Column:
    """Its degrees of freedom, rounded down; null if one has a single run."""
    first, second = fn.col("logs_first"), fn.col("logs_second")
    both = square_error(first) + square_error(second)
    share = square_error(first) / both
    spread = fn.pow(share, 2) / (fn.size(first) - 1) + fn.pow(1 - share, 2) / (fn.size(second) - 1)
    several = (fn.size(first) > 1) & (fn.size(second) > 1)
    least = fn.least(fn.size(first), fn.size(second)) - 1
    return fn.when(several, fn.when(both > 0, fn.floor(1 / spread)).otherwise(least)).cast("int")
