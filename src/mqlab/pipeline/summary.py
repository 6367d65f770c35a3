"""From runs to points: the figures of each valid run, and their mean with its 95 % interval."""

from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from mqlab.study.metric import METRICS
from mqlab.study.statistics import t975

_POINT: Final = ("scenario", "point", "system")
# From here on Student's t hardly falls: the last quantile stands, a little wide, for all longer rows of runs.
_QUANTILES: Final = 100


def run_measures(values: DataFrame, valid: DataFrame) -> DataFrame:
    """The figures of the valid runs, from (run, metric, value)."""
    units = F.create_map(*(F.lit(word) for pair in METRICS.items() for word in pair))
    return (
        values.join(F.broadcast(valid), "run")
        .withColumn("unit", units[F.col("metric")])
        .select("run", *_POINT, "repetition", "metric", "value", "unit")
    )


def measures(run_measures: DataFrame, runs: DataFrame, bounds: DataFrame, valid: DataFrame) -> DataFrame:
    """One row a point, system and metric. `runs` are those with a figure, `void` those that may give none."""
    return (
        _means(run_measures)
        .join(F.broadcast(_attempts(runs, valid)), list(_POINT))
        .join(F.broadcast(_bound(bounds, valid)), list(_POINT), "left")
        .select(
            "study", *_POINT, "metric", "value", "unit", "ci95", "runs", "bound_by", "attempted", "void"
        )
    )


def _means(run_measures: DataFrame) -> DataFrame:
    """In the order of the runs, since the last digit of a sum of fractions depends on it."""
    in_order = F.array_sort(F.collect_list(F.struct("run", "value")))
    deviation = F.sqrt(_sum(F.transform("values", lambda value: F.pow(value - F.col("value"), 2))) / (F.col("runs") - 1))
    quantile = F.array(*(F.lit(t975(df)) for df in range(1, _QUANTILES + 1)))[
        F.least(F.col("runs") - 1, F.lit(_QUANTILES)) - 1
    ]
    return (
        run_measures.groupBy(*_POINT, "metric", "unit")
        .agg(F.transform(in_order, lambda run: run["value"]).alias("values"))
        .withColumn("runs", F.size("values"))
        .withColumn("value", _sum(F.col("values")) / F.col("runs"))
        .withColumn("ci95", F.when(F.col("runs") > 1, quantile * deviation / F.sqrt("runs")))
        .select(*_POINT, "metric", "unit", "value", "ci95", "runs")
    )


def _attempts(runs: DataFrame, valid: DataFrame) -> DataFrame:
    is_valid = valid.select("run", F.lit(1).alias("valid"))
    return (
        runs.select("run", "study", *_POINT)
        .join(F.broadcast(is_valid), "run", "left")
        .groupBy("study", *_POINT)
        .agg(F.count(F.lit(1)).cast("int").alias("attempted"), F.count("valid").cast("int").alias("valid"))
        .withColumn("void", F.col("attempted") - F.col("valid"))
        .select("study", *_POINT, "attempted", "void")
    )


def _bound(bounds: DataFrame, valid: DataFrame) -> DataFrame:
    """What held back more than half of the valid runs of a point."""
    of_point = valid.join(F.broadcast(bounds), "run", "left").groupBy(*_POINT)
    return (
        of_point.agg(F.mode("bound_by").alias("bound_by"), F.collect_list("bound_by").alias("found"), F.count("run").alias("valid"))
        .withColumn("votes", F.size(F.filter("found", lambda found: found == F.col("bound_by"))))
        .where(F.col("votes") * 2 > F.col("valid"))
        .select(*_POINT, "bound_by")
    )


def _sum(values: Column) -> Column:
    return F.aggregate(values, F.lit(0.0), lambda total, value: total + value)
