"""What the broker and the agents used during the measure phase, and which of it held the run back."""

from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as fn

from mqlab.pipeline.event_tables import NANOSECONDS, within_measure
from mqlab.pipeline.metrics import as_metrics
from mqlab.pipeline.tables.broker_samples import is_broker

# A core this busy has no room left for more: the rest goes to the scheduler and to waiting between batches.
BUSY: Final = 85.0
# This near to what a driver reaches with a peer that does nothing, the rate is the driver's.
CALIBRATED: Final = 0.85
# Above this share of its time inside a sync, a broker waits for the disk more than for anything else.
SYNCING: Final = 60.0
# Of the line's speed; a part of it goes to what the interface does not count.
FULL: Final = 90.0

_USED: Final = (
    "cpu_broker", "cpu_busiest_broker", "cpu_agents", "cpu_busiest_agent", "cpu_all", "rss_broker", "rss_agents",
    "syncs", "sync_share", "disk_share", "network_share", "holds", "held_seconds",
)  # fmt: skip


def usage(samples: DataFrame, spans: DataFrame) -> DataFrame:
    """One row a run: percent of one core, bytes, syncs a second, percent of the time inside a sync; null if unknown.

    Counters are taken between the first and the last sample of a source within the measure phase. Several brokers
    count together; `sync_share` is of the one that syncs most, `disk_share` the time that anybody on the machine
    waited for the disk, `network_share` how much of the line to a system elsewhere was used, the busier way of it. An
    agent that hosts a broker is sampled as the broker.
    """
    is_agent = fn.col("source").startswith("agent-")

    def brokers(name: str) -> Column:
        return fn.when(is_broker(fn.col("source")), fn.col(name))

    def agents(name: str) -> Column:
        return fn.when(is_agent, fn.col(name))

    return (
        _by_source(samples, spans)
        .groupBy("run")
        .agg(
            _steady_sum(brokers("cpu")).alias("cpu_broker"),
            fn.max(brokers("cpu")).alias("cpu_busiest_broker"),
            _steady_sum(agents("cpu")).alias("cpu_agents"),
            fn.max(agents("cpu")).alias("cpu_busiest_agent"),
            _steady_sum(fn.col("cpu")).alias("cpu_all"),
            fn.sum(brokers("rss")).alias("rss_broker"),
            fn.sum(agents("rss")).alias("rss_agents"),
            _steady_sum(brokers("syncs")).alias("syncs"),
            fn.max(brokers("sync_share")).alias("sync_share"),
            fn.max(fn.when(fn.col("source") == "disk", fn.col("sync_share"))).alias("disk_share"),
            fn.max(fn.when(fn.col("source").startswith("network-"), fn.col("sync_share"))).alias("network_share"),
            _steady_sum(brokers("holds")).alias("holds"),
            _steady_sum(brokers("held_seconds")).alias("held_seconds"),
        )
        .select("run", *_USED)
    )


def resources(usage: DataFrame, totals: DataFrame) -> DataFrame:
    """(run, metric, value): cpu.*, rss.*, syncs, sync.share, and how producers were held back: holds, held.seconds."""
    # Of a system that cannot be sampled, what a message costs is not known.
    cores_used = fn.when(fn.col("cpu_broker").isNotNull(), fn.col("cpu_all")) / 100
    worked = fn.when(fn.col("work") > 0, fn.col("work") / fn.col("seconds"))
    return as_metrics(
        usage.join(fn.broadcast(totals), "run", "left"),
        {
            "cpu.broker": fn.col("cpu_broker"),
            "cpu.agents": fn.col("cpu_agents"),
            "cpu.message": cores_used / worked,
            "rss.broker": fn.col("rss_broker"),
            "rss.agents": fn.col("rss_agents"),
            "syncs": fn.col("syncs"),
            "sync.share": fn.col("sync_share"),
            "holds": fn.col("holds"),
            "held.seconds": fn.col("held_seconds"),
        },
    ).select("run", "metric", "value")


