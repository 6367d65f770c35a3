"""The heart: what became of every message, for every subscription that had to get it, without a row for each message.

Sends and receipts are ranges of sequence numbers that may lie over each other in any way. Every range is cut wherever
any range of its producer, destination and subscription begins or ends. Two pieces then either are the same stretch of
messages or share none, so that grouping equal pieces counts exactly how often each stretch was sent and received, and
finds the first time of each. This costs one shuffle and two sorts; a join of overlapping ranges could cost the square.
Where every message moved alone, as with requests and replies, there is nothing to cut, and grouping is all.
"""

from typing import Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as fn

from mqlab.events.schema import CONFIRMED, UNKNOWN

# A producer's sequence is also cut at every 2^22 messages, so that one busy producer is work for many tasks.
BLOCK_BITS: Final = 22
# The subscription of a receipt whose consumer had no business at that destination: nothing is ever sent to it.
NO_SUBSCRIPTION: Final = -1

_KEY: Final = ("run", "destination", "producer", "subscription", "block")
_COPIES: Final = ("confirmed", "unknown", "fresh", "marked", "late")
_TIMES: Final = ("t_planned", "t_received")
_RANGE: Final = ("run", "destination", "producer", "subscription", "first", "end", *_COPIES, *_TIMES)


def segments(sends: DataFrame, receipts: DataFrame, roles: DataFrame, alone: bool = False) -> DataFrame:
    """Stretches [first, end) of messages with one fate at one subscription.

    With `alone`, every row of `sends` and `receipts` must be of a single message: it is several times as fast.

    `confirmed`, `unknown`: how often they were sent so; what was refused or rolled back counts as not sent.
    `fresh`, `marked`: copies received without and with the redelivered mark; `late`: fresh copies that a consumer
    got after it already had a later message. `t_planned`, `t_received`: the first of each, null where there is none.
    """
    consumers = roles.where(fn.col("role") == "consumer").select(
        "run", fn.col("number").alias("consumer"), "destination", "subscription"
    )
    ranges = _sent(sends, consumers).unionByName(_received(receipts, consumers))
    found = _grouped(ranges) if alone else _laid_over(_cut(_merged(_in_blocks(ranges))))
    return found.select(*_RANGE)


def _sent(sends: DataFrame, consumers: DataFrame) -> DataFrame:
    """Each send once for every subscription of its destination, whether or not that ever received anything."""
    subscriptions = consumers.select("run", "destination", "subscription").distinct()
    return (
        sends.where(fn.col("outcome").isin(CONFIRMED, UNKNOWN))
        .join(fn.broadcast(subscriptions), ["run", "destination"])
        .withColumns(_extent() | _nothing())
        .withColumn("confirmed", (fn.col("outcome") == CONFIRMED).cast("int"))
        .withColumn("unknown", (fn.col("outcome") == UNKNOWN).cast("int"))
        .withColumn("t_received", fn.lit(None).cast("long"))
        .select(*_RANGE)
    )


def _received(receipts: DataFrame, consumers: DataFrame) -> DataFrame:
    """Each receipt as its late part and the part that came in its turn."""
    earlier = (
        Window.partitionBy("run", "consumer", "destination", "producer")
        .orderBy("ordinal", "first")
        .rowsBetween(Window.unboundedPreceding, -1)
    )
    # Late is all below the highest that had come before, unless it is marked: what is redelivered may come late.
    latest_before = fn.coalesce(fn.max("end").over(earlier) - 1, fn.col("first"))
    in_turn_from = fn.greatest(fn.col("first"), fn.least(fn.col("end"), fn.col("latest_before")))
    return (
        receipts.join(fn.broadcast(consumers), ["run", "consumer", "destination"], "left")
        .withColumns(_extent() | _nothing())
        .withColumn("latest_before", latest_before)
        .withColumn("turn", fn.when(fn.col("redelivered"), fn.col("first")).otherwise(in_turn_from))
        .withColumn("part", fn.explode(fn.array(_part("first", "turn", 1), _part("turn", "end", 0))))
        .withColumn("first", fn.col("part.first"))
        .withColumn("end", fn.col("part.end"))
        .withColumn("late", fn.col("part.late"))
        .withColumn("subscription", fn.coalesce("subscription", fn.lit(NO_SUBSCRIPTION)))
        .withColumn("fresh", (~fn.col("redelivered")).cast("int"))
        .withColumn("marked", fn.col("redelivered").cast("int"))
        .withColumn("t_planned", fn.lit(None).cast("long"))
        .select(*_RANGE)
    )


