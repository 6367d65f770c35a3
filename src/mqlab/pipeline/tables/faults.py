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
from mqlab.pipeline.schema import UNSERVED, FaultEffectRow, PointColumns, RunColumns, columns

_FAULT: Final = ("run", "number")
_POINT: Final = columns(PointColumns)
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


def fault_metrics(effects: DataFrame, used: DataFrame) -> DataFrame:
    """(run, metric, value) of the used runs: of several faults of a run, the worst.

    No run of a point has fault.recovery if one of them did not recover: the others would flatter the system.
    """
    recovery = fn.when(fn.count("recovery") == fn.count(fn.lit(1)), fn.max("recovery"))
    worst = (
        effects.join(fn.broadcast(used.select("run")), "run", "left_semi")
        .groupBy("run", *_POINT)
        .agg(fn.max("outage").alias("outage"), recovery.alias("recovery"))
    )
    all_recovered = f"bool_and(recovery IS NOT NULL) OVER (PARTITION BY {', '.join(_POINT)})"
    metrics = {"fault.outage": "outage", "fault.recovery": "recovery"}
    return to_metric_rows(
        worst.selectExpr("run", "outage", f"if({all_recovered}, recovery, NULL) AS recovery"), metrics
    )


def mark_unserved(measures: DataFrame, effects: DataFrame, used: DataFrame) -> DataFrame:
    """The outage of a point is bounded by the end of a run in which the system never served again."""
    unserved = (
        effects.where("NOT served")
        .join(fn.broadcast(used.select("run")), "run", "left_semi")
        .selectExpr(*_POINT, "'fault.outage' AS metric", f"'{UNSERVED}' AS end")
        .distinct()
    )
    return measures.join(fn.broadcast(unserved), [*_POINT, "metric"], "left").withColumn(
        "bound_by", fn.coalesce("end", "bound_by")
    )


def fault_scopes(faults: DataFrame, windows: DataFrame, phases: DataFrame) -> DataFrame:
    """The faults, with the moment until which messages count for each, the first one of the run, and the run's end."""
    ends = phases.groupBy("run").agg(fn.max("t_end").alias("run_end"))
    of_run = "OVER (PARTITION BY run ORDER BY number)"
    return (
        faults.drop("t_planned")
        .selectExpr(
            "*",
            f"coalesce(lead(t_start) {of_run}, {2**62}L) AS scope_end",
            f"first_value(t_start) {of_run} AS first_start",
        )
        .join(fn.broadcast(windows), "run")
        .join(fn.broadcast(ends), "run")
        .coalesce(1)
    )


def fault_silences(received: DataFrame, scopes: DataFrame) -> DataFrame:
    """The longest time between two arrivals that began before each fault was undone, and the arrival that ended it.

    If none came after it, the system was not `served` again, and that time lasts until the end of the run or longer.
    But the end of the measure phase counts as an arrival if it comes as soon after the last one as arrivals followed
    each other before the faults: then no message may have been due.
    """
    length = fn.col("t") - fn.col("t_before")
    arrivals = received.select("run", fn.col("t_received").alias("t")).distinct()
    gaps = arrivals.selectExpr("run", "t", "lag(t) OVER (PARTITION BY run ORDER BY t) AS t_before", "true AS served")
    # One row for each run: all its faults have the same first one.
    of_runs = fn.broadcast(
        scopes.where("number = 1").select("run", "measure_start", "measure_end", "first_start", "run_end")
    )
    before = "t_before >= measure_start AND t < first_start"
    last = (
        gaps.join(of_runs, "run")
        .groupBy("run", "measure_end", "run_end")
        .agg(fn.max("t").alias("t_last"), fn.max(fn.when(fn.expr(before), length)).alias("usual"))
        .where("measure_end > t_last")
        .selectExpr("*", "measure_end - t_last <= coalesce(usual, 0) AS served")
    )
    at_end = last.selectExpr("run", "if(served, measure_end, run_end) AS t", "t_last AS t_before", "served")
    return (
        gaps.unionByName(at_end)
        .join(fn.broadcast(scopes), "run")
        .where("t > t_start AND t_before < least(t_end, scope_end)")
        .groupBy(*_FAULT)
        .agg(
            fn.max(length).alias("silence"),
            fn.bool_and("served").alias("served"),
            fn.max_by("t", fn.struct(length, -fn.col("t"))).alias("t_served"),
        )
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
        .where("served AND backlog <= usual AND t >= greatest(t_end, t_served) AND t < scope_end")
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
