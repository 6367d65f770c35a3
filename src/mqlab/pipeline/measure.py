"""The whole pipeline over one run folder."""

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import reduce
from typing import Final

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as fn

from mqlab.events.folder import RunFolder
from mqlab.pipeline.event_tables import Events, local, read_events, spans
from mqlab.pipeline.exhibit_inputs import exhibits_of, wanted
from mqlab.pipeline.kernels.deliveries import segments
from mqlab.pipeline.kernels.delivery_classes import fates
from mqlab.pipeline.measure_tables import write_table
from mqlab.pipeline.points import points
from mqlab.pipeline.schema import TABLES
from mqlab.pipeline.sources import Sources, begin, complete, examined
from mqlab.pipeline.tables.activity import activity
from mqlab.pipeline.tables.audit import Found, audits, copies, valid
from mqlab.pipeline.tables.broker_samples import depths, looks, onset
from mqlab.pipeline.tables.calibrations import calibrations
from mqlab.pipeline.tables.comparisons import comparisons
from mqlab.pipeline.tables.impacts import impacts
from mqlab.pipeline.tables.latency import confirmations, durations, latencies
from mqlab.pipeline.tables.operations import operations, traced
from mqlab.pipeline.tables.peaks import peaks
from mqlab.pipeline.tables.rates import rates, totals
from mqlab.pipeline.tables.resources import bounds, resources, usage
from mqlab.pipeline.tables.round_trips import round_trips
from mqlab.pipeline.tables.series import paces, series
from mqlab.pipeline.tables.summary import measures, run_measures
from mqlab.study import Exhibit

# The name of a step that begins, how many are done, and of how many.
Progress = Callable[[str, int, int], None]

_STEPS: Final = 21
# Declared where it is computed, beside others: Spark takes longer to understand and plan a table than to compute it.
_Table = Callable[[], DataFrame]
# Two for each core: planning has but one core.
_THREADS: Final = 2 * (os.cpu_count() or 1)


def measure(
    spark: SparkSession,
    folder: RunFolder,
    progress: Progress | None = None,
    exhibits: Sequence[Exhibit] | None = None,
) -> Sources:
    """Computes every table of `measures/` for all runs of the folder, in place of what was there.

    `exhibits` say what is compared; without them, those of the study in the folder. A run of which an event file is
    damaged is void, with the reason; the others keep their figures.
    """
    steps = _Steps(progress)
    sources = examined(folder)
    events = read_events(spark, sources)
    found = _found(steps, events)
    good = valid(steps.take("audits", lambda: audits(events.runs, events.roles, events.clocks, found)))
    of_runs, moved, *_ = steps.take_together(
        {
            "run_measures": lambda: run_measures(_figures(steps, found), good),
            "paces": lambda: paces(found.activity, events.phases, found.spans, good),
            "depths": lambda: depths(steps.table("looks"), good),
            "latencies": lambda: latencies(found.fates, good),
            "responses": lambda: latencies(found.round_trips, good),
            "operations": lambda: operations(steps.table("traced"), good),
        }
    )
    of_points, *_ = steps.take_together(
        {
            "measures": lambda: measures(of_runs, events.runs, _limits(steps, found, folder), good),
            "impacts": lambda: impacts(of_runs, found.points),
            "series": lambda: series(moved, steps.table("looks")),
        }
    )
    shown = wanted(exhibits_of(folder) if exhibits is None else exhibits)
    at_peaks = steps.take("peaks", lambda: peaks(of_points, found.points, shown.peaks))
    steps.take("comparisons", lambda: comparisons(of_runs, at_peaks, shown.compared))
    begin(folder)
    complete(folder, sources, {name: write_table(folder, name, steps.rows[name]) for name in TABLES})
    steps.tell("")
    return sources


def _found(steps: "_Steps", events: Events) -> Found:
    """What is counted over all events: everything else is made of these tables, which are small beside them."""
    when = steps.take("phases", lambda: spans(events.phases))
    moved = steps.take("activity", lambda: activity(events.sends, events.receipts, when))
    fate, trips, of_runs, *_ = steps.keep_together(
        {
            "deliveries": lambda: fates(_segments(events, steps.rows["activity"]), when),
            "round trips": lambda: round_trips(events.round_trips, when),
            "points": lambda: points(events.runs),
            "confirmations": lambda: confirmations(events.sends, when),
            "traced": lambda: traced(events.operations),
            "looks": lambda: looks(events.samples, when),
            "resources": lambda: usage(events.samples, when),
        }
    )
    return Found(of_runs, when, fate, moved, trips)


def _totals(found: Found) -> DataFrame:
    return totals(found.activity, found.round_trips, found.spans, found.points)


def _limits(steps: "_Steps", found: Found, folder: RunFolder) -> DataFrame:
    """What held each run back."""
    meta, used = folder.meta(), steps.table("resources")
    cores = int(meta.get("machine", {}).get("cores") or 1)
    return bounds(used, _totals(found), found.points, calibrations(used.sparkSession, meta), cores)


def _figures(steps: "_Steps", found: Found) -> DataFrame:
    """(run, metric, value) of all runs, whether they are valid or not."""
    moved = _totals(found)
    figures = [
        rates(moved),
        copies(steps.table("audits")),
        durations(found.fates, found.round_trips, steps.table("confirmations")),
        resources(steps.table("resources"), moved),
        onset(steps.table("looks")),
    ]
    return reduce(DataFrame.unionByName, figures)


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


class _Steps:
    """Every step is computed once: what follows from it does not compute it again, nor does its plan grow by it."""

    def __init__(self, progress: Progress | None) -> None:
        self.rows: dict[str, pa.Table] = {}
        self._tables: dict[str, DataFrame] = {}
        self._progress = progress

    def take(self, name: str, table: _Table) -> DataFrame:
        return self.take_together({name: table})[0]

    def take_together(self, tables: dict[str, _Table]) -> list[DataFrame]:
        """Tables of which the rows are wanted here, a few thousand of them; none of them needs another one."""
        return self._together(self._fetch, tables)

    def keep_together(self, tables: dict[str, _Table]) -> list[DataFrame]:
        """Tables that only others are made of: they stay with Spark."""
        return self._together(self._keep, tables)

    def table(self, name: str) -> DataFrame:
        """One that was taken or kept."""
        return self._tables[name]

    def tell(self, name: str) -> None:
        if self._progress is not None:
            self._progress(name, len(self._tables), _STEPS)

    def _together(self, step: Callable[[str, _Table], DataFrame], tables: dict[str, _Table]) -> list[DataFrame]:
        with ThreadPoolExecutor(_THREADS) as threads:
            return [*threads.map(step, tables, tables.values())]

    def _fetch(self, name: str, table: _Table) -> DataFrame:
        self.tell(name)
        declared = table()
        self.rows[name] = declared.toArrow()
        self._tables[name] = local(declared.sparkSession, self.rows[name])
        return self._tables[name]

    def _keep(self, name: str, table: _Table) -> DataFrame:
        self.tell(name)
        # In one partition, so that nothing that is made of it needs a shuffle.
        self._tables[name] = table().coalesce(1).localCheckpoint()
        return self._tables[name]
