"""The variance of each point, moderated by that of all: study/shared_noise.py, which says why, in Spark."""

from collections.abc import Sequence

from pyspark.sql import DataFrame
from pyspark.sql import functions as fn

from mqlab.study.shared_noise import RunNoise, moderated


def moderate(table: DataFrame, over: Sequence[str], order: Sequence[str]) -> DataFrame:
    """Replace the columns `variance` and `degrees_of_freedom`, over rows with equal values of the columns `over`.

    `order`: columns that no two of those rows have in common. The last digit of a sum depends on the order.
    """
    rows = ", ".join(dict.fromkeys(name for name in (*order, *table.columns) if name not in over))
    of_all = fn.udf(_moderate, "array<struct<variance: double, degrees_of_freedom: int>>", useArrow=False)
    replaced = ("variance", "degrees_of_freedom")
    return (
        table.groupBy(*over)
        .agg(fn.expr(f"array_sort(collect_list(struct({rows})))").alias("points"))
        .withColumn("noises", of_all("points.variance", "points.degrees_of_freedom"))
        .selectExpr(*over, "inline(arrays_zip(points, noises))")
        .selectExpr(*over, "points.*", "noises.variance AS moderated", "noises.degrees_of_freedom AS degrees")
        .drop(*replaced)
        .withColumnsRenamed(dict(zip(("moderated", "degrees"), replaced, strict=True)))
        .select(*table.columns)
    )


def paced_points(points: DataFrame) -> DataFrame:
    """(scenario, point, paced): whether a schedule sets the rate of a point, which is then hardly noisy."""
    paced = fn.expr("bool_or(rate IS NOT NULL OR profile != '' OR consume_rate IS NOT NULL) AS paced")
    return points.groupBy("scenario", "point").agg(paced)


def _moderate(variances: list[float | None], degrees: list[int | None]) -> list[RunNoise | None]:
    own = [
        None if variance is None or known is None else RunNoise(variance, known)
        for variance, known in zip(variances, degrees, strict=True)
    ]
    return moderated(own)
