"""Messages second by second, since the start of the warm-up."""

from pyspark.sql import DataFrame
from pyspark.sql import functions as fn

from mqlab.pipeline.tables import NANOSECONDS


def series(activity: DataFrame, phases: DataFrame, spans: DataFrame, valid: DataFrame) -> DataFrame:
    """A row for every second of a valid run up to its last message: a second in which nothing moved is a row of zeros.

    `phase` is the one in the middle of the second; after the last phase, the last.
    """
    by_second = (
        activity.where(fn.col("second") >= 0)
        .groupBy("run", "second")
        .agg(fn.sum("sent").alias("sent"), fn.sum("received").alias("received"))
    )
    phase_starts = phases.select("run", "phase", "t_start")
    middle = fn.col("begin") + fn.col("second").cast("long") * NANOSECONDS + NANOSECONDS // 2
    return (
        _seconds(by_second, spans)
        .join(fn.broadcast(valid), "run")
        .join(fn.broadcast(by_second), ["run", "second"], "left")
        .join(fn.broadcast(phase_starts), "run")
        .where(fn.col("t_start") <= middle)
        .groupBy("run", "scenario", "point", "system", "repetition", "second", "sent", "received")
        .agg(fn.max_by("phase", "t_start").alias("phase"))
        .fillna(0, ["sent", "received"])
        .withColumn("sent", fn.col("sent").cast("double"))
        .withColumn("received", fn.col("received").cast("double"))
        .select("run", "scenario", "point", "system", "repetition", "second", "sent", "received", "phase")
    )


def _seconds(by_second: DataFrame, spans: DataFrame) -> DataFrame:
    last_active = by_second.groupBy("run").agg(fn.max("second").alias("last_active"))
    last_measured = fn.ceil((fn.col("measure_end") - fn.col("begin")) / NANOSECONDS).cast("int") - 1
    return (
        spans.join(fn.broadcast(last_active), "run", "left")
        .withColumn("last", fn.greatest("last_active", last_measured))
        .withColumn("second", fn.explode(fn.sequence(fn.lit(0), fn.col("last"))))
        .select("run", "begin", "second")
    )
