"""Gaps in the sequence of a producer: numbers from 0 to its last one that no row of `sends` has."""

from typing import Final

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as fn

_PRODUCER: Final = ("run", "destination", "producer")


def untiled(sends: DataFrame) -> DataFrame:
    """Return the producers whose rows are not one sequence from 0 on with each number once: usually none.

    This needs no sort, unlike `gaps`. Each row is a step from its first number to its end. If the steps add up to the
    last end N, and every number but 0 and N is an edge of an even number of steps, they are one path from 0 to N
    without a step back. The exclusive or of hashes tells which edges occur an odd number of times.
    """
    end = fn.col("first_seq") + fn.col("count")
    odd_edges = fn.bit_xor(fn.xxhash64("first_seq").bitwiseXOR(fn.xxhash64(end)))
    outer_edges = fn.xxhash64(fn.lit(0).cast("long")).bitwiseXOR(fn.xxhash64("last_end"))
    return (
        sends.groupBy(*_PRODUCER)
        .agg(fn.sum("count").alias("messages"), fn.max(end).alias("last_end"), odd_edges.alias("odd_edges"))
        .where((fn.col("messages") != fn.col("last_end")) | (fn.col("odd_edges") != outer_edges))
        .select(*_PRODUCER)
    )


def gaps(sends: DataFrame, producers: DataFrame) -> DataFrame:
    """Count, by run, the numbers that are `missing` in the sequences of these producers.

    A number may have several rows: a producer may send a message again after a rollback.
    """
    earlier = Window.partitionBy(*_PRODUCER).orderBy("first_seq").rowsBetween(Window.unboundedPreceding, -1)
    end_before = fn.coalesce(fn.max(fn.col("first_seq") + fn.col("count")).over(earlier), fn.lit(0))
    return (
        sends.join(fn.broadcast(producers), [*_PRODUCER])
        .withColumn("missing", fn.greatest(fn.col("first_seq") - end_before, fn.lit(0)))
        .where(fn.col("missing") > 0)
        .groupBy("run")
        .agg(fn.sum("missing").alias("missing"))
    )
