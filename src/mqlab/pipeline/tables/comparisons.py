"""Systems beside each other: the ratio of every two at a point, and of their peaks."""

from collections.abc import Sequence
from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as fn

from mqlab.pipeline.kernels.ratios import values_of, wider_half, with_ratio
from mqlab.pipeline.schema import ComparisonRow, columns
from mqlab.study import METRICS

_PLACE: Final = ("scenario", "point", "over", "parameters", "metric")


def comparisons(run_measures: DataFrame, peaks: DataFrame, metrics: Sequence[str]) -> DataFrame:
    """Every ordered pair of systems: at each point that both have run, for the metrics named; and at each peak.

    `over` and `parameters` are empty for points; of peaks, `point` is empty. `ratio` is `first` over `second`; see
    ratios.py for its interval [low, high], whose wider half is `ci95`. `faster` is who is ahead (of times: who needs
    less), by `percent_faster`: with 95 % between `percent_low`, below zero where it may be behind, and `percent_high`.
    """
    sides = _at_points(run_measures, metrics).unionByName(_at_peaks(run_measures, peaks))
    firsts = sides.select(*_PLACE, *(fn.col(name).alias(new) for name, new in _names("first").items()))
    seconds = sides.select(*_PLACE, *(fn.col(name).alias(new) for name, new in _names("second").items()))
    pairs = firsts.join(fn.broadcast(seconds), list(_PLACE)).where(fn.col("first_system") != fn.col("second_system"))
    # At one and the same point the systems take turns; the peaks of two of them are where they are.
    in_turns = fn.col("first_point") == fn.col("second_point")
    return (
        with_ratio(pairs, in_turns)
        .withColumn("ci95", wider_half(fn.col("ratio"), fn.col("low"), fn.col("high")))
        .withColumns(_lead())
        .withColumn("first", fn.col("first_system"))
        .withColumn("second", fn.col("second_system"))
        .select(*columns(ComparisonRow))
    )


def _names(side: str) -> dict[str, str]:
    return {"system": f"{side}_system", "values": side, "found_at": f"{side}_point"}


def _at_points(run_measures: DataFrame, metrics: Sequence[str]) -> DataFrame:
    return (
        values_of(run_measures.where(fn.col("metric").isin(list(metrics))))
        .withColumns({"over": fn.lit(""), "parameters": fn.lit(""), "found_at": fn.col("point")})
        .select(*_PLACE, "system", "values", "found_at")
    )


def _at_peaks(run_measures: DataFrame, peaks: DataFrame) -> DataFrame:
    return (
        values_of(run_measures)
        .join(fn.broadcast(peaks.drop("value")), ["scenario", "point", "system", "metric"])
        .withColumns({"found_at": fn.col("point"), "point": fn.lit("")})
        .select(*_PLACE, "system", "values", "found_at")
    )


def _lead() -> dict[str, Column]:
    higher_is_better = fn.col("metric").isin([name for name, metric in METRICS.items() if metric.better == "higher"])
    first_leads = fn.when(higher_is_better, fn.col("ratio") >= 1).otherwise(fn.col("ratio") <= 1)
    # The leader over the other, of times the other over the leader: above one whenever somebody leads.
    upright = fn.col("ratio") >= 1

    def percent(as_it_is: str, turned: str) -> Column:
        return 100 * (fn.when(upright, fn.col(as_it_is)).otherwise(1 / fn.col(turned)) - 1)

    return {
        "faster": fn.when(first_leads, fn.col("first_system")).otherwise(fn.col("second_system")),
        "percent_faster": percent("ratio", "ratio"),
        "percent_low": percent("low", "high"),
        "percent_high": percent("high", "low"),
    }
