"""What the broker and the agents used during the measure phase, and which of it held the run back."""

from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from mqlab.pipeline.metrics import as_metrics
from mqlab.pipeline.tables import NANOSECONDS, within_measure

# A core this busy has no room left for more: the rest goes to the scheduler and to waiting between batches.
BUSY: Final = 85.0
# Above this share of its time inside a sync, a broker waits for the disk more than for anything else.
SYNCING: Final = 60.0


def usage(samples: DataFrame, spans: DataFrame) -> DataFrame:
    """One row a run: percent of one core, bytes, syncs a second, percent of the time inside a sync; null if unknown.

    Counters are taken between the first and the last sample of a source within the measure phase.
    """
    broker = F.col("source") == "broker"
    agent = F.col("source").startswith("agent-")
    return (
        _by_source(samples, spans)
        .groupBy("run")
        .agg(
            F.max(F.when(broker, F.col("cpu"))).alias("cpu_broker"),
            _steady_sum(F.when(agent, F.col("cpu"))).alias("cpu_agents"),
            F.max(F.when(agent, F.col("cpu"))).alias("cpu_busiest_agent"),
            F.max(F.when(broker, F.col("rss"))).alias("rss_broker"),
            F.sum(F.when(agent, F.col("rss"))).alias("rss_agents"),
            F.max(F.when(broker, F.col("syncs"))).alias("syncs"),
            F.max(F.when(broker, F.col("sync_share"))).alias("sync_share"),
        )
        .select(
            "run", "cpu_broker", "cpu_agents", "cpu_busiest_agent", "rss_broker", "rss_agents", "syncs", "sync_share"
        )
    )


def resources(usage: DataFrame) -> DataFrame:
    """(run, metric, value): cpu.*, rss.*, syncs, sync.share."""
    return as_metrics(
        usage,
        {
            "cpu.broker": F.col("cpu_broker"),
            "cpu.agents": F.col("cpu_agents"),
            "rss.broker": F.col("rss_broker"),
            "rss.agents": F.col("rss_agents"),
            "syncs": F.col("syncs"),
            "sync.share": F.col("sync_share"),
        },
    ).select("run", "metric", "value")


def bounds(usage: DataFrame, cores: int) -> DataFrame:
    """(run, bound_by): disk, client or broker; null where none of them was at its limit.

    A network as the limit would need the speed of the link, which no sample tells.
    """
    busiest_agent = F.coalesce(F.col("cpu_busiest_agent"), F.lit(0.0))
    agents = F.coalesce(F.col("cpu_agents"), F.lit(0.0))
    broker = F.coalesce(F.col("cpu_broker"), F.lit(0.0))
    # All cores shared by all: neither side need fill one of its own to hold the other back.
    machine_full = agents + broker >= BUSY * cores
    bound_by = (
        F.when(F.col("sync_share") >= SYNCING, "disk")
        .when((busiest_agent >= BUSY) & (busiest_agent >= broker), "client")
        .when(broker >= BUSY, "broker")
        .when(machine_full & (agents > broker), "client")
        .when(machine_full, "broker")
    )
    return usage.withColumn("bound_by", bound_by).select("run", "bound_by")


def _by_source(samples: DataFrame, spans: DataFrame) -> DataFrame:
    def gain(counter: str) -> Column:
        return F.max_by(counter, "t") - F.min_by(counter, "t")

    seconds = F.col("nanoseconds") / NANOSECONDS
    return (
        samples.join(F.broadcast(spans), "run")
        .where(within_measure(F.col("t")))
        .groupBy("run", "source")
        .agg(
            (F.max("t") - F.min("t")).alias("nanoseconds"),
            gain("cpu_seconds").alias("cpu_seconds"),
            gain("syncs").alias("sync_count"),
            gain("sync_seconds").alias("sync_seconds"),
            F.max("rss").alias("rss"),
        )
        .where(F.col("nanoseconds") > 0)
        .withColumn("cpu", 100 * F.col("cpu_seconds") / seconds)
        .withColumn("syncs", F.col("sync_count") / seconds)
        .withColumn("sync_share", 100 * F.col("sync_seconds") / seconds)
        .select("run", "source", "cpu", "rss", "syncs", "sync_share")
    )


def _steady_sum(values: Column) -> Column:
    """A sum of fractions whose last digit does not depend on the order of the rows; null without any."""
    in_order = F.array_sort(F.collect_list(values))
    total = F.aggregate(in_order, F.lit(0.0), lambda total, value: total + value)
    return F.when(F.size(in_order) > 0, total)
