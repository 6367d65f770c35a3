"""The metrics of each used run, and their means over the runs of a point with 95 % intervals."""

from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as fn

from mqlab.pipeline.kernels.ratios import half_width, mean, square_error
from mqlab.pipeline.kernels.shared_noise import moderate
from mqlab.pipeline.schema import BOTTLENECKS, MeasureRow, PointColumns, RunMeasureRow, columns
from mqlab.pipeline.tables.noise import is_flagged, used_runs
from mqlab.study.metric import METRICS

_POINT: Final = columns(PointColumns)


def run_measures(values: DataFrame, observations: DataFrame, used: DataFrame) -> DataFrame:
    """The metrics of the used runs, from (run, metric, value) and (run, kind, observations)."""
    units = fn.create_map(*(fn.lit(text) for metric in METRICS.values() for text in (metric.name, metric.unit)))
    return (
        values.withColumn("kind", fn.substring_index("metric", ".", 1))
        .join(fn.broadcast(used), "run")
        .join(fn.broadcast(observations), ["run", "kind"], "left")
        .withColumn("unit", units[fn.col("metric")])
        .select(*columns(RunMeasureRow))
    )


def measures(
    run_measures: DataFrame, runs: DataFrame, bottlenecks: DataFrame, noise: DataFrame, looks: int
) -> DataFrame:
    """One row for each point, system and metric. `looks`: see kernels/ratios.py."""
    return (
        _means(run_measures, looks)
        .join(fn.broadcast(_attempts(runs, noise)), list(_POINT))
        .join(fn.broadcast(_bottleneck(bottlenecks, used_runs(noise))), list(_POINT), "left")
        .select(*columns(MeasureRow))
    )


def _means(run_measures: DataFrame, looks: int) -> DataFrame:
    in_order = fn.expr("transform(array_sort(collect_list(struct(run, value))), run -> run.value)")
    own = (
        run_measures.groupBy(*_POINT, "metric", "unit")
        .agg(in_order.alias("values"), fn.sum("observations").alias("observations"))
        .selectExpr("*", "size(values) AS runs", f"{mean('values')} AS value")
        .selectExpr(
            "*",
            f"CASE WHEN runs > 1 AND value != 0 THEN {square_error('values')} * runs / pow(value, 2) END AS variance",
            "nullif(runs - 1, 0) AS degrees_of_freedom",
        )
    )
    # A mean of zero has no relative variance: no value of its runs differs from it, since none is negative.
    ci95 = f"CASE WHEN value = 0 THEN CASE WHEN runs > 1 THEN 0D END ELSE {half_width(looks)} * value END"
    return moderate(own, ("system", "metric"), ("scenario", "point")).selectExpr(
        *_POINT, "metric", "unit", "value", f"{ci95} AS ci95", "runs", "degrees_of_freedom", "observations"
    )


def _attempts(runs: DataFrame, noise: DataFrame) -> DataFrame:
    def count(condition: Column) -> Column:
        return fn.count(fn.when(condition, 1)).cast("int")

    return (
        runs.select("run", "study")
        .join(fn.broadcast(noise), "run")
        .groupBy("study", *_POINT)
        .agg(
            fn.count(fn.lit(1)).cast("int").alias("attempted"),
            count(~fn.col("valid")).alias("void"),
            count(fn.col("valid") & is_flagged()).alias("flagged"),
            (count(fn.col("used") & is_flagged()) == 0).alias("quiet"),
        )
    )


def _bottleneck(bottlenecks: DataFrame, used: DataFrame) -> DataFrame:
    """The bottleneck of more than half of the used runs of a point; and whether an agent used too much CPU in any."""
    votes = {name: fn.count(fn.when(fn.col("bound_by") == name, 1)) for name in BOTTLENECKS}
    most = fn.coalesce(*(fn.when(votes[name] * 2 > fn.count("run"), name) for name in BOTTLENECKS))
    return (
        used.join(fn.broadcast(bottlenecks), "run", "left")
        .groupBy(*_POINT)
        .agg(most.alias("bound_by"), fn.max("client_cpu").alias("client_cpu"))
    )
