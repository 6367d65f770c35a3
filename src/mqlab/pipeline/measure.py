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
from mqlab.pipeline.tables import local, read_events, spans

# The name of a step that begins, how many are done, and of how many.
Progress = Callable[[str, int, int], None]

# Each table of `measures/`, and the columns its rows are in order of: the same events give the same files.
TABLES: Final = {
    "audits": ("run",),
    "run_measures": ("run", "metric"),
    "measures": ("study", "scenario", "point", "system", "metric"),
    "series": ("run", "second"),
    "latencies": ("scenario", "point", "system", "latency"),
}
_STEPS: Final = 10


class NotMeasuredError(ValueError):
    """The run folder has no measures yet."""


def measure(spark: SparkSession, folder: RunFolder, progress: Progress | None = None) -> None:
    """Computes every table of `measures/` for all runs of the folder, in place of what was there."""
    cores = int(folder.meta().get("machine", {}).get("cores") or 1)
    steps = _Steps(progress)
    events = read_events(spark, folder)
    when = steps.take("phases", spans(events.phases))
    found = steps.take("deliveries", fates(segments(events.sends, events.receipts, events.roles), when))
    moved = steps.take("activity", activity(events.sends, events.receipts, when))
    used = steps.take("resources", usage(events.samples, when))
    confirmed = steps.take("confirmations", confirmation(events.sends, when))
    audited = steps.take("audits", audits(events.runs, events.roles, events.clocks, when, found, moved))
    good = valid(audited)
    figures = reduce(DataFrame.unionByName, [rates(moved, when), latency(found), confirmed, resources(used)])
    of_runs = steps.take("run_measures", run_measures(figures, good))
    steps.take("measures", measures(of_runs, events.runs, bounds(used, cores), good))
    steps.take("series", series(moved, events.phases, when, good))
    steps.take("latencies", latencies(found, good))
    for name in TABLES:
        _write(folder, name, steps.rows[name])
    steps.tell("")


def read(folder: RunFolder, table: str) -> list[dict[str, Any]]:
    """The rows of one table of `measures/`. Needs no Spark. Raises `NotMeasuredError`."""
    path = folder.measures / table
    if not path.is_dir():
        raise NotMeasuredError(f"{folder.path}: not measured yet (it has no {table})")
    rows: list[dict[str, Any]] = pq.read_table(path).to_pylist()
    return rows


class _Steps:
    """Every step is computed once and fetched: all of them are small, whatever the length of the runs.

    What follows from a fetched table costs next to nothing, and its plan does not grow by all that came before.
    """

    def __init__(self, progress: Progress | None) -> None:
        self.rows: dict[str, pa.Table] = {}
        self._progress = progress

    def take(self, name: str, table: DataFrame) -> DataFrame:
        self.tell(name)
        self.rows[name] = table.toArrow()
        return local(table.sparkSession, self.rows[name])

    def tell(self, name: str) -> None:
        if self._progress is not None:
            self._progress(name, len(self.rows), _STEPS)


def _write(folder: RunFolder, name: str, rows: pa.Table) -> None:
    """As one file that is there whole or not at all."""
    target = folder.measures / name / "part.parquet"
    target.parent.mkdir(parents=True, exist_ok=True)
    unfinished = target.with_name(".unfinished")
    pq.write_table(rows.sort_by([(column, "ascending") for column in TABLES[name]]), unfinished)
    unfinished.replace(target)
