"""From runs to points: the figures of each valid run, and their mean with its 95 % interval."""

from typing import Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as fn

from mqlab.study.metric import METRICS
from mqlab.study.statistics import t975

_POINT: Final = ("scenario", "point", "system")
# From here on Student's t hardly falls: the last quantile stands, a little wide, for all longer rows of runs.
_QUANTILES: Final = 100


def run_measures(values: DataFrame, valid: DataFrame) -> DataFrame:
    """The figures of the valid runs, from (run, metric, value)."""
    units = fn.create_map(*(fn.lit(word) for pair in METRICS.items() for word in pair))
    return (
        values.join(fn.broadcast(valid), "run")
        .withColumn("unit", units[fn.col("metric")])
        .select("run", *_POINT, "repetition", "metric", "value", "unit")
    )


def measures(run_measures: DataFrame, runs: DataFrame, bounds: DataFrame, valid: DataFrame) -> DataFrame:
    """One row a point, system and metric. `runs` are those with a figure, `void` those that may give none."""
    return (
        _means(run_measures)
        .join(fn.broadcast(_attempts(runs, valid)), list(_POINT))
        .join(fn.broadcast(_bound(bounds, valid)), list(_POINT), "left")
        .select("study", *_POINT, "metric", "value", "unit", "ci95", "runs", "bound_by", "attempted", "void")
    )


def _means(run_measures: DataFrame) -> DataFrame:
    """In the order of the runs, since the last digit of a sum of fractions depends on it."""
    in_order = fn.array_sort(fn.collect_list(fn.struct("run", "value")))
    squares = fn.transform("values", lambda value: fn.pow(value - fn.col("value"), 2))
    deviation = fn.sqrt(_sum(squares) / (fn.col("runs") - 1))
    quantiles = fn.array(*(fn.lit(t975(freedom)) for freedom in range(1, _QUANTILES + 1)))
    quantile = fn.element_at(quantiles, fn.least(fn.col("runs") - 1, fn.lit(_QUANTILES)))
    return (
        run_measures.groupBy(*_POINT, "metric", "unit")
        .agg(fn.transform(in_order, lambda run: run["value"]).alias("values"))
        .withColumn("runs", fn.size("values"))
        .withColumn("value", _sum(fn.col("values")) / fn.col("runs"))
        .withColumn("ci95", fn.when(fn.col("runs") > 1, quantile * deviation / fn.sqrt("runs")))
        .select(*_POINT, "metric", "unit", "value", "ci95", "runs")
    )


def _attempts(runs: DataFrame, valid: DataFrame) -> DataFrame:
    is_valid = valid.select("run", fn.lit(1).alias("valid"))
    return (
        runs.select("run", "study", *_POINT)
        .join(fn.broadcast(is_valid), "run", "left")
        .groupBy("study", *_POINT)
        .agg(fn.count(fn.lit(1)).cast("int").alias("attempted"), fn.count("valid").cast("int").alias("valid"))
        .withColumn("void", fn.col("attempted") - fn.col("valid"))
        .select("study", *_POINT, "attempted", "void")
    )


def _bound(bounds: DataFrame, valid: DataFrame) -> DataFrame:
    """What held back more than half of the valid runs of a point."""
    of_point = Window.partitionBy(*_POINT)
    return (
        valid.join(fn.broadcast(bounds), "run", "left")
        .withColumn("valid", fn.count("run").over(of_point))
        .groupBy(*_POINT, "bound_by", "valid")
        .agg(fn.count("run").alias("votes"))
        .where(fn.col("votes") * 2 > fn.col("valid"))
        .select(*_POINT, "bound_by")
    )


def _sum(values: Column) -> Column:
    return fn.aggregate(values, fn.lit(0.0), lambda total, value: total + value)
