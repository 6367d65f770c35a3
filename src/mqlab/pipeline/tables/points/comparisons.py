"""Comparisons of systems: the ratio of every two at a point, and of their peaks."""

from collections.abc import Sequence
from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as fn

from mqlab.pipeline.kernels.ratios import add_ratio, run_values, wider_half_width
from mqlab.pipeline.schema import ComparisonRow, columns
from mqlab.study import METRICS

_KEY: Final = ("scenario", "point", "over", "parameters", "metric", "paced")
_SIDE: Final = ("system", "values", "point AS measured_at")


def comparisons(run_measures: DataFrame, peaks: DataFrame, metrics: Sequence[str], looks: int) -> DataFrame:
    """Compare every ordered pair of systems: at each point that both have run, for `metrics`; and at each peak.

    See kernels/ratios.py for the interval [low, high]; `ci95` is its wider half. `faster` is the system with the better
    value, by `percent_faster`, with a 95 % interval whose low end is negative where the other may be the better one.
    """
    sides = _at_points(run_measures, metrics).unionByName(_at_peaks(run_measures, peaks))
    firsts, seconds = (
        sides.selectExpr(*_KEY, f"system AS {side}_system", f"values AS {side}", f"measured_at AS {side}_point")
        for side in ("first", "second")
    )
    pairs = firsts.join(fn.broadcast(seconds), list(_KEY)).where("first_system != second_system")
    # At the same point the runs of the systems are interleaved; peaks may be at different points.
    interleaved = "first_point = second_point"
    alike = ("first_system", "second_system", "metric", "over", "paced")
    compared = add_ratio(pairs, interleaved, looks, alike, _KEY)
    made = {
        "first": "first_system",
        "second": "second_system",
        "ci95": wider_half_width("ratio", "low", "high"),
        **_leader(),
    }
    return compared.selectExpr(
        *(f"{made[name]} AS {name}" if name in made else name for name in columns(ComparisonRow))
    )


def _at_points(run_measures: DataFrame, metrics: Sequence[str]) -> DataFrame:
    return run_values(run_measures.where(fn.col("metric").isin(list(metrics)))).selectExpr(
        "scenario", "point", "'' AS over", "'' AS parameters", "metric", "paced", *_SIDE
    )


def _at_peaks(run_measures: DataFrame, peaks: DataFrame) -> DataFrame:
    return (
        run_values(run_measures)
        .join(fn.broadcast(peaks.drop("value")), ["scenario", "point", "system", "metric"])
        .selectExpr("scenario", "'' AS point", "over", "parameters", "metric", "paced", *_SIDE)
    )


def _leader() -> dict[str, str]:
    higher_is_better = ", ".join(f"'{name}'" for name, metric in METRICS.items() if metric.better == "higher")
    first_leads = f"CASE WHEN metric IN ({higher_is_better}) THEN ratio >= 1 ELSE ratio <= 1 END"

    def percent(column: str, inverse: str) -> str:
        """The greater value over the lesser one."""
        return f"100 * (CASE WHEN ratio >= 1 THEN {column} ELSE 1 / {inverse} END - 1)"

    return {
        "faster": f"CASE WHEN {first_leads} THEN first_system ELSE second_system END",
        "percent_faster": percent("ratio", "ratio"),
        "percent_low": percent("low", "high"),
        "percent_high": percent("high", "low"),
    }
