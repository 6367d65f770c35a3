"""Comparisons of systems: the ratio of every two at a point, and of their peaks."""

from collections.abc import Sequence
from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as fn

from mqlab.pipeline.kernels.ratios import add_ratio, run_values, wider_half_width
from mqlab.pipeline.schema import ComparisonRow, columns
from mqlab.study import METRICS

_KEY: Final = ("scenario", "point", "over", "parameters", "metric")


def comparisons(run_measures: DataFrame, peaks: DataFrame, metrics: Sequence[str], looks: int) -> DataFrame:
    """Compare every ordered pair of systems: at each point that both have run, for `metrics`; and at each peak.

    See kernels/ratios.py for the interval [low, high]; `ci95` is its wider half. `faster` is the system with the better
    value, by `percent_faster`, with a 95 % interval whose low end is negative where the other may be the better one.
    """
    sides = _at_points(run_measures, metrics).unionByName(_at_peaks(run_measures, peaks))
    firsts = sides.select(*_KEY, *(fn.col(name).alias(new) for name, new in _names("first").items()))
    seconds = sides.select(*_KEY, *(fn.col(name).alias(new) for name, new in _names("second").items()))
    pairs = firsts.join(fn.broadcast(seconds), list(_KEY)).where(fn.col("first_system") != fn.col("second_system"))
    # At the same point the runs of the systems are interleaved; peaks may be at different points.
    interleaved = fn.col("first_point") == fn.col("second_point")
    return (
        add_ratio(pairs, interleaved, looks, ("first_system", "second_system", "metric", "over"), _KEY)
        .withColumn("ci95", wider_half_width(fn.col("ratio"), fn.col("low"), fn.col("high")))
        .withColumns(_leader())
        .withColumn("first", fn.col("first_system"))
        .withColumn("second", fn.col("second_system"))
        .select(*columns(ComparisonRow))
    )


def _names(side: str) -> dict[str, str]:
    return {"system": f"{side}_system", "values": side, "measured_at": f"{side}_point"}


def _at_points(run_measures: DataFrame, metrics: Sequence[str]) -> DataFrame:
    return (
        run_values(run_measures.where(fn.col("metric").isin(list(metrics))))
        .withColumns({"over": fn.lit(""), "parameters": fn.lit(""), "measured_at": fn.col("point")})
        .select(*_KEY, "system", "values", "measured_at")
    )


def _at_peaks(run_measures: DataFrame, peaks: DataFrame) -> DataFrame:
    return (
        run_values(run_measures)
        .join(fn.broadcast(peaks.drop("value")), ["scenario", "point", "system", "metric"])
        .withColumns({"measured_at": fn.col("point"), "point": fn.lit("")})
        .select(*_KEY, "system", "values", "measured_at")
    )


def _leader() -> dict[str, Column]:
    higher_is_better = fn.col("metric").isin([name for name, metric in METRICS.items() if metric.better == "higher"])
    first_leads = fn.when(higher_is_better, fn.col("ratio") >= 1).otherwise(fn.col("ratio") <= 1)
    # The greater value over the lesser one.
    first_is_greater = fn.col("ratio") >= 1

    def percent(column: str, inverse: str) -> Column:
        return 100 * (fn.when(first_is_greater, fn.col(column)).otherwise(1 / fn.col(inverse)) - 1)

    return {
        "faster": fn.when(first_leads, fn.col("first_system")).otherwise(fn.col("second_system")),
        "percent_faster": percent("ratio", "ratio"),
        "percent_low": percent("low", "high"),
        "percent_high": percent("high", "low"),
    }
