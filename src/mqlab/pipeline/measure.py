"""The whole pipeline over one run folder, and how its tables are read again."""

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import reduce
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as fn

from mqlab.events.folder import RunFolder
from mqlab.pipeline.activity import activity
from mqlab.pipeline.audit import Found, audits, valid
from mqlab.pipeline.calibrations import calibrations
from mqlab.pipeline.comparisons import comparisons
from mqlab.pipeline.deliveries import segments
from mqlab.pipeline.fates import fates
from mqlab.pipeline.impacts import impacts
from mqlab.pipeline.latency import confirmations, durations, latencies
from mqlab.pipeline.looks import depths, looks, onset
from mqlab.pipeline.operations import operations, traced
from mqlab.pipeline.peaks import peaks
from mqlab.pipeline.points import points
from mqlab.pipeline.rates import rates, totals
from mqlab.pipeline.resources import bounds, resources, usage
from mqlab.pipeline.round_trips import round_trips
from mqlab.pipeline.series import paces, series
from mqlab.pipeline.summary import measures, run_measures
from mqlab.pipeline.tables import Events, local, read_events, spans
from mqlab.pipeline.wanted import exhibits_of, wanted
from mqlab.study import Exhibit

# The name of a step that begins, how many are done, and of how many.
Progress = Callable[[str, int, int], None]

# Each table of `measures/`, and the columns its rows are in order of: the same events give the same files.
TABLES: Final = {
    "audits": ("run",),
    "run_measures": ("run", "metric"),
    "measures": ("study", "scenario", "point", "system", "metric"),
    "series": ("run", "second"),
    "paces": ("run", "seconds"),
    "depths": ("run", "source", "seconds"),
    "latencies": ("scenario", "point", "system", "latency"),
    "responses": ("scenario", "point", "system", "latency"),
    "operations": ("scenario", "point", "system", "application", "operation"),
    "impacts": ("scenario", "point", "system", "metric"),
    "peaks": ("scenario", "system", "metric", "over", "parameters"),
    "comparisons": ("scenario", "point", "over", "parameters", "first", "second", "metric"),
}
_STEPS: Final = 21
# Two for each core: while one plans, which one core does, the other works.
_THREADS: Final = 2 * (os.cpu_count() or 1)


class NotMeasuredError(ValueError):
    """The run folder has no measures yet."""


def measure(
    spark: SparkSession,
    folder: RunFolder,
    progress: Progress | None = None,
    exhibits: Sequence[Exhibit] | None = None,
) -> None:
    """Computes every table of `measures/` for all runs of the folder, in place of what was there.

    `exhibits` say what is compared; without them, those of the study in the folder.
    """
    cores = int(folder.meta().get("machine", {}).get("cores") or 1)
    steps = _Steps(progress)
    events = read_events(spark, folder)
    found, seen, used, confirmed = _found(steps, events)
    good = valid(steps.take("audits", audits(events.runs, events.roles, events.clocks, found)))
    moved = totals(found.activity, found.round_trips, found.spans, found.points)
    figures = [
        rates(moved),
        durations(found.fates, found.round_trips, confirmed),
        resources(used, moved),
        onset(seen),
    ]
    of_runs = steps.take("run_measures", run_measures(reduce(DataFrame.unionByName, figures), good))
    limits = bounds(used, moved, found.points, calibrations(spark, folder.meta()), cores)
    of_points = steps.take("measures", measures(of_runs, events.runs, limits, good))
    shown = wanted(exhibits_of(folder) if exhibits is None else exhibits)
    at_peaks, moved, *_ = steps.take_together(
        {
            "peaks": peaks(of_points, found.points, shown.peaks),
            "paces": paces(found.activity, events.phases, found.spans, good),
            "depths": depths(seen, good),
            "latencies": latencies(found.fates, good),
            "responses": latencies(found.round_trips, good),
            "operations": operations(steps.table("traced"), good),
            "impacts": impacts(of_runs, found.points),
        }
    )
    steps.take_together(
        {"comparisons": comparisons(of_runs, at_peaks, shown.compared), "series": series(moved, seen)}
    )
    for name in TABLES:
        _write(folder, name, steps.rows[name])
    steps.tell("")


