"""Samples of the brokers over time: their depth, and since when flow control held producers back."""

from typing import Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as fn

from mqlab.pipeline.kernels.count_keys import NANOSECONDS
from mqlab.pipeline.metrics import to_metric_rows
from mqlab.pipeline.schema import DepthRow, columns

# Whether the source of a sample is a broker: "broker", or "broker-b", ... where a run has several.
IS_BROKER: Final = "(source = 'broker' OR startswith(source, 'broker-'))"


def broker_samples(samples: DataFrame, windows: DataFrame) -> DataFrame:
    """Return every sample of a broker after the start of the load, `nanoseconds` since then.

    `holds` and `held_seconds` are the increase since the last sample before the load, or since the first sample after
    its start where there is none before.
    """
    of_source = Window.partitionBy("run", "source")
    before = fn.col("t") <= fn.col("load_start")

    def increase(counter: str) -> Column:
        at_start = fn.coalesce(
            fn.max_by(counter, fn.when(before, fn.col("t"))).over(of_source), fn.min_by(counter, "t").over(of_source)
        )
        return fn.col(counter) - at_start

    return (
        samples.where(IS_BROKER)
        .join(fn.broadcast(windows), "run")
        .withColumn("holds_gained", increase("holds"))
        .withColumn("held_gained", increase("held_seconds"))
        .where(~before)
        .withColumn("nanoseconds", fn.col("t") - fn.col("load_start"))
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


def onset(broker_samples: DataFrame) -> DataFrame:
    """(run, metric, value): from the start of the load to the first sample after a producer was held back.

    No row for a run in which no producer was held back. The resolution is that of the samples.
    """
    first = broker_samples.where(fn.col("holds") > 0).groupBy("run").agg(fn.min("nanoseconds").alias("nanoseconds"))
    return to_metric_rows(first, {"onset": f"nanoseconds / {NANOSECONDS}"})


def depths(broker_samples: DataFrame, used: DataFrame) -> DataFrame:
    return (
        broker_samples.join(fn.broadcast(used), "run")
        .withColumn("seconds", fn.col("nanoseconds") / NANOSECONDS)
        .select(*columns(DepthRow))
    )
