"""Resources of the broker and the agents during the measure phase, and the bottleneck of each run."""

from typing import Final

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as fn

from mqlab.json_values import JsonObject
from mqlab.pipeline.event_tables import NANOSECONDS, within_measure
from mqlab.pipeline.metrics import to_metric_rows
from mqlab.pipeline.tables.broker_samples import is_broker

# A process that uses this much of a core is at its limit: the rest is scheduling and waiting between batches.
BUSY_PERCENT: Final = 85.0
# A rate above this share of what the driver reaches with a null server is limited by the driver.
DRIVER_SHARE: Final = 0.85
# A broker that is inside a sync for a greater share of the time is limited by the disk.
SYNC_PERCENT: Final = 60.0
# Of the speed of the line; the interface does not count all that the line carries.
NETWORK_PERCENT: Final = 90.0

_CALIBRATIONS: Final = "system string, size bigint, of_domain string, sent double, received double"


def usage(samples: DataFrame, windows: DataFrame) -> DataFrame:
    """One row for each run: percent of one core, bytes, syncs a second, percent of the time inside a sync; or null.

    Counters are the increase between the first and the last sample of a source within the measure phase, summed over
    several brokers. `sync_share` is that of the broker that syncs most, `disk_share` the share of the time in which any
    process of the machine waited for the disk, `network_share` the use of the line to a remote system in its busier
    direction. An agent that hosts a broker is sampled as the broker.
    """
    is_agent = fn.col("source").startswith("agent-")

    def brokers(name: str) -> Column:
        return fn.when(is_broker(fn.col("source")), fn.col(name))

    def agents(name: str) -> Column:
        return fn.when(is_agent, fn.col(name))

    return (
        _by_source(samples, windows)
        .groupBy("run")
        .agg(
            _ordered_sum(brokers("cpu")).alias("cpu_broker"),
            fn.max(brokers("cpu")).alias("cpu_busiest_broker"),
            _ordered_sum(agents("cpu")).alias("cpu_agents"),
            fn.max(agents("cpu")).alias("cpu_busiest_agent"),
            _ordered_sum(fn.col("cpu")).alias("cpu_all"),
            fn.sum(brokers("rss")).alias("rss_broker"),
            fn.sum(agents("rss")).alias("rss_agents"),
            _ordered_sum(brokers("syncs")).alias("syncs"),
            fn.max(brokers("sync_share")).alias("sync_share"),
            fn.max(fn.when(fn.col("source") == "disk", fn.col("sync_share"))).alias("disk_share"),
            fn.max(fn.when(fn.col("source").startswith("network-"), fn.col("sync_share"))).alias("network_share"),
            _ordered_sum(brokers("holds")).alias("holds"),
            _ordered_sum(brokers("held_seconds")).alias("held_seconds"),
        )
    )


def resources(usage: DataFrame, totals: DataFrame) -> DataFrame:
    """(run, metric, value): cpu.*, rss.*, syncs, sync.share, holds and held.seconds."""
    # Without samples of the system, the CPU time of a message is unknown.
    cores_used = fn.when(fn.col("cpu_broker").isNotNull(), fn.col("cpu_all")) / 100
    work_rate = fn.when(fn.col("work") > 0, fn.col("work") / fn.col("seconds"))
    return to_metric_rows(
        usage.join(fn.broadcast(totals), "run", "left"),
        {
            "cpu.broker": fn.col("cpu_broker"),
            "cpu.agents": fn.col("cpu_agents"),
            "cpu.message": cores_used / work_rate,
            "rss.broker": fn.col("rss_broker"),
            "rss.agents": fn.col("rss_agents"),
            "syncs": fn.col("syncs"),
            "sync.share": fn.col("sync_share"),
            "holds": fn.col("holds"),
            "held.seconds": fn.col("held_seconds"),
        },
    )


