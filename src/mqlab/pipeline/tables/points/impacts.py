"""Impacts: the change of every metric against the point that differs in one setting alone."""

from pyspark.sql import DataFrame
from pyspark.sql import functions as fn

from mqlab.pipeline.kernels.ratios import add_ratio, run_values, wider_half_width
from mqlab.pipeline.schema import ImpactRow, columns


def impacts(run_measures: DataFrame, points: DataFrame, looks: int) -> DataFrame:
    """The change in percent of every point that has a base, negative where the value is below the base's.

    Runs of points and their bases are interleaved; see kernels/ratios.py for the interval. `ci95` is its wider half.
    """
    values = run_values(run_measures)
    based = points.where(fn.col("base").isNotNull()).select("scenario", "point", "base").distinct()
    of_base = values.select(
        "scenario", fn.col("point").alias("base"), "system", "metric", fn.col("values").alias("second")
    )
    pairs = (
        values.withColumnRenamed("values", "first")
        .join(fn.broadcast(based), ["scenario", "point"])
        .join(fn.broadcast(of_base), ["scenario", "base", "system", "metric"])
    )
    return (
        add_ratio(pairs, "true", looks, ("system", "metric", "paced"), ("scenario", "point"))
        .withColumnRenamed("ratio", "value")
        .withColumns({name: fn.expr(f"100 * ({name} - 1)") for name in ("value", "low", "high")})
        .withColumn("ci95", fn.expr(wider_half_width("value", "low", "high")))
        .select(*columns(ImpactRow))
    )
