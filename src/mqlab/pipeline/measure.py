"""The whole pipeline over one run folder."""

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import reduce
from typing import Final

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from mqlab.events.folder import RunFolder
from mqlab.json_values import JsonObject
from mqlab.pipeline.event_tables import (
    EventTables,
    local_table,
    measure_windows,
    points,
    read_events,
    read_message_events,
)
from mqlab.pipeline.exhibit_inputs import exhibit_inputs, load_exhibits
from mqlab.pipeline.kernels.deliveries import segments
from mqlab.pipeline.kernels.delivery_classes import delivery_classes
from mqlab.pipeline.kernels.sequences import gaps, untiled
from mqlab.pipeline.measure_tables import EventSources, begin_measures, complete_measures, examine_events, write_table
from mqlab.pipeline.run_source import count_rows, counts_of, read_counts, union_counts
from mqlab.pipeline.schema import TABLES
from mqlab.pipeline.tables.audit import EventCounts, audits, copies_per_message
from mqlab.pipeline.tables.broker_samples import broker_samples, depths, onset
from mqlab.pipeline.tables.comparisons import comparisons
from mqlab.pipeline.tables.impacts import impacts
from mqlab.pipeline.tables.lab_work import calibrations, lab_work
from mqlab.pipeline.tables.latency import confirmations, durations, latencies, observations, round_trips
from mqlab.pipeline.tables.noise import noise, used_runs
from mqlab.pipeline.tables.operations import operation_counts, operations
from mqlab.pipeline.tables.peaks import peaks
from mqlab.pipeline.tables.rates import rates, totals
from mqlab.pipeline.tables.resources import bottlenecks, resources, usage
from mqlab.pipeline.tables.series import activity, paces, series
from mqlab.pipeline.tables.steadiness import unsteady
from mqlab.pipeline.tables.summary import measures, run_measures
from mqlab.pipeline.tables.travel import travel
from mqlab.study import Exhibit

# Called with the name of a step that begins, the number of steps done, and the number of all.
Progress = Callable[[str, int, int], None]

_STEPS: Final = 21
# Event rows of a run that a task can hold: about 200 bytes each.
MOST_ROWS: Final = 10_000_000
# Called in a thread of its own: Spark takes longer to plan a table than to compute it.
_DeclareTable = Callable[[], DataFrame]
# Two threads for each core: planning a table uses one core.
_THREADS: Final = 2 * (os.cpu_count() or 1)


def measure(
    spark: SparkSession, folder: RunFolder, progress: Progress | None = None, exhibits: Sequence[Exhibit] | None = None
) -> EventSources:
    """Compute every measure table for all runs of the folder and replace the former tables.

    `exhibits` say which systems and peaks are compared; the default is those of the study in the folder. A run with a
    damaged event file is void, with the reason.
    """
    steps = _Steps(progress)
    sources, meta = examine_events(folder), folder.meta()
    events = read_events(spark, sources)
    counts = _count_events(spark, steps, sources, events)
    of_lab = calibrations(spark, meta)
    steps.persist_all(
        {
            "broker samples": lambda: broker_samples(events.samples, counts.windows),
            "resources": lambda: usage(events.samples, counts.windows),
        }
    )
    audited, _ = steps.collect_all(
        {
            "audits": lambda: _audits(events, counts),
            "lab work": lambda: lab_work(counts.activity, _totals(counts), counts.points, of_lab),
        }
    )
    values = steps.collect("run metrics", lambda: _run_metrics(steps, counts, events.travel))
    of_runs = steps.collect("noise", lambda: noise(audited, events.machine, unsteady(counts, audited, values)))
    used = used_runs(of_runs)
    looks = int(meta.get("looks") or 1)
    by_run, by_slot, *_ = steps.collect_all(
        {
            "run_measures": lambda: run_measures(values, _observations(steps, counts), used),
            "paces": lambda: paces(counts.activity, events.phases, counts.windows, used),
            "depths": lambda: depths(steps.table("broker samples"), used),
            "latencies": lambda: latencies(counts.delivery_classes, used),
            "responses": lambda: latencies(counts.round_trips, used),
            "operations": lambda: operations(steps.counts("operation counts"), used),
        }
    )
    by_point, *_ = steps.collect_all(
        {
            "measures": lambda: measures(by_run, events.runs, _bottlenecks(steps, counts, meta), of_runs, looks),
            "impacts": lambda: impacts(by_run, counts.points, looks),
            "series": lambda: series(by_slot, steps.table("broker samples")),
        }
    )
    inputs = exhibit_inputs(load_exhibits(folder) if exhibits is None else exhibits)
    at_peaks = steps.collect("peaks", lambda: peaks(by_point, counts.points, inputs.peaks))
    steps.collect("comparisons", lambda: comparisons(by_run, at_peaks, inputs.compared_metrics, looks))
    begin_measures(folder)
    complete_measures(folder, sources, {name: write_table(folder, name, steps.rows[name]) for name in TABLES})
    steps.report_progress("")
    return sources


