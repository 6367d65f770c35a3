"""The heart: what became of every message, for every subscription that had to get it, without a row for each message.

Sends and receipts are ranges of sequence numbers that may lie over each other in any way. Every range is cut wherever
any range of its producer, destination and subscription begins or ends. Two pieces then either are the same stretch of
messages or share none, so that grouping equal pieces counts exactly how often each stretch was sent and received, and
finds the first time of each. This costs one shuffle and two sorts; a join of overlapping ranges could cost the square.
"""

from typing import Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from mqlab.events.schema import CONFIRMED, UNKNOWN

# A producer's sequence is also cut at every 2^22 messages, so that one busy producer is work for many tasks.
BLOCK_BITS: Final = 22
# The subscription of a receipt whose consumer had no business at that destination: nothing is ever sent to it.
NO_SUBSCRIPTION: Final = -1

_KEY: Final = ("run", "destination", "producer", "subscription", "block")
_COPIES: Final = ("confirmed", "unknown", "fresh", "marked", "late")
_TIMES: Final = ("t_planned", "t_received")
_RANGE: Final = ("run", "destination", "producer", "subscription", "first", "end", *_COPIES, *_TIMES)


def segments(sends: DataFrame, receipts: DataFrame, roles: DataFrame) -> DataFrame:
    """Stretches [first, end) of messages with one fate at one subscription.

    `confirmed`, `unknown`: how often they were sent so; what was refused or rolled back counts as not sent.
    `fresh`, `marked`: copies received without and with the redelivered mark; `late`: fresh copies that a consumer
    got after it already had a later message. `t_planned`, `t_received`: the first of each, null where there is none.
    """
    consumers = roles.where(F.col("role") == "consumer").select(
        "run", F.col("number").alias("consumer"), "destination", "subscription"
    )
    ranges = _sent(sends, consumers).unionByName(_received(receipts, consumers))
    return _laid_over(_cut(_merged(_in_blocks(ranges)))).select(*_RANGE)


def _sent(sends: DataFrame, consumers: DataFrame) -> DataFrame:
    """Each send once for every subscription of its destination, whether or not that ever received anything."""
    subscriptions = consumers.select("run", "destination", "subscription").distinct()
    return (
        sends.where(F.col("outcome").isin(CONFIRMED, UNKNOWN))
        .join(F.broadcast(subscriptions), ["run", "destination"])
        .withColumns(_extent() | _nothing())
        .withColumn("confirmed", (F.col("outcome") == CONFIRMED).cast("int"))
        .withColumn("unknown", (F.col("outcome") == UNKNOWN).cast("int"))
        .withColumn("t_received", F.lit(None).cast("long"))
        .select(*_RANGE)
    )


def _received(receipts: DataFrame, consumers: DataFrame) -> DataFrame:
    """Each receipt as its late part and the part that came in its turn."""
    earlier = (
        Window.partitionBy("run", "consumer", "destination", "producer")
        .orderBy("ordinal", "first")
        .rowsBetween(Window.unboundedPreceding, -1)
    )
    # A message is late when one beyond it had come: all below the highest seen so far. What is redelivered may be.
    latest_before = F.coalesce(F.max("end").over(earlier) - 1, F.col("first"))
    in_turn_from = F.greatest(F.col("first"), F.least(F.col("end"), F.col("latest_before")))
    return (
        receipts.join(F.broadcast(consumers), ["run", "consumer", "destination"], "left")
        .withColumns(_extent() | _nothing())
        .withColumn("latest_before", latest_before)
        .withColumn("turn", F.when(F.col("redelivered"), F.col("first")).otherwise(in_turn_from))
        .withColumn("part", F.explode(F.array(_part("first", "turn", 1), _part("turn", "end", 0))))
        .withColumn("first", F.col("part.first"))
        .withColumn("end", F.col("part.end"))
        .withColumn("late", F.col("part.late"))
        .withColumn("subscription", F.coalesce("subscription", F.lit(NO_SUBSCRIPTION)))
        .withColumn("fresh", (~F.col("redelivered")).cast("int"))
        .withColumn("marked", F.col("redelivered").cast("int"))
        .withColumn("t_planned", F.lit(None).cast("long"))
        .select(*_RANGE)
    )