def _found(steps: "_Steps", events: Events) -> tuple[Found, DataFrame, DataFrame, DataFrame]:
    """What is counted over all events, the looks, what was used, and the confirmations.

    Everything else is made of these tables, which are small beside the events.
    """
    when = steps.take("phases", spans(events.phases))
    moved = steps.take("activity", activity(events.sends, events.receipts, when))
    fate, trips, confirmed, _, seen, used, of_runs = steps.keep_together(
        {
            "deliveries": fates(_segments(events, steps.rows["activity"]), when),
            "round trips": round_trips(events.round_trips, when),
            "confirmations": confirmations(events.sends, when),
            "traced": traced(events.operations),
            "looks": looks(events.samples, when),
            "resources": usage(events.samples, when),
            "points": points(events.runs),
        }
    )
    return Found(of_runs, when, fate, moved, trips), seen, used, confirmed


def _segments(events: Events, moved: pa.Table) -> DataFrame:
    """All deliveries, with the short way for the runs in which every message moved alone."""
    together = moved.group_by("run").aggregate([("most_together", "max")]).to_pylist()
    alone = [row["run"] for row in together if row["most_together_max"] == 1]
    is_alone = fn.col("run").isin(alone)
    short = segments(events.sends.where(is_alone), events.receipts.where(is_alone), events.roles, alone=True)
    if alone and len(alone) == len(together):
        return short
    long = segments(events.sends.where(~is_alone), events.receipts.where(~is_alone), events.roles)
    return long.unionByName(short) if alone else long


def read(folder: RunFolder, table: str) -> list[dict[str, Any]]:
    """The rows of one table of `measures/`. Needs no Spark. Raises `NotMeasuredError`."""
    path = folder.measures / table
    if not path.is_dir():
        raise NotMeasuredError(f"{folder.path}: not measured yet (it has no {table})")
    rows: list[dict[str, Any]] = pq.read_table(path).to_pylist()
    return rows


class _Steps:
    """Every step is computed once: what follows from it does not compute it again, nor does its plan grow by it."""

    def __init__(self, progress: Progress | None) -> None:
        self.rows: dict[str, pa.Table] = {}
        self._tables: dict[str, DataFrame] = {}
        self._progress = progress

    def take(self, name: str, table: DataFrame) -> DataFrame:
        return self.take_together({name: table})[0]

    def take_together(self, tables: dict[str, DataFrame]) -> list[DataFrame]:
        """Tables of which the rows are wanted here: a few thousand of them."""
        return self._together(self._fetch, tables)

    def keep_together(self, tables: dict[str, DataFrame]) -> list[DataFrame]:
        """Tables that only others are made of: they stay with Spark."""
        return self._together(self._keep, tables)

    def table(self, name: str) -> DataFrame:
        """One that was taken or kept."""
        return self._tables[name]

    def tell(self, name: str) -> None:
        if self._progress is not None:
            self._progress(name, len(self._tables), _STEPS)

    def _together(self, step: Callable[[str, DataFrame], DataFrame], tables: dict[str, DataFrame]) -> list[DataFrame]:
        """Tables that do not need one another, side by side: planning takes longer than the work itself."""
        with ThreadPoolExecutor(_THREADS) as threads:
            return [*threads.map(step, tables, tables.values())]

    def _fetch(self, name: str, table: DataFrame) -> DataFrame:
        self.tell(name)
        self.rows[name] = table.toArrow()
        self._tables[name] = local(table.sparkSession, self.rows[name])
        return self._tables[name]

    def _keep(self, name: str, table: DataFrame) -> DataFrame:
        self.tell(name)
        # In one partition, so that nothing that is made of it needs a shuffle.
        self._tables[name] = table.coalesce(1).localCheckpoint()
        return self._tables[name]


def _write(folder: RunFolder, name: str, rows: pa.Table) -> None:
    """As one file that is there whole or not at all."""
    target = folder.measures / name / "part.parquet"
    target.parent.mkdir(parents=True, exist_ok=True)
    unfinished = target.with_name(".unfinished")
    pq.write_table(rows.sort_by([(column, "ascending") for column in TABLES[name]]), unfinished)
    unfinished.replace(target)