def bottlenecks(
    usage: DataFrame, totals: DataFrame, points: DataFrame, calibrations: DataFrame, cores: int
) -> DataFrame:
    """(run, bound_by, client_cpu): the bottleneck (network, disk, client, broker or null: none was at its limit), and
    whether an agent used more CPU than its point allows (null where there is no limit, or no sample).

    For a system that does not count its syncs, the waiting time of the machine's disk decides, unless the system cannot
    be sampled: its disk may be on another machine. The network counts only where the speed of the line is known.
    """
    busiest_agent = fn.coalesce(fn.col("cpu_busiest_agent"), fn.lit(0.0))
    busiest_broker = fn.coalesce(fn.col("cpu_busiest_broker"), fn.lit(0.0))
    agents = fn.coalesce(fn.col("cpu_agents"), fn.lit(0.0))
    broker = fn.coalesce(fn.col("cpu_broker"), fn.lit(0.0))
    machine_disk = fn.when(fn.col("cpu_broker").isNotNull(), fn.col("disk_share"))
    # All cores are busy: a side can limit the other without filling a core of its own.
    machine_full = fn.col("cpu_all") >= BUSY_PERCENT * cores
    bound_by = (
        fn.when(fn.col("network_share") >= NETWORK_PERCENT, "network")
        .when(fn.coalesce(fn.col("sync_share"), machine_disk) >= SYNC_PERCENT, "disk")
        .when(fn.col("driver_limited"), "client")
        .when((busiest_agent >= BUSY_PERCENT) & (busiest_agent >= busiest_broker), "client")
        .when(busiest_broker >= BUSY_PERCENT, "broker")
        .when(machine_full & (agents > broker), "client")
        .when(machine_full, "broker")
    )
    allowed = points.select("run", fn.col("client_cpu").alias("allowed"))
    return (
        usage.join(fn.broadcast(allowed), "run", "left")
        .join(fn.broadcast(_driver_limited(totals, points, calibrations)), "run", "left")
        .withColumn("bound_by", bound_by)
        .withColumn("client_cpu", fn.col("cpu_busiest_agent") > fn.col("allowed"))
        .select("run", "bound_by", "client_cpu")
    )


def _driver_limited(totals: DataFrame, points: DataFrame, calibrations: DataFrame) -> DataFrame:
    """(run, driver_limited): whether a producer or a consumer came near the highest rate of its driver."""
    names = ("system", "size", "of_domain")
    most = calibrations.select(*names, *(fn.col(n).alias(f"most_{n}") for n in ("sent", "received")))
    moved = totals.select("run", "seconds", "sent", "received")

    def is_near(direction: str, roles: str) -> Column:
        # Null for requesters and responders: their points have no producers or consumers.
        each = fn.try_divide(fn.col(direction) / fn.col("seconds"), fn.col(roles))
        return each >= DRIVER_SHARE * fn.col(f"most_{direction}")

    driver_limited = fn.coalesce(is_near("sent", "producers"), fn.lit(False)) | fn.coalesce(
        is_near("received", "consumers"), fn.lit(False)
    )
    return (
        points.select("run", "system", "size", "domain", "producers", "consumers")
        .join(fn.broadcast(most), ["system", "size"])
        .where(fn.col("of_domain").isin("", fn.col("domain")))
        .join(fn.broadcast(moved), "run")
        .select("run", driver_limited.alias("driver_limited"))
    )


def _by_source(samples: DataFrame, windows: DataFrame) -> DataFrame:
    def increase(counter: str) -> Column:
        return fn.max_by(counter, "t") - fn.min_by(counter, "t")

    seconds = fn.col("nanoseconds") / NANOSECONDS
    return (
        samples.join(fn.broadcast(windows), "run")
        .where(within_measure(fn.col("t")))
        .groupBy("run", "source")
        .agg(
            (fn.max("t") - fn.min("t")).alias("nanoseconds"),
            increase("cpu_seconds").alias("cpu_seconds"),
            increase("syncs").alias("sync_count"),
            increase("sync_seconds").alias("sync_seconds"),
            increase("holds").cast("double").alias("holds"),
            increase("held_seconds").alias("held_seconds"),
            fn.max("rss").alias("rss"),
        )
        .where(fn.col("nanoseconds") > 0)
        .withColumn("cpu", 100 * fn.col("cpu_seconds") / seconds)
        .withColumn("syncs", fn.col("sync_count") / seconds)
        .withColumn("sync_share", 100 * fn.col("sync_seconds") / seconds)
        .select("run", "source", "cpu", "rss", "syncs", "sync_share", "holds", "held_seconds")
    )


def _ordered_sum(values: Column) -> Column:
    """A floating-point sum whose last digit does not depend on the order of the rows; null without rows."""
    in_order = fn.array_sort(fn.collect_list(values))
    total = fn.aggregate(in_order, fn.lit(0.0), lambda total, value: total + value)
    return fn.when(fn.size(in_order) > 0, total)


def calibrations(spark: SparkSession, meta: JsonObject) -> DataFrame:
    """One row for each system and size of its driver's calibrations, maybe by domain ("": both).

    Calibrations are made message by message; those of older versions have batches.
    """
    rows = [
        (system["name"], rate["size"], rate.get("domain", ""), rate["sent"], rate["received"])
        for system in meta.get("systems") or ()
        for rate in meta.get("calibrations") or ()
        if rate["driver"] == system.get("driver") and system.get("packed", 1) == 1 and "batch" not in rate
    ]
    return spark.createDataFrame(rows, _CALIBRATIONS)
