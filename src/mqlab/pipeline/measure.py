"""The whole pipeline over one run folder, and how its tables are read again."""

from collections.abc import Callable
from functools import reduce
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession

from mqlab.events.folder import RunFolder
from mqlab.pipeline.activity import activity
from mqlab.pipeline.audit import audits, valid
from mqlab.pipeline.deliveries import segments
from mqlab.pipeline.fates import fates
from mqlab.pipeline.latency import confirmation, latencies, latency
from mqlab.pipeline.rates import rates
from mqlab.pipeline.resources import bounds, resources, usage
from mqlab.pipeline.series import series
from mqlab.pipeline.summary import measures, run_measures
from mqlab.pipeline.tables import fetched, read_events, spans

Progress = Callable[[str, int, int], None]

# Each table and the columns its rows are in order of: the same events give the same files.
TABLES: Final = {
    "audits": ("run",),
    "run_measures": ("run", "metric"),
    "measures": ("scenario", "point", "system", "metric"),
    "series": ("run", "second"),
    "latencies": ("scenario", "point", "system", "latency"),
}


class NotMeasuredError(ValueError):
    """The run folder has events but no measures yet."""


def measure(spark: SparkSession, folder: RunFolder, progress: Progress | None = None) -> None:
    """Computes every table of `measures/` for all runs of the folder, in place of what was there."""
    cores = int(folder.meta().get("machine", {}).get("cores") or 1)
    steps = _Steps(progress or (lambda name, done, of: None))
    events = read_events(spark, folder)
    when = steps.keep("phases", spans(events.phases))
    found = steps.keep("deliveries", fates(segments(events.sends, events.receipts, events.roles), when))
    moved = steps.keep("activity", activity(events.sends, events.receipts, when))
    used = steps.keep("resources", usage(events.samples, when))
    confirmed = steps.keep("confirm", confirmation(events.sends, when))
    audited = steps.keep("audits", audits(events.runs, events.roles, events.clocks, when, found, moved))
    good = valid(audited)
    figures = reduce(DataFrame.unionByName, [rates(moved, when), latency(found), confirmed, resources(used)])
    of_runs = steps.keep("run_measures", run_measures(figures, good))
    steps.keep("measures", measures(of_runs, events.runs, bounds(used, cores), good))
    steps.keep("series", series(moved, events.phases, when, good))
    steps.keep("latencies", latencies(found, good))
    for name, order in TABLES.items():
        _write(folder, name, steps.rows[name].sort_by([(column, "ascending") for column in order]))


class _Steps:
    def __init__(self, progress):
        self.progress=progress; self.rows={}; self.done=0
    def keep(self, name, table):
        self.progress(name, self.done, 10)
        self.done+=1
        self.rows[name], again = fetched(table)
        return again


def read(folder: RunFolder, table: str) -> list[dict[str, Any]]:
    """The rows of one table of `measures/`. Needs no Spark."""
    path = folder.measures / table
    if not path.is_dir():
        raise NotMeasuredError(f"{folder.path}: not measured yet (it has no {table})")
    rows: list[dict[str, Any]] = pq.read_table(path).to_pylist()
    return rows


def _write(folder: RunFolder, name: str, rows: pa.Table) -> None:
    target = folder.measures / name
    target.mkdir(exist_ok=True)
    pq.write_table(rows, target / "part.parquet")
