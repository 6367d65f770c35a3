"""From runs to points: the figures of each valid run, and their mean with its 95 % interval."""

from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as fn

from mqlab.pipeline.kernels.intervals import half_width, mean
from mqlab.pipeline.schema import MeasureRow, PointRow, RunMeasureRow, columns
from mqlab.study.metric import METRICS

_POINT: Final = columns(PointRow)


def run_measures(values: DataFrame, valid: DataFrame) -> DataFrame:
    """The figures of the valid runs, from (run, metric, value)."""
    units = fn.create_map(*(fn.lit(text) for metric in METRICS.values() for text in (metric.name, metric.unit)))
    return (
        values.join(fn.broadcast(valid), "run")
        .withColumn("unit", units[fn.col("metric")])
        .select(*columns(RunMeasureRow))
    )


def measures(run_measures: DataFrame, runs: DataFrame, bounds: DataFrame, valid: DataFrame) -> DataFrame:
    """One row a point, system and metric. `runs` are those with a figure, `void` those that may give none."""
    return (
        _means(run_measures)
        .join(fn.broadcast(_attempts(runs, valid)), list(_POINT))
        .join(fn.broadcast(_bound(bounds, valid)), list(_POINT), "left")
        .select(*columns(MeasureRow))
    )


def _means(run_measures: DataFrame) -> DataFrame:
    in_order = fn.array_sort(fn.collect_list(fn.struct("run", "value")))
    return (
        run_measures.groupBy(*_POINT, "metric", "unit")
        .agg(fn.transform(in_order, lambda run: run["value"]).alias("values"))
        .withColumn("runs", fn.size("values"))
        .withColumn("value", mean(fn.col("values")))
        .withColumn("ci95", half_width(fn.col("values")))
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
    """What held back more than half of the valid runs of a point; and whether a client used too much in any."""
    holders = ("network", "disk", "client", "broker")
    votes = {name: fn.count(fn.when(fn.col("bound_by") == name, 1)) for name in holders}
    most = fn.coalesce(*(fn.when(votes[name] * 2 > fn.count("run"), name) for name in holders))
    return (
        valid.join(fn.broadcast(bounds), "run", "left")
        .groupBy(*_POINT)
        .agg(most.alias("bound_by"), fn.max("client_cpu").alias("client_cpu"))
        .select(*_POINT, "bound_by", "client_cpu")
    )
