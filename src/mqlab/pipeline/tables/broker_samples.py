"""What the samples say of a broker over time: how full it was, and since when it held producers back."""

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as fn

from mqlab.pipeline.event_tables import NANOSECONDS
from mqlab.pipeline.metrics import as_metrics
from mqlab.pipeline.schema import DepthRow, columns


def is_broker(source: Column) -> Column:
    """A run has one broker ("broker"), or several ("broker-b", ...)."""
    return (source == "broker") | source.startswith("broker-")


def looks(samples: DataFrame, spans: DataFrame) -> DataFrame:
    """Every look at a broker after the load began, `nanoseconds` since then.

    `holds` and `held_seconds` have grown by that much since the last look before the load; since the first look after
    its beginning where there was none before.
    """
    of_source = Window.partitionBy("run", "source")
    before = fn.col("t") <= fn.col("begin")

    def gained(counter: str) -> Column:
        at_start = fn.coalesce(
            fn.max_by(counter, fn.when(before, fn.col("t"))).over(of_source), fn.min_by(counter, "t").over(of_source)
        )
        return fn.col(counter) - at_start

    return (
        samples.where(is_broker(fn.col("source")))
        .join(fn.broadcast(spans), "run")
        .withColumn("holds_gained", gained("holds"))
        .withColumn("held_gained", gained("held_seconds"))
        .where(~before)
        .withColumn("nanoseconds", fn.col("t") - fn.col("begin"))
        .select(
            "run",
            "source",
            "nanoseconds",
            "depth",
            "blocked",
            fn.col("holds_gained").alias("holds"),
            fn.col("held_gained").alias("held_seconds"),
        )
    )


def onset(looks: DataFrame) -> DataFrame:
    """(run, metric, value): from the start of the load to the first look at which a producer had been held back.

    As fine as the looks: it was held back before that look and after the one before. None if none was held back.
    """
    first = looks.where(fn.col("holds") > 0).groupBy("run").agg(fn.min("nanoseconds").alias("nanoseconds"))
    return as_metrics(first, {"onset": fn.col("nanoseconds") / NANOSECONDS}).select("run", "metric", "value")


def depths(looks: DataFrame, valid: DataFrame) -> DataFrame:
    """The looks at the brokers of valid runs; `blocked` are the producers held back just then."""
    return (
        looks.join(fn.broadcast(valid), "run")
        .withColumn("seconds", fn.col("nanoseconds") / NANOSECONDS)
        .select(*columns(DepthRow))
    )