def audit(spark: SparkSession, folder: RunFolder) -> list[JsonObject]:
    """Return the rows of the table `audits` for all runs of the folder; compute no other table, and write nothing."""
    steps = _Steps(None)
    sources = examine_events(folder)
    events = read_events(spark, sources)
    counts = _count_events(spark, steps, sources, events)
    steps.collect("audits", lambda: _audits(events, counts))
    rows: list[JsonObject] = steps.rows["audits"].to_pylist()
    return rows


def _audits(events: EventTables, counts: EventCounts) -> DataFrame:
    return audits(events.runs, events.roles, events.clocks, counts)


def _count_events(spark: SparkSession, steps: "_Steps", sources: EventSources, events: EventTables) -> EventCounts:
    windows = steps.collect("phases", lambda: measure_windows(events.phases))
    _, of_runs = steps.persist_all(
        {"counts": lambda: _counts(spark, steps, sources, events), "points": lambda: points(events.runs)}
    )
    by_slot = steps.collect("activity", lambda: steps.counts("activity"))
    return EventCounts(
        of_runs, windows, steps.counts("deliveries"), by_slot, steps.counts("round trips"), steps.counts("gaps")
    )


def _counts(spark: SparkSession, steps: "_Steps", sources: EventSources, events: EventTables) -> DataFrame:
    """The counts of all runs: in columns for those that fit into the memory of a task, in SQL for larger."""
    rows = count_rows(sources)
    small = {run: number for run, number in rows.items() if number <= MOST_ROWS}
    in_columns = read_counts(spark, sources, steps.rows["phases"], small)
    large = rows.keys() - small.keys()
    if not large:
        return in_columns
    messages, windows = read_message_events(spark, sources.of_runs(large), events.clocks), steps.table("phases")
    return union_counts(
        in_columns,
        {
            "activity": activity(messages.sends, messages.receipts, windows),
            "gaps": gaps(messages.sends, untiled(messages.sends)),
            "deliveries": delivery_classes(
                segments(messages.sends, messages.receipts, events.roles), windows, events.clocks
            ),
            "round trips": round_trips(messages.round_trips, windows),
            "confirmations": confirmations(messages.sends, windows),
            "operation counts": operation_counts(messages.operations),
        },
    )


def _totals(counts: EventCounts) -> DataFrame:
    return totals(counts.activity, counts.round_trips, counts.windows, counts.points)


def _bottlenecks(steps: "_Steps", counts: EventCounts, meta: JsonObject) -> DataFrame:
    cores = int(meta.get("machine", {}).get("cores") or 1)
    return bottlenecks(steps.table("resources"), steps.table("lab work"), counts.points, cores)


def _run_metrics(steps: "_Steps", counts: EventCounts, roles: DataFrame) -> DataFrame:
    """(run, metric, value) of all runs, valid or not."""
    in_measure = _totals(counts)
    tables = [
        rates(in_measure),
        copies_per_message(steps.table("audits")),
        durations(counts.delivery_classes, counts.round_trips, steps.counts("confirmations")),
        resources(steps.table("resources"), steps.table("lab work"), in_measure),
        onset(steps.table("broker samples")),
        travel(roles),
    ]
    return reduce(DataFrame.unionByName, tables)


def _observations(steps: "_Steps", counts: EventCounts) -> DataFrame:
    return observations(counts.activity, counts.round_trips, steps.counts("confirmations"))


class _Steps:
    """Computes every step once, so that the plans of later steps do not contain it."""

    def __init__(self, progress: Progress | None) -> None:
        self.rows: dict[str, pa.Table] = {}
        self._tables: dict[str, DataFrame] = {}
        self._progress = progress

    def collect(self, name: str, declare: _DeclareTable) -> DataFrame:
        return self.collect_all({name: declare})[0]

    def collect_all(self, tables: dict[str, _DeclareTable]) -> list[DataFrame]:
        """Fetch the rows of these tables, a few thousand, into this process. The tables must be independent."""
        return self._in_threads(self._collect, tables)

    def persist_all(self, tables: dict[str, _DeclareTable]) -> list[DataFrame]:
        """Compute these tables and leave them in Spark. The tables must be independent."""
        return self._in_threads(self._persist, tables)

    def table(self, name: str) -> DataFrame:
        return self._tables[name]

    def counts(self, table: str) -> DataFrame:
        return counts_of(self._tables["counts"], table)

    def report_progress(self, name: str) -> None:
        if self._progress is not None:
            self._progress(name, len(self._tables), _STEPS)

    def _in_threads(
        self, step: Callable[[str, _DeclareTable], DataFrame], tables: dict[str, _DeclareTable]
    ) -> list[DataFrame]:
        with ThreadPoolExecutor(_THREADS) as threads:
            return [*threads.map(step, tables, tables.values())]

    def _collect(self, name: str, declare: _DeclareTable) -> DataFrame:
        self.report_progress(name)
        table = declare()
        self.rows[name] = table.toArrow()
        self._tables[name] = local_table(table.sparkSession, self.rows[name])
        return self._tables[name]

    def _persist(self, name: str, declare: _DeclareTable) -> DataFrame:
        self.report_progress(name)
        # One partition, so that no table made from it needs a shuffle.
        self._tables[name] = declare().coalesce(1).localCheckpoint()
        return self._tables[name]
