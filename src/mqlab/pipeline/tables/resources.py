"""Resources of the system and the agents during the measure phase, and the bottleneck of each run."""

from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as fn

from mqlab.pipeline.event_tables import slice_number, within_measure
from mqlab.pipeline.kernels.count_keys import NANOSECONDS
from mqlab.pipeline.metrics import to_metric_rows
from mqlab.pipeline.schema import BUSY_PERCENT, LAB, MACHINE_FULL
from mqlab.pipeline.tables.broker_samples import IS_BROKER

# The lab bounds a rate if its own work took this share of the time that was short: without it, the rate could be more
# than a tenth higher.
LAB_PERCENT: Final = 10.0
# A broker that is inside a sync for a greater share of the time is limited by the disk.
SYNC_PERCENT: Final = 60.0
# Of the speed of the line; the interface does not count all that the line carries.
NETWORK_PERCENT: Final = 90.0
_COUNTERS: Final = ("cpu_seconds", "syncs", "sync_seconds", "holds", "held_seconds")


def usage(samples: DataFrame, windows: DataFrame) -> DataFrame:
    """One row for each run: percent of one core, bytes, syncs a second, percent of the time inside a sync; or null.

    Counters are the increase between the first and the last sample of a source within the measure phase, or within each
    of its slices, summed over several brokers. `sync_share` is that of the broker that syncs most, `disk_share` the
    share of the time in which any process of the machine waited for the disk, `network_share` the use of the line to a
    remote system in its busier direction. `cpu_by_agent` has the CPU of each agent by its source, without the host of
    one on another machine; an agent that hosts a broker is not in it, since it is sampled as the broker. `cpu_here` is
    that of the conductor's machine.
    """
    is_agent = "startswith(source, 'agent-')"
    agent_cpu = "struct(split_part(source, '@', 1), cpu)"

    def brokers(name: str) -> str:
        return f"CASE WHEN {IS_BROKER} THEN {name} END"

    def agents(name: str) -> str:
        return f"CASE WHEN {is_agent} THEN {name} END"

    columns = {
        "cpu_broker": _ordered_sum(brokers("cpu")),
        "cpu_busiest_broker": f"max({brokers('cpu')})",
        "cpu_agents": _ordered_sum(agents("cpu")),
        "cpu_busiest_agent": f"max({agents('cpu')})",
        "cpu_by_agent": f"map_from_entries(collect_list({agents(agent_cpu)}))",
        "cpu_all": _ordered_sum("cpu"),
        "cpu_here": _ordered_sum("CASE WHEN NOT contains(source, '@') THEN cpu END"),
        "rss_broker": f"sum({brokers('rss')})",
        "rss_agents": f"sum({agents('rss')})",
        "syncs": _ordered_sum(brokers("syncs")),
        "sync_share": f"max({brokers('sync_share')})",
        "disk_share": "max(CASE WHEN source = 'disk' THEN sync_share END)",
        "network_share": "max(CASE WHEN startswith(source, 'network-') THEN sync_share END)",
        "holds": _ordered_sum(brokers("holds")),
        "held_seconds": _ordered_sum(brokers("held_seconds")),
    }
    return (
        _by_source(samples, windows)
        .groupBy("run")
        .agg(*(fn.expr(value).alias(name) for name, value in columns.items()))
    )


