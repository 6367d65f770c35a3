"""The effect of each fault on the messages of its run: how long none arrived, and when the backlog was gone.

The backlog of a moment are the messages that were planned before it and arrive after it. A system has recovered from a
fault when it serves again, the fault is undone, and the backlog is not larger than the largest one before the first
fault. The next fault of the run ends the time that counts for a fault.
"""

from functools import reduce
from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as fn

from mqlab.events.schema import COMPLETE
from mqlab.pipeline.kernels.count_keys import NANOSECONDS
from mqlab.pipeline.metrics import to_metric_rows
from mqlab.pipeline.schema import FaultEffectRow, RunColumns, columns

_FAULT: Final = ("run", "number")
_PERCENTILES: Final = {"latency_p50": 0.5, "latency_p99": 0.99}


def received_messages(segments: DataFrame) -> DataFrame:
    """The messages that were sent and have arrived: (run, messages, t_planned, t_received)."""
    return segments.where("confirmed + unknown > 0 AND fresh + marked > 0").selectExpr(
        "run", "end - first AS messages", "t_planned", "t_received"
    )


def fault_effects(
    scopes: DataFrame, silences: DataFrame, recoveries: DataFrame, latencies: DataFrame, runs: DataFrame
) -> DataFrame:
    """One row for each fault of a complete run."""
    effects = reduce(
        lambda left, right: left.join(fn.broadcast(right), [*_FAULT], "left"), (silences, recoveries, latencies), scopes
    )
    seconds = {
        "started": "t_start - load_start",
        "lasted": "t_end - t_start",
        "outage": "silence",
        "recovery": "t_recovered - t_start",
        **{name: name for name in ("latency_p50", "latency_p99", "latency_max")},
    }
    return (
        effects.join(fn.broadcast(runs.where(f"status = '{COMPLETE}'").select(*columns(RunColumns))), "run")
        .selectExpr("*", *(f"({sql}) / {NANOSECONDS} AS {name}_s" for name, sql in seconds.items()))
        .selectExpr(*(f"{name}_s AS {name}" if name in seconds else name for name in columns(FaultEffectRow)))
    )


def fault_metrics(effects: DataFrame) -> DataFrame:
    """(run, metric, value): of several faults of a run, the worst. A run that never recovered has no fault.recovery."""
    recovery = fn.when(fn.count("recovery") == fn.count(fn.lit(1)), fn.max("recovery"))
    worst = effects.groupBy("run").agg(fn.max("outage").alias("outage"), recovery.alias("recovery"))
    return to_metric_rows(worst, {f"fault.{name}": name for name in ("outage", "recovery")})


def fault_scopes(faults: DataFrame, windows: DataFrame) -> DataFrame:
    """The faults, with the moment until which messages count for each, and the start of the first one of the run."""
    of_run = "OVER (PARTITION BY run ORDER BY number)"
    return (
        faults.drop("t_planned")
        .selectExpr(
            "*",
            f"coalesce(lead(t_start) {of_run}, {2**62}L) AS scope_end",
            f"first_value(t_start) {of_run} AS first_start",
        )
        .join(fn.broadcast(windows), "run")
        .coalesce(1)
    )


def fault_silences(received: DataFrame, scopes: DataFrame, windows: DataFrame) -> DataFrame:
    """The longest time between two arrivals that began before each fault was undone, and the arrival that ended it.

    The end of the measure phase counts as the last arrival: until then, messages were to arrive.
    """
    length = fn.col("t") - fn.col("t_before")
    arrivals = received.select("run", fn.col("t_received").alias("t")).distinct()
    last = arrivals.groupBy("run").agg(fn.max("t").alias("t_last")).join(fn.broadcast(windows), "run")
    at_end = last.where("measure_end > t_last").selectExpr("run", "measure_end AS t")
    return (
        arrivals.unionByName(at_end)
        .selectExpr("run", "t", "lag(t) OVER (PARTITION BY run ORDER BY t) AS t_before")
        .join(fn.broadcast(scopes), "run")
        .where("t > t_start AND t_before < least(t_end, scope_end)")
        .groupBy(*_FAULT)
        .agg(fn.max(length).alias("silence"), fn.max_by("t", fn.struct(length, -fn.col("t"))).alias("t_served"))
    )


def fault_recoveries(received: DataFrame, scopes: DataFrame, silences: DataFrame) -> DataFrame:
    """When the backlog was as before the faults."""
    changes = received.selectExpr(
        "run", "inline(array(struct(t_planned AS t, messages AS change), struct(t_received AS t, -messages AS change)))"
    )
    backlogs = (
        changes.groupBy("run", "t")
        .agg(fn.sum("change").alias("change"))
        .selectExpr("run", "t", "sum(change) OVER (PARTITION BY run ORDER BY t) AS backlog")
    )
    before = "t >= measure_start AND t < first_start"
    usual = fn.coalesce(fn.max(fn.when(fn.expr(before), fn.col("backlog"))), fn.lit(0)).alias("usual")
    # One row for each run: all faults of a run have the same first one.
    usual_backlogs = backlogs.join(fn.broadcast(scopes.where("number = 1")), "run").groupBy("run").agg(usual)
    return (
        backlogs.join(fn.broadcast(usual_backlogs), "run")
        .join(fn.broadcast(scopes), "run")
        .join(fn.broadcast(silences), [*_FAULT])
        .where("backlog <= usual AND t >= greatest(t_end, t_served) AND t < scope_end")
        .groupBy(*_FAULT)
        .agg(fn.min("t").alias("t_recovered"))
    )


def fault_latencies(received: DataFrame, scopes: DataFrame, recoveries: DataFrame) -> DataFrame:
    """From the planned time, of the messages that were on their way between a fault and the recovery from it."""
    times = (
        received.selectExpr("*", "greatest(t_received - t_planned, 0) AS latency")
        .join(fn.broadcast(scopes), "run")
        .join(fn.broadcast(recoveries), [*_FAULT], "left")
        .where("t_received > t_start AND t_planned < coalesce(t_recovered, scope_end)")
        .groupBy(*_FAULT, "latency")
        .agg(fn.sum("messages").alias("messages"))
    )
    # Sorted, for Spark's own percentile holds all different times of a fault in memory.
    of_fault = "OVER (PARTITION BY run, number"
    ranked = times.selectExpr(
        "*", f"sum(messages) {of_fault} ORDER BY latency) AS cumulated", f"sum(messages) {of_fault}) AS total"
    )
    neighbours = [
        fn.expr(f"min(CASE WHEN cumulated > {side}((total - 1) * {share}D) THEN latency END)").alias(f"{name}_{side}")
        for name, share in _PERCENTILES.items() for side in ("floor", "ceil")
    ]  # fmt: skip
    whole = ranked.groupBy(*_FAULT).agg(
        fn.sum("messages").alias("messages"), fn.max("latency").alias("latency_max"), *neighbours
    )
    between = {
        name: f"{name}_floor + ({name}_ceil - {name}_floor) * pmod((messages - 1) * {share}D, 1D)"
        for name, share in _PERCENTILES.items()
    }
    return whole.selectExpr(*_FAULT, "messages", "latency_max", *(f"{sql} AS {name}" for name, sql in between.items()))
