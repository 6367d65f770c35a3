"""Resources of the system and the agents during the measure phase, and the bottleneck of each run."""

from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as fn

from mqlab.pipeline.event_tables import NANOSECONDS, within_measure
from mqlab.pipeline.metrics import to_metric_rows
from mqlab.pipeline.schema import BUSY_PERCENT, LAB, MACHINE_FULL
from mqlab.pipeline.tables.broker_samples import is_broker

# The lab bounds a rate if its own work took this share of the time that was short: without it, the rate could be more
# than a tenth higher.
LAB_PERCENT: Final = 10.0
# A broker that is inside a sync for a greater share of the time is limited by the disk.
SYNC_PERCENT: Final = 60.0
# Of the speed of the line; the interface does not count all that the line carries.
NETWORK_PERCENT: Final = 90.0


def usage(samples: DataFrame, windows: DataFrame) -> DataFrame:
    """One row for each run: percent of one core, bytes, syncs a second, percent of the time inside a sync; or null.

    Counters are the increase between the first and the last sample of a source within the measure phase, summed over
    several brokers. `sync_share` is that of the broker that syncs most, `disk_share` the share of the time in which any
    process of the machine waited for the disk, `network_share` the use of the line to a remote system in its busier
    direction. `cpu_by_agent` has the CPU of each agent by its source; an agent that hosts a broker is not in it, since
    it is sampled as the broker.
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
            fn.map_from_entries(fn.collect_list(fn.when(is_agent, fn.struct("source", "cpu")))).alias("cpu_by_agent"),
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


def resources(usage: DataFrame, lab_work: DataFrame, totals: DataFrame) -> DataFrame:
    """(run, metric, value): cpu.*, rss.*, syncs, sync.share, holds and held.seconds."""
    # Without samples of the system, the CPU time of a message is unknown.
    cores_used = fn.when(fn.col("cpu_broker").isNotNull(), fn.col("cpu_all")) / 100
    work_rate = fn.when(fn.col("work") > 0, fn.col("work") / fn.col("seconds"))
    return to_metric_rows(
        usage.join(fn.broadcast(totals), "run", "left").join(fn.broadcast(_lab_of_runs(lab_work)), "run", "left"),
        {
            "cpu.broker": fn.col("cpu_broker"),
            "cpu.agents": fn.col("cpu_agents"),
            "cpu.lab": fn.col("cpu_lab"),
            "cpu.message": cores_used / work_rate,
            "rss.broker": fn.col("rss_broker"),
            "rss.agents": fn.col("rss_agents"),
            "syncs": fn.col("syncs"),
            "sync.share": fn.col("sync_share"),
            "holds": fn.col("holds"),
            "held.seconds": fn.col("held_seconds"),
        },
    )


def bottlenecks(usage: DataFrame, lab_work: DataFrame, points: DataFrame, cores: int) -> DataFrame:
    """(run, bound_by, client_cpu): the bottleneck (one of BOTTLENECKS, or null: nothing was at its limit), and whether
    an agent used more CPU than its point allows (null where there is no limit, or no sample).

    The client is the client library of the system, in an agent whose core is full: a part of the system. If all cores
    of the machine are full, system and clients held each other back, and neither is named. The lab is the bottleneck
    where its own work took LAB_PERCENT of a full core, of a full machine, or of the time of a role that waits.

    For a system that does not count its syncs, the waiting time of the machine's disk decides, unless the system cannot
    be sampled: its disk may be on another machine. The network counts only where the speed of the line is known.
    """
    busiest_agent = fn.coalesce(fn.col("cpu_busiest_agent"), fn.lit(0.0))
    busiest_broker = fn.coalesce(fn.col("cpu_busiest_broker"), fn.lit(0.0))
    machine_disk = fn.when(fn.col("cpu_broker").isNotNull(), fn.col("disk_share"))
    machine_full = fn.col("cpu_all") >= BUSY_PERCENT * cores
    lab_bound = (
        fn.coalesce(fn.col("lab_in_busy_agent") >= LAB_PERCENT, fn.lit(False))
        | fn.coalesce(fn.col("lab_wait") >= LAB_PERCENT, fn.lit(False))
        | fn.coalesce(machine_full & (fn.col("cpu_lab") >= LAB_PERCENT * cores), fn.lit(False))
    )
    bound_by = (
        fn.when(fn.col("network_share") >= NETWORK_PERCENT, "network")
        .when(fn.coalesce(fn.col("sync_share"), machine_disk) >= SYNC_PERCENT, "disk")
        .when(lab_bound, LAB)
        .when(machine_full, MACHINE_FULL)
        .when((busiest_agent >= BUSY_PERCENT) & (busiest_agent >= busiest_broker), "client")
        .when(busiest_broker >= BUSY_PERCENT, "broker")
    )
    agent_cpu = fn.coalesce(fn.col("cpu_by_agent")[fn.concat(fn.lit("agent-"), "agent")], busiest_broker)
    in_busy_agent = fn.max(fn.when(agent_cpu >= BUSY_PERCENT, fn.col("cpu"))).alias("lab_in_busy_agent")
    by_agent = usage.select("run", "cpu_by_agent", "cpu_busiest_broker").join(fn.broadcast(lab_work), "run")
    allowed = points.select("run", fn.col("client_cpu").alias("allowed"))
    return (
        usage.join(fn.broadcast(allowed), "run", "left")
        .join(fn.broadcast(_lab_of_runs(lab_work)), "run", "left")
        .join(fn.broadcast(by_agent.groupBy("run").agg(in_busy_agent)), "run", "left")
        .withColumn("bound_by", bound_by)
        .withColumn("client_cpu", fn.col("cpu_busiest_agent") > fn.col("allowed"))
        .select("run", "bound_by", "client_cpu")
    )


def _lab_of_runs(lab_work: DataFrame) -> DataFrame:
    return lab_work.groupBy("run").agg(
        _ordered_sum(fn.col("cpu")).alias("cpu_lab"), _ordered_sum(fn.col("wait")).alias("lab_wait")
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