def resources(usage: DataFrame, lab_work: DataFrame, totals: DataFrame) -> DataFrame:
    """(run, metric, value): cpu.*, rss.*, syncs, sync.share, holds and held.seconds."""
    # Without samples of the system, the CPU time of a message is unknown.
    cores_used = "(CASE WHEN cpu_broker IS NOT NULL THEN cpu_all END / 100)"
    work_rate = "(CASE WHEN work > 0 THEN work / seconds END)"
    return to_metric_rows(
        usage.join(fn.broadcast(totals), "run", "left").join(fn.broadcast(_lab_of_runs(lab_work)), "run", "left"),
        {
            "cpu.broker": "cpu_broker",
            "cpu.agents": "cpu_agents",
            "cpu.lab": "cpu_lab",
            "cpu.message": f"{cores_used} / {work_rate}",
            "rss.broker": "rss_broker",
            "rss.agents": "rss_agents",
            "syncs": "syncs",
            "sync.share": "sync_share",
            "holds": "holds",
            "held.seconds": "held_seconds",
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
    busiest_agent, busiest_broker = "coalesce(cpu_busiest_agent, 0D)", "coalesce(cpu_busiest_broker, 0D)"
    machine_disk = "CASE WHEN cpu_broker IS NOT NULL THEN disk_share END"
    machine_full = f"cpu_here >= {BUSY_PERCENT * cores}D"
    lab_bound = (
        f"coalesce(lab_in_busy_agent >= {LAB_PERCENT}D, false) OR coalesce(lab_wait >= {LAB_PERCENT}D, false) "
        f"OR coalesce({machine_full} AND cpu_lab >= {LAB_PERCENT * cores}D, false)"
    )
    bound_by = (
        f"CASE WHEN network_share >= {NETWORK_PERCENT}D THEN 'network' "
        f"WHEN coalesce(sync_share, {machine_disk}) >= {SYNC_PERCENT}D THEN 'disk' "
        f"WHEN {lab_bound} THEN '{LAB}' "
        f"WHEN {machine_full} THEN '{MACHINE_FULL}' "
        f"WHEN {busiest_agent} >= {BUSY_PERCENT}D AND {busiest_agent} >= {busiest_broker} THEN 'client' "
        f"WHEN {busiest_broker} >= {BUSY_PERCENT}D THEN 'broker' END"
    )
    agent_cpu = f"coalesce(cpu_by_agent[concat('agent-', agent)], {busiest_broker})"
    in_busy_agent = fn.expr(f"max(CASE WHEN {agent_cpu} >= {BUSY_PERCENT}D THEN cpu END) AS lab_in_busy_agent")
    by_agent = usage.select("run", "cpu_by_agent", "cpu_busiest_broker").join(fn.broadcast(lab_work), "run")
    return (
        usage.join(fn.broadcast(points.selectExpr("run", "client_cpu AS allowed")), "run", "left")
        .join(fn.broadcast(_lab_of_runs(lab_work)), "run", "left")
        .join(fn.broadcast(by_agent.groupBy("run").agg(in_busy_agent)), "run", "left")
        .selectExpr("run", f"{bound_by} AS bound_by", "cpu_busiest_agent > allowed AS client_cpu")
    )


def _lab_of_runs(lab_work: DataFrame) -> DataFrame:
    return lab_work.groupBy("run").agg(
        fn.expr(_ordered_sum("cpu")).alias("cpu_lab"), fn.expr(_ordered_sum("wait")).alias("lab_wait")
    )


def _by_source(samples: DataFrame, windows: DataFrame) -> DataFrame:
    def increase(counter: str) -> Column:
        return fn.max_by(counter, "t") - fn.min_by(counter, "t")

    seconds = f"(nanoseconds / {NANOSECONDS})"
    return (
        samples.join(fn.broadcast(windows), "run")
        .where(within_measure(fn.col("t")))
        .withColumn("slice", slice_number(fn.col("t")))
        .groupBy("run", "source", "slice")
        .agg(
            (fn.max("t") - fn.min("t")).alias("nanoseconds"),
            *(increase(counter).cast("double").alias(counter) for counter in _COUNTERS),
            fn.max("rss").alias("rss"),
        )
        .groupBy("run", "source")
        .agg(
            fn.sum("nanoseconds").alias("nanoseconds"),
            *(fn.expr(_ordered_sum(counter)).alias(counter) for counter in _COUNTERS),
            fn.max("rss").alias("rss"),
        )
        .where("nanoseconds > 0")
        .selectExpr(
            "run",
            "source",
            f"100 * cpu_seconds / {seconds} AS cpu",
            "rss",
            f"syncs / {seconds} AS syncs",
            f"100 * sync_seconds / {seconds} AS sync_share",
            "holds",
            "held_seconds",
        )
    )


def _ordered_sum(values: str) -> str:
    """A floating-point sum whose last digit does not depend on the order of the rows; null without rows."""
    in_order = f"array_sort(collect_list({values}))"
    total = f"aggregate({in_order}, 0D, (total, value) -> total + value)"
    return f"CASE WHEN size({in_order}) > 0 THEN {total} END"
