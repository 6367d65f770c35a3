"""Steadiness: why the rate of a run is not that of a steady state.

A run is steady if in its measure phase
- arrivals are copies x sends, within 5 % or what the senders send at once;
- the backlog does not grow;
- the warm-up was longer than the 99th percentile of latency (response time);
- the rate of arrivals has no trend.

Growth and trend are those of the parts of the measure phase, 20 at most. A part has whole slots of a fifth of a second:
long beside the time between two messages, so that the values of the parts hardly depend on each other. A trend is one
by the test of Mann and Kendall that is also worth a word: it changes the rate by more than 5 %, or adds more than 1 %
of the arrivals to the backlog. A measure phase of fewer than 10 slots (2 s) has no trend: nothing is known of it.
"""

from typing import Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as fn

from mqlab.pipeline.event_tables import NANOSECONDS, SLOT
from mqlab.pipeline.kernels.trend import CRITICAL, trends
from mqlab.pipeline.tables.audit import EventCounts
from mqlab.study.steadiness import MAX_GAP

_MOST_PARTS: Final = 20
_FEWEST_SLOTS: Final = 10
_MAX_CHANGE: Final = 0.05
_MAX_GROWTH: Final = 0.01


def unsteady(counts: EventCounts, audits: DataFrame, run_metrics: DataFrame) -> DataFrame:
    """(run, unsteady): the reason of each run that is not steady. `study.steadiness` says which runs are judged."""
    is_judged = (fn.col("load") == "both") & fn.col("messages").isNull() & fn.col("consume_rate").isNull()
    copies = audits.where("sent > 0").select("run", (fn.col("delivered") / fn.col("sent")).alias("copies"))
    judged = counts.points.where(is_judged).join(fn.broadcast(copies), "run").join(fn.broadcast(counts.windows), "run")
    p99 = run_metrics.where(fn.col("metric").isin("latency.p99", "response.p99")).groupBy("run").agg(
        fn.max("value").alias("p99")
    )  # fmt: skip
    found = trends(_parts(judged, counts.activity), "rate", "backlog")
    return (
        judged.join(fn.broadcast(_totals(counts.activity)), "run")
        .join(fn.broadcast(p99), "run", "left")
        .join(fn.broadcast(found), "run", "left")
        .select("run", fn.concat_ws("; ", _gap(), _growth(), _short_warmup(), _trend()).alias("unsteady"))
        .where("unsteady != ''")
    )


def _totals(activity: DataFrame) -> DataFrame:
    return (
        activity.where("measured")
        .groupBy("run")
        .agg(
            fn.sum("sent").alias("sent"), fn.sum("received").alias("received"), fn.max("largest_batch").alias("at_once")
        )
    )


def _parts(judged: DataFrame, activity: DataFrame) -> DataFrame:
    """(run, place, rate, backlog) of the parts of each measure phase that is long enough.

    `rate`: arrivals in the part, of the mean part. `backlog`: copies sent less arrivals since the first part began, of
    all arrivals.
    """
    first = fn.ceil((fn.col("measure_start") - fn.col("load_start")) / SLOT)
    slots = fn.floor((fn.col("measure_end") - fn.col("load_start")) / SLOT) - first
    by_slot = activity.groupBy("run", "slot").agg(fn.sum("sent").alias("sent"), fn.sum("received").alias("received"))
    parts = (
        judged.withColumns({"first": first, "slots": slots})
        .where(fn.col("slots") >= _FEWEST_SLOTS)
        .withColumn("length", fn.greatest(fn.floor(fn.col("slots") / _MOST_PARTS), fn.lit(1)))
        .select("run", "copies", "first", "length", fn.floor(fn.col("slots") / fn.col("length")).alias("parts"))
    )
    place = fn.floor((fn.col("slot") - fn.col("first")) / fn.col("length"))
    counted = (
        parts.join(fn.broadcast(by_slot), "run")
        .withColumn("place", place)
        .groupBy("run", "place")
        .agg(fn.sum("sent").alias("sent"), fn.sum("received").alias("received"))
    )
    whole = Window.partitionBy("run")
    growth = fn.col("copies") * fn.col("sent") - fn.col("received")
    return (
        parts.withColumn("place", fn.explode(fn.sequence(fn.lit(0).cast("long"), fn.col("parts") - 1)))
        .join(fn.broadcast(counted), ["run", "place"], "left")
        .fillna(0, ["sent", "received"])
        .withColumn(
            "backlog", fn.try_divide(fn.sum(growth).over(whole.orderBy("place")), fn.sum("received").over(whole))
        )
        .withColumn("rate", fn.try_divide(fn.col("received"), fn.avg("received").over(whole)))
        .select("run", "place", "rate", "backlog")
    )


def _gap() -> Column:
    expected = fn.col("copies") * fn.col("sent")
    gap = fn.col("received") - expected
    senders = fn.col("producers") + fn.col("requesters")
    # Messages that a sender sends at once may be counted before the edge of the phase, and arrive behind it.
    most = fn.greatest(MAX_GAP * expected, fn.col("copies") * fn.col("at_once") * senders)
    more = fn.when(gap > 0, "more").otherwise("less")
    text = fn.concat(
        _percent(fn.try_divide(fn.abs(gap), expected)), fn.lit(" "), more, fn.lit(" arrived than was sent")
    )
    none = fn.lit("nothing was sent while messages came")
    return fn.when(fn.abs(gap) > most, fn.when(expected == 0, none).otherwise(text))


def _growth() -> Column:
    grows = (fn.col("backlog_score") > CRITICAL) & (fn.col("backlog_change") > _MAX_GROWTH)
    growth = _percent(fn.col("backlog_change"))
    return fn.when(grows, fn.concat(fn.lit("the backlog grew by "), growth, fn.lit(" of the arrivals")))


def _short_warmup() -> Column:
    warmup = (fn.col("measure_start") - fn.col("load_start")) / NANOSECONDS
    text = fn.format_string("a hundredth took %.3g s or longer, the warm-up %.3g s", fn.col("p99"), warmup)
    return fn.when(fn.col("p99") > warmup, text)


def _trend() -> Column:
    changes = (fn.col("rate_score") > CRITICAL) & (fn.abs("rate_change") > _MAX_CHANGE)
    direction = fn.when(fn.col("rate_change") > 0, "rose").otherwise("fell")
    return fn.when(changes, fn.concat(fn.lit("the rate "), direction, fn.lit(" by "), _percent(fn.abs("rate_change"))))


def _percent(share: Column) -> Column:
    return fn.format_string("%.1f %%", share * 100)
