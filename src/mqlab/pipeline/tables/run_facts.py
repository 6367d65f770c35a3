"""One row for each run, with its point, its phases, and the sums of its counts: the base of most tables of runs."""

from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as fn

from mqlab.pipeline.kernels.count_keys import DELIVERY_CLASSES, NANOSECONDS

# By name: the aggregate and the table of counts whose rows it takes.
_SUMS: Final = {
    **{name: (f"sum({name})", "counts = 'deliveries'") for name in (*DELIVERY_CLASSES, "early")},
    "missing": ("sum(missing)", "counts = 'gaps'"),
    **{name: (f"sum({name})", "counts = 'activity'") for name in ("sent", "damaged")},
    **{
        f"measured_{name}": (f"sum({name})", "counts = 'activity' AND measured")
        for name in ("sent", "received", "bytes_received", "sends", "receipts")
    },
    "at_once": ("max(largest_batch)", "counts = 'activity' AND measured"),
    "measured_round_trips": ("sum(arrived)", "counts = 'round trips'"),
    "mismatched": ("sum(mismatched)", "counts = 'round trips'"),
    "timed_round_trips": ("sum(messages)", "counts = 'round trips'"),
    "timed_sends": ("sum(sends)", "counts = 'confirmations'"),
}


def run_facts(counts: DataFrame, points: DataFrame, windows: DataFrame) -> DataFrame:
    """One row for each run, with or without events. A sum is null for a run that has no such counts.

    `seconds` is the length of what counts of its measure phase.
    """
    sums = (fn.expr(f"{total} FILTER (WHERE {rows}) AS {name}") for name, (total, rows) in _SUMS.items())
    return (
        points.join(fn.broadcast(windows), "run", "left")
        .join(fn.broadcast(counts.groupBy("run").agg(*sums)), "run", "left")
        .selectExpr("*", f"nullif(measured_ns, 0) / {NANOSECONDS} AS seconds")
    )
