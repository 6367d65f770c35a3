"""Metrics of a run as rows (run, metric, value): the form that rates, latencies and resources share."""

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as fn


def to_metric_rows(wide: DataFrame, metrics: dict[str, Column], *keys: str) -> DataFrame:
    """Return rows (run, `keys`, metric, value) for each of `metrics`; a null value has no row."""
    pairs = [
        fn.struct(fn.lit(metric).alias("metric"), value.cast("double").alias("value"))
        for metric, value in metrics.items()
    ]
    return (
        wide.select("run", *keys, fn.explode(fn.array(*pairs)).alias("pair"))
        .where(fn.col("pair.value").isNotNull())
        .select("run", *keys, "pair.metric", "pair.value")
    )