def bounds(usage: DataFrame, totals: DataFrame, points: DataFrame, calibrations: DataFrame, cores: int) -> DataFrame:
    """(run, bound_by, client_cpu): network, disk, client or broker, null where none of them was at its limit; and
    whether an agent was above what its point allows a client, null where that is not said or not known.

    A system that does not count its syncs is bound by the disk if the machine waited for it as long; the disk of one
    that cannot be sampled may be elsewhere. A network is the limit only where the speed of the line is known.
    """
    busiest_agent = fn.coalesce(fn.col("cpu_busiest_agent"), fn.lit(0.0))
    busiest_broker = fn.coalesce(fn.col("cpu_busiest_broker"), fn.lit(0.0))
    agents = fn.coalesce(fn.col("cpu_agents"), fn.lit(0.0))
    broker = fn.coalesce(fn.col("cpu_broker"), fn.lit(0.0))
    machines_disk = fn.when(fn.col("cpu_broker").isNotNull(), fn.col("disk_share"))
    # All cores shared by all: neither side need fill one of its own to hold the other back.
    machine_full = fn.col("cpu_all") >= BUSY * cores
    bound_by = (
        fn.when(fn.col("network_share") >= FULL, "network")
        .when(fn.coalesce(fn.col("sync_share"), machines_disk) >= SYNCING, "disk")
        .when(fn.col("at_driver"), "client")
        .when((busiest_agent >= BUSY) & (busiest_agent >= busiest_broker), "client")
        .when(busiest_broker >= BUSY, "broker")
        .when(machine_full & (agents > broker), "client")
        .when(machine_full, "broker")
    )
    allowed = points.select("run", fn.col("client_cpu").alias("allowed"))
    return (
        usage.join(fn.broadcast(allowed), "run", "left")
        .join(fn.broadcast(_at_driver(totals, points, calibrations)), "run", "left")
        .withColumn("bound_by", bound_by)
        .withColumn("client_cpu", fn.col("cpu_busiest_agent") > fn.col("allowed"))
        .select("run", "bound_by", "client_cpu")
    )


def _at_driver(totals: DataFrame, points: DataFrame, calibrations: DataFrame) -> DataFrame:
    """(run, at_driver): whether a producer or a consumer moved nearly what its driver moves at most."""
    names = ("system", "size", "batch", "of_domain")
    most = calibrations.select(*names, *(fn.col(n).alias(f"most_{n}") for n in ("sent", "received")))
    moved = totals.select("run", "seconds", "sent", "received")

    def near(what: str, roles: str) -> Column:
        # Requesters and responders are neither producers nor consumers.
        each = fn.try_divide(fn.col(what) / fn.col("seconds"), fn.col(roles))
        return each >= CALIBRATED * fn.col(f"most_{what}")

    at_driver = fn.coalesce(near("sent", "producers"), fn.lit(False)) | fn.coalesce(
        near("received", "consumers"), fn.lit(False)
    )
    return (
        points.select("run", "system", "size", "batch", "domain", "producers", "consumers")
        .join(fn.broadcast(most), ["system", "size", "batch"])
        .where(fn.col("of_domain").isin("", fn.col("domain")))
        .join(fn.broadcast(moved), "run")
        .select("run", at_driver.alias("at_driver"))
    )


def _by_source(samples: DataFrame, spans: DataFrame) -> DataFrame:
    def gain(counter: str) -> Column:
        return fn.max_by(counter, "t") - fn.min_by(counter, "t")

    seconds = fn.col("nanoseconds") / NANOSECONDS
    return (
        samples.join(fn.broadcast(spans), "run")
        .where(within_measure(fn.col("t")))
        .groupBy("run", "source")
        .agg(
            (fn.max("t") - fn.min("t")).alias("nanoseconds"),
            gain("cpu_seconds").alias("cpu_seconds"),
            gain("syncs").alias("sync_count"),
            gain("sync_seconds").alias("sync_seconds"),
            gain("holds").cast("double").alias("holds"),
            gain("held_seconds").alias("held_seconds"),
            fn.max("rss").alias("rss"),
        )
        .where(fn.col("nanoseconds") > 0)
        .withColumn("cpu", 100 * fn.col("cpu_seconds") / seconds)
        .withColumn("syncs", fn.col("sync_count") / seconds)
        .withColumn("sync_share", 100 * fn.col("sync_seconds") / seconds)
        .select("run", "source", "cpu", "rss", "syncs", "sync_share", "holds", "held_seconds")
    )


def _steady_sum(values: Column) -> Column:
    """A sum of fractions whose last digit does not depend on the order of the rows; null without any."""
    in_order = fn.array_sort(fn.collect_list(values))
    total = fn.aggregate(in_order, fn.lit(0.0), lambda total, value: total + value)
    return fn.when(fn.size(in_order) > 0, total)