def _extent() -> dict[str, Column]:
    return {"first": fn.col("first_seq"), "end": fn.col("first_seq") + fn.col("count")}


def _nothing() -> dict[str, Column]:
    return {name: fn.lit(0) for name in _COPIES}


def _part(first: str, end: str, late: int) -> Column:
    return fn.struct(fn.col(first).alias("first"), fn.col(end).alias("end"), fn.lit(late).alias("late"))


def _in_blocks(ranges: DataFrame) -> DataFrame:
    """The ranges that hold anything, cut at the edges of the blocks."""
    first_block = fn.shiftright("first", BLOCK_BITS)
    last_block = fn.shiftright(fn.col("end") - 1, BLOCK_BITS)
    return (
        ranges.where(fn.col("first") < fn.col("end"))
        .withColumn("block", fn.explode(fn.sequence(first_block, last_block)))
        .withColumn("block_start", fn.shiftleft("block", BLOCK_BITS))
        .withColumn("first", fn.greatest("first", "block_start"))
        .withColumn("end", fn.least("end", fn.col("block_start") + (1 << BLOCK_BITS)))
        .select("block", *_RANGE)
    )


def _merged(ranges: DataFrame) -> DataFrame:
    """One row for equal ranges. Batches mostly arrive as they left, so this halves the work of the cutting."""
    # All that follows happens within a key: with this one shuffle Spark needs no other.
    return ranges.repartition(*_KEY).groupBy(*_KEY, "first", "end").agg(*_content())


def _grouped(singles: DataFrame) -> DataFrame:
    return (
        singles.where(fn.col("first") < fn.col("end"))
        .groupBy("run", "destination", "producer", "subscription", "first", "end")
        .agg(*_content())
    )


def _content() -> list[Column]:
    """Of equal ranges: how often they were sent and received, and the first time of each."""
    return [fn.sum(name).alias(name) for name in _COPIES] + [fn.min(name).alias(name) for name in _TIMES]


def _cut(ranges: DataFrame) -> DataFrame:
    """Every range as a row for each stretch between two neighbouring edges (`place`) that it covers.

    A range is a row at its first edge, which carries its content, and a row at its end, which carries nothing but is
    needed to know where the stretch that begins there lies. `own` marks the row that knows the stretch's edges.
    """
    along = Window.partitionBy(*_KEY).orderBy("edge")
    same_end = Window.partitionBy(*_KEY, "end")
    place_of_end = fn.max(fn.when(fn.col("edge") == fn.col("end"), fn.col("edge_place"))).over(same_end)
    covered = fn.sequence(fn.col("edge_place"), fn.col("end_place") - 1)
    places = fn.when(fn.col("begins"), covered).otherwise(fn.array("edge_place"))
    return (
        ranges.withColumn("edge", fn.explode(fn.array("first", "end")))
        .withColumn("begins", fn.col("edge") == fn.col("first"))
        .withColumn("edge_place", fn.dense_rank().over(along))
        .withColumn("next_edge", fn.lead("edge").over(along))
        .withColumn("end_place", place_of_end)
        .withColumn("place", fn.explode(places))
        .withColumn("own", fn.col("place") == fn.col("edge_place"))
        .select(*_KEY, "place", "own", "begins", "edge", "next_edge", *_COPIES, *_TIMES)
    )


def _laid_over(pieces: DataFrame) -> DataFrame:
    """Equal pieces as one row. Between rows at the same edge `next_edge` repeats the edge: the highest is the next."""

    def content(name: str) -> Column:
        return fn.when(fn.col("begins"), fn.col(name))

    copies = [fn.coalesce(fn.sum(content(name)), fn.lit(0)).alias(name) for name in _COPIES]
    times = [fn.min(content(name)).alias(name) for name in _TIMES]
    first = fn.max(fn.when(fn.col("own"), fn.col("edge"))).alias("first")
    end = fn.max(fn.when(fn.col("own"), fn.col("next_edge"))).alias("end")
    sent = fn.col("confirmed") + fn.col("unknown")
    received = fn.col("fresh") + fn.col("marked")
    return pieces.groupBy(*_KEY, "place").agg(first, end, *copies, *times).where(sent + received > 0)
