"""The variance of each point, moderated by that of all: study/shared_noise.py in Spark, which says why."""

from collections.abc import Iterable, Sequence

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as fn

from mqlab.study.shared_noise import BIAS, FEWEST_POINTS, MOST_SHARED, SPREAD


def moderate(table: DataFrame, over: Sequence[str], order: Sequence[str]) -> DataFrame:
    """Replace the columns `variance` and `degrees_of_freedom`, over rows with equal values of the columns `over`.

    `order`: columns that no two of those rows have in common. The last digit of a sum depends on the order.
    """
    group = Window.partitionBy(*over).orderBy(*order).rowsBetween(Window.unboundedPreceding, Window.unboundedFollowing)
    own, degrees = fn.col("variance"), fn.col("degrees_of_freedom")
    is_used = own > 0

    def used(column: Column) -> Column:
        return fn.when(is_used, column)

    logs = fn.log("variance") - _element(BIAS, degrees)
    excess = fn.var_samp(used(logs)).over(group) - fn.avg(used(_element(SPREAD, degrees))).over(group)
    shared = fn.size(fn.filter(double_array(SPREAD), lambda spread: spread > fn.col("excess")))
    pooled = fn.exp(fn.col("log_mean") + _element(BIAS, fn.col("shared")))
    both = (fn.col("shared") * pooled + degrees * own) / (fn.col("shared") + degrees)
    is_shared = own.isNotNull() & (fn.col("points") >= FEWEST_POINTS) & (fn.col("shared") > 0)
    most = fn.greatest(degrees, fn.col("total"))
    return (
        table.withColumn("points", fn.count(used(own)).over(group))
        .withColumn("log_mean", fn.avg(used(logs)).over(group))
        .withColumn("total", fn.sum(used(degrees)).over(group))
        .withColumn("excess", excess)
        .withColumn("shared", shared)
        .withColumns({
            "variance": fn.when(is_shared, fn.greatest(own, both)).otherwise(own),
            "degrees_of_freedom": fn.when(is_shared, fn.least(fn.col("shared") + degrees, most)).otherwise(degrees),
        })
        .select(*table.columns)
    )  # fmt: skip


def double_array(values: Iterable[float]) -> Column:
    """As one text, which Spark parses faster than it takes a literal for each value."""
    return fn.expr(f"array({', '.join(f'{value!r}D' for value in values)})")


def _element(values: Sequence[float], degrees: Column) -> Column:
    """The value for these degrees of freedom, 1 or more."""
    return fn.when(degrees > 0, fn.element_at(double_array(values), fn.least(degrees, fn.lit(MOST_SHARED)).cast("int")))
