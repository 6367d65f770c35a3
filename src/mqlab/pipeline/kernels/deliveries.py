"""Matching of sends and receipts: the delivery of every message to every subscription, without a row for each message.

Sends and receipts are ranges of sequence numbers that overlap in any way. Every range is cut wherever a range of the
same producer, destination and subscription begins or ends. Two pieces are then either the same segment of messages or
disjoint, so that grouping equal pieces counts exactly how often each segment was sent and received, and finds the
first time of each. This costs one shuffle and two sorts; a join of overlapping ranges could cost the square.
"""

from typing import Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as fn

from mqlab.events.schema import CONFIRMED, UNKNOWN

# The sequence of a producer is also cut every 2^22 messages, so that several tasks share the work of one producer.
BLOCK_BITS: Final = 22
# The subscription of a receipt from a destination that its consumer does not read: no send has it.
NO_SUBSCRIPTION: Final = -1

_KEY: Final = ("run", "destination", "producer", "subscription", "block")
_COPIES: Final = ("confirmed", "unknown", "fresh", "marked", "late")
_TIMES: Final = ("t_planned", "t_sent", "t_received")
_RANGE: Final = ("run", "destination", "producer", "subscription", "first", "end", *_COPIES, *_TIMES)


def segments(sends: DataFrame, receipts: DataFrame, roles: DataFrame) -> DataFrame:
    """Return segments [first, end) of messages that were sent and received alike at one subscription.

    `confirmed`, `unknown`: how often they were sent with this outcome (sends that were refused or rolled back do not
    count). `fresh`, `marked`: copies received without and with the redelivered mark. `late`: fresh copies that a
    consumer received after a later message. `t_planned`, `t_sent`, `t_received`: the first of each, or null.
    """
    consumers = roles.where(fn.col("role") == "consumer").select(
        "run", fn.col("number").alias("consumer"), "destination", "subscription"
    )
    ranges = _sent_ranges(sends, consumers).unionByName(_received_ranges(receipts, consumers))
    return _combine_pieces(_cut_at_edges(_merge_equal(_split_into_blocks(ranges)))).select(*_RANGE)


def _sent_ranges(sends: DataFrame, consumers: DataFrame) -> DataFrame:
    """Each send once for every subscription of its destination, even if the subscription received no message."""
    subscriptions = consumers.select("run", "destination", "subscription").distinct()
    return (
        sends.where(fn.col("outcome").isin(CONFIRMED, UNKNOWN))
        .join(fn.broadcast(subscriptions), ["run", "destination"])
        .withColumns(_extent() | _no_copies())
        .withColumn("confirmed", (fn.col("outcome") == CONFIRMED).cast("int"))
        .withColumn("unknown", (fn.col("outcome") == UNKNOWN).cast("int"))
        .withColumn("t_received", fn.lit(None).cast("long"))
        .select(*_RANGE)
    )


def _received_ranges(receipts: DataFrame, consumers: DataFrame) -> DataFrame:
    """Each receipt as two ranges: its late messages, and those in order."""
    earlier = (
        Window.partitionBy("run", "consumer", "destination", "producer")
        .orderBy("ordinal", "first")
        .rowsBetween(Window.unboundedPreceding, -1)
    )
    # A message below the highest one received before is late, unless it is marked as redelivered.
    latest_before = fn.coalesce(fn.max("end").over(earlier) - 1, fn.col("first"))
    in_order_from = fn.greatest(fn.col("first"), fn.least(fn.col("end"), fn.col("latest_before")))
    return (
        receipts.join(fn.broadcast(consumers), ["run", "consumer", "destination"], "left")
        .withColumns(_extent() | _no_copies())
        .withColumn("latest_before", latest_before)
        .withColumn("order_start", fn.when(fn.col("redelivered"), fn.col("first")).otherwise(in_order_from))
        .withColumn("part", fn.explode(fn.array(_part("first", "order_start", 1), _part("order_start", "end", 0))))
        .withColumn("first", fn.col("part.first"))
        .withColumn("end", fn.col("part.end"))
        .withColumn("late", fn.col("part.late"))
        .withColumn("subscription", fn.coalesce("subscription", fn.lit(NO_SUBSCRIPTION)))
        .withColumn("fresh", (~fn.col("redelivered")).cast("int"))
        .withColumn("marked", fn.col("redelivered").cast("int"))
        .withColumns({name: fn.lit(None).cast("long") for name in ("t_planned", "t_sent")})
        .select(*_RANGE)
    )


def _extent() -> dict[str, Column]:
    return {"first": fn.col("first_seq"), "end": fn.col("first_seq") + fn.col("count")}


def _no_copies() -> dict[str, Column]:
    return {name: fn.lit(0) for name in _COPIES}


def _part(first: str, end: str, late: int) -> Column:
    return fn.struct(fn.col(first).alias("first"), fn.col(end).alias("end"), fn.lit(late).alias("late"))


def _split_into_blocks(ranges: DataFrame) -> DataFrame:
    """Return the ranges that are not empty, cut at the edges of the blocks."""
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


def _merge_equal(ranges: DataFrame) -> DataFrame:
    """Return one row for equal ranges. Most batches are received as they were sent: this halves the work of cutting."""
    # All later steps stay within a key, so this is the only shuffle.
    return ranges.repartition(*_KEY).groupBy(*_KEY, "first", "end").agg(*_aggregates())


def _aggregates() -> list[Column]:
    """The aggregates over equal ranges: how often they were sent and received, and the first time of each."""
    return [fn.sum(name).alias(name) for name in _COPIES] + [fn.min(name).alias(name) for name in _TIMES]


def _cut_at_edges(ranges: DataFrame) -> DataFrame:
    """Return, for every range, a row for each piece between two neighbouring edges (`place`) that it covers.

    A range becomes a row at its first edge, which has its counts, and a row at its end, which has none but gives the
    edges of the piece that begins there. `own` marks the row that has the edges of the piece.
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


def _combine_pieces(pieces: DataFrame) -> DataFrame:
    """Return one row for equal pieces. Rows at the same edge repeat it as `next_edge`: the highest is the next edge."""

    def if_begins(name: str) -> Column:
        return fn.when(fn.col("begins"), fn.col(name))

    copies = [fn.coalesce(fn.sum(if_begins(name)), fn.lit(0)).alias(name) for name in _COPIES]
    times = [fn.min(if_begins(name)).alias(name) for name in _TIMES]
    first = fn.max(fn.when(fn.col("own"), fn.col("edge"))).alias("first")
    end = fn.max(fn.when(fn.col("own"), fn.col("next_edge"))).alias("end")
    sent = fn.col("confirmed") + fn.col("unknown")
    received = fn.col("fresh") + fn.col("marked")
    return pieces.groupBy(*_KEY, "place").agg(first, end, *copies, *times).where(sent + received > 0)
