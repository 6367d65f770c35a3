"""What a setting costs: the change of every figure against the point that differs in that setting alone."""

from pyspark.sql import DataFrame
from pyspark.sql import functions as fn

from mqlab.pipeline.kernels.ratios import values_of, wider_half, with_ratio
from mqlab.pipeline.schema import ImpactRow, columns


def impacts(run_measures: DataFrame, points: DataFrame) -> DataFrame:
    """Of every point that has a base: `value` in percent, negative where the figure is less than the base's.

    Points and their bases are run in turns; see ratios.py for the interval [low, high]. `ci95` is its wider half.
    """
    values = values_of(run_measures)
    based = points.where(fn.col("base").isNotNull()).select("scenario", "point", "base").distinct()
    of_base = values.select(
        "scenario", fn.col("point").alias("base"), "system", "metric", fn.col("values").alias("second")
    )
    pairs = (
        values.withColumnRenamed("values", "first")
        .join(fn.broadcast(based), ["scenario", "point"])
        .join(fn.broadcast(of_base), ["scenario", "base", "system", "metric"])
    )
    percent = {
        name: 100 * (fn.col(column) - 1) for name, column in (("value", "ratio"), ("low", "low"), ("high", "high"))
    }
    return (
        with_ratio(pairs, in_turns=fn.lit(True))
        .withColumns(percent)
        .withColumn("ci95", wider_half(fn.col("value"), fn.col("low"), fn.col("high")))
        .select(*columns(ImpactRow))
    )
