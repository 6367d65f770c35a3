"""The metrics of each used run, and their means over the runs of a point with 95 % intervals."""

from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as fn

from mqlab.pipeline.kernels.ratios import half_width, mean, square_error
from mqlab.pipeline.kernels.shared_noise import moderate
from mqlab.pipeline.schema import BOTTLENECKS, MeasureRow, PointColumns, RunMeasureRow, columns
from mqlab.pipeline.tables.noise import IS_FLAGGED, used_runs
from mqlab.study.metric import METRICS

_POINT: Final = columns(PointColumns)


def run_measures(values: DataFrame, observations: DataFrame, used: DataFrame) -> DataFrame:
    """The metrics of the used runs, from (run, metric, value) and (run, kind, observations)."""
    units = ", ".join(f"'{metric.name}', '{metric.unit}'" for metric in METRICS.values())
    return (
        values.selectExpr("*", "substring_index(metric, '.', 1) AS kind", f"map({units})[metric] AS unit")
        .join(fn.broadcast(used), "run")
        .join(fn.broadcast(observations), ["run", "kind"], "left")
        .select(*columns(RunMeasureRow))
    )


def measures(
    run_measures: DataFrame, runs: DataFrame, bottlenecks: DataFrame, noise: DataFrame, looks: int
) -> DataFrame:
    """One row for each point, system and metric. `run_measures` and `looks`: see kernels/ratios.py."""
    return (
        _means(run_measures, looks)
        .join(fn.broadcast(_attempts(runs, noise)), list(_POINT))
        .join(fn.broadcast(_bottleneck(bottlenecks, used_runs(noise))), list(_POINT), "left")
        .select(*columns(MeasureRow))
    )


def _means(run_measures: DataFrame, looks: int) -> DataFrame:
    in_order = fn.expr("transform(array_sort(collect_list(struct(run, value))), run -> run.value)")
    own = (
        run_measures.groupBy(*_POINT, "metric", "unit", "paced")
        .agg(in_order.alias("values"), fn.sum("observations").alias("observations"))
        .selectExpr(
            "*",
            "size(values) AS runs",
            f"{mean('values')} AS value",
            f"CASE WHEN runs > 1 AND value != 0 THEN {square_error('values')} * runs / pow(value, 2) END AS variance",
            "nullif(runs - 1, 0) AS degrees_of_freedom",
        )
    )
    # A mean of zero has no relative variance: no value of its runs differs from it, since none is negative.
    ci95 = f"CASE WHEN value = 0 THEN CASE WHEN runs > 1 THEN 0D END ELSE {half_width(looks)} * value END"
    degrees = "CASE WHEN value = 0 THEN nullif(runs - 1, 0) ELSE degrees_of_freedom END AS degrees_of_freedom"
    return moderate(own, ("system", "metric", "paced"), ("scenario", "point")).selectExpr(
        *_POINT, "metric", "unit", "value", f"{ci95} AS ci95", "runs", degrees, "observations"
    )


def _attempts(runs: DataFrame, noise: DataFrame) -> DataFrame:
    counts = (
        "CAST(count(1) AS INT) AS attempted",
        "CAST(count_if(NOT valid) AS INT) AS void",
        f"CAST(count_if(valid AND {IS_FLAGGED}) AS INT) AS flagged",
        f"count_if(used AND {IS_FLAGGED}) = 0 AS quiet",
    )
    of_runs = runs.select("run", "study").join(fn.broadcast(noise), "run")
    return of_runs.groupBy("study", *_POINT).agg(*map(fn.expr, counts))


def _bottleneck(bottlenecks: DataFrame, used: DataFrame) -> DataFrame:
    """The bottleneck of more than half of the used runs of a point; and whether an agent used too much CPU in any."""
    most = ", ".join(
        f"CASE WHEN count_if(bound_by = '{name}') * 2 > count(run) THEN '{name}' END" for name in BOTTLENECKS
    )
    return (
        used.join(fn.broadcast(bottlenecks), "run", "left")
        .groupBy(*_POINT)
        .agg(fn.expr(f"coalesce({most}) AS bound_by"), fn.max("client_cpu").alias("client_cpu"))
    )
