"""Figures of a run as rows: the one shape in which rates, latencies and resources meet."""

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as fn


def as_metrics(wide: DataFrame, columns: dict[str, Column], *kept: str) -> DataFrame:
    """(run, `kept`, metric, value) for each metric of `columns`; what was not measured (null) has no row."""
    pairs = [
        fn.struct(fn.lit(metric).alias("metric"), value.cast("double").alias("value"))
        for metric, value in columns.items()
    ]
    return (
        wide.select("run", *kept, fn.explode(fn.array(*pairs)).alias("pair"))
        .where(fn.col("pair.value").isNotNull())
        .select("run", *kept, "pair.metric", "pair.value")
    )
