"""Messages second by second, since the start of the warm-up."""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from mqlab.pipeline.tables import NANOSECONDS


def series(activity: DataFrame, phases: DataFrame, spans: DataFrame, valid: DataFrame) -> DataFrame:
    """A row for every second of a valid run up to its last message: a second in which nothing moved is a row of zeros.

    `phase` is the one in the middle of the second; after the last phase, the last.
    """
    by_second = (
        activity.where(F.col("second") >= 0)
        .groupBy("run", "second")
        .agg(F.sum("sent").alias("sent"), F.sum("received").alias("received"))
    )
    phase_starts = phases.select("run", "phase", "t_start")
    middle = F.col("begin") + F.col("second").cast("long") * NANOSECONDS + NANOSECONDS // 2
    return (
        _seconds(by_second, spans)
        .join(F.broadcast(valid), "run")
        .join(F.broadcast(by_second), ["run", "second"], "left")
        .join(F.broadcast(phase_starts), "run")
        .where(F.col("t_start") <= middle)
        .groupBy("run", "scenario", "point", "system", "repetition", "second", "sent", "received")
        .agg(F.max_by("phase", "t_start").alias("phase"))
        .fillna(0, ["sent", "received"])
        .withColumn("sent", F.col("sent").cast("double"))
        .withColumn("received", F.col("received").cast("double"))
        .select("run", "scenario", "point", "system", "repetition", "second", "sent", "received", "phase")
    )


def _seconds(by_second: DataFrame, spans: DataFrame) -> DataFrame:
    last_active = by_second.groupBy("run").agg(F.max("second").alias("last_active"))
    last_measured = F.ceil((F.col("measure_end") - F.col("begin")) / NANOSECONDS).cast("int") - 1
    return (
        spans.join(F.broadcast(last_active), "run", "left")
        .withColumn("last", F.greatest("last_active", last_measured))
        .withColumn("second", F.explode(F.sequence(F.lit(0), F.col("last"))))
        .select("run", "begin", "second")
    )