def _extent() -> dict[str, Column]:
    return {"first": F.col("first_seq"), "end": F.col("first_seq") + F.col("count")}


def _nothing() -> dict[str, Column]:
    return {name: F.lit(0) for name in _COPIES}


def _part(first: str, end: str, late: int) -> Column:
    return F.struct(F.col(first).alias("first"), F.col(end).alias("end"), F.lit(late).alias("late"))


def _in_blocks(ranges: DataFrame) -> DataFrame:
    """The ranges that hold anything, cut at the edges of the blocks."""
    first_block = F.shiftright("first", BLOCK_BITS)
    last_block = F.shiftright(F.col("end") - 1, BLOCK_BITS)
    return (
        ranges.where(F.col("first") < F.col("end"))
        .withColumn("block", F.explode(F.sequence(first_block, last_block)))
        .withColumn("block_start", F.shiftleft("block", BLOCK_BITS))
        .withColumn("first", F.greatest("first", "block_start"))
        .withColumn("end", F.least("end", F.col("block_start") + (1 << BLOCK_BITS)))
        .select("block", *_RANGE)
    )


def _merged(ranges: DataFrame) -> DataFrame:
    """One row for equal ranges. Batches mostly arrive as they left, so this halves the work of the cutting."""
    return (
        # All that follows happens within a key: with this one shuffle Spark needs no other.
        ranges.repartition(*_KEY)
        .groupBy(*_KEY, "first", "end")
        .agg(*(F.sum(name).alias(name) for name in _COPIES), *(F.min(name).alias(name) for name in _TIMES))
    )


def _cut(ranges: DataFrame) -> DataFrame:
    """Every range as a row for each stretch between two neighbouring edges (`place`) that it covers.

    A range is a row at its first edge, which carries its content, and a row at its end, which carries nothing but is
    needed to know where the stretch that begins there lies. `own` marks the row that knows the stretch's edges.
    """
    along = Window.partitionBy(*_KEY).orderBy("edge")
    same_end = Window.partitionBy(*_KEY, "end")
    place_of_end = F.max(F.when(F.col("edge") == F.col("end"), F.col("edge_place"))).over(same_end)
    covered = F.sequence(F.col("edge_place"), F.col("end_place") - 1)
    places = F.when(F.col("begins"), covered).otherwise(F.array("edge_place"))
    return (
        ranges.withColumn("edge", F.explode(F.array("first", "end")))
        .withColumn("begins", F.col("edge") == F.col("first"))
        .withColumn("edge_place", F.dense_rank().over(along))
        .withColumn("next_edge", F.lead("edge").over(along))
        .withColumn("end_place", place_of_end)
        .withColumn("place", F.explode(places))
        .withColumn("own", F.col("place") == F.col("edge_place"))
        .select(*_KEY, "place", "own", "begins", "edge", "next_edge", *_COPIES, *_TIMES)
    )


def _laid_over(pieces: DataFrame) -> DataFrame:
    """Equal pieces as one row. Between rows at the same edge `next_edge` repeats the edge: the highest is the next."""

    def content(name: str) -> Column:
        return F.when(F.col("begins"), F.col(name))

    copies = [F.coalesce(F.sum(content(name)), F.lit(0)).alias(name) for name in _COPIES]
    times = [F.min(content(name)).alias(name) for name in _TIMES]
    first = F.max(F.when(F.col("own"), F.col("edge"))).alias("first")
    end = F.max(F.when(F.col("own"), F.col("next_edge"))).alias("end")
    sent = F.col("confirmed") + F.col("unknown")
    received = F.col("fresh") + F.col("marked")
    return pieces.groupBy(*_KEY, "place").agg(first, end, *copies, *times).where(sent + received > 0)
