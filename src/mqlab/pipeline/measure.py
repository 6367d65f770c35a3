"""The whole pipeline over one run folder."""

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial, reduce
from math import ceil
from typing import Final

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as fn

from mqlab.events.folder import RunFolder
from mqlab.events.sources import EventSources, count_rows
from mqlab.json_values import JsonObject
from mqlab.pipeline.counts.arrivals import have_same_arrivals, read_arrivals
from mqlab.pipeline.counts.large_runs import find_large, read_large_counts
from mqlab.pipeline.counts.run_partitions import divide
from mqlab.pipeline.counts.run_source import counts_of, gather, ordered_counts, read_partitions
from mqlab.pipeline.counts.sql_counts import sql_counts
from mqlab.pipeline.event_tables import EventTables, local_table, measure_windows, points
from mqlab.pipeline.exhibit_inputs import exhibit_inputs, load_exhibits
from mqlab.pipeline.kernels.shared_noise import paced_points
from mqlab.pipeline.measure_tables import begin_measures, complete_measures, write_table
from mqlab.pipeline.schema import TABLES
from mqlab.pipeline.shared_folder import examine
from mqlab.pipeline.tables.audit import audits, copies_per_message
from mqlab.pipeline.tables.broker_samples import broker_samples, depths, onset
from mqlab.pipeline.tables.faults import (
    fault_effects,
    fault_latencies,
    fault_metrics,
    fault_recoveries,
    fault_scopes,
    fault_silences,
    mark_unserved,
)
from mqlab.pipeline.tables.lab_work import calibrations, lab_work
from mqlab.pipeline.tables.latency import durations, latencies, latency_slots, observations
from mqlab.pipeline.tables.noise import noise, used_runs
from mqlab.pipeline.tables.operations import operations
from mqlab.pipeline.tables.points.comparisons import comparisons
from mqlab.pipeline.tables.points.impacts import impacts
from mqlab.pipeline.tables.points.peaks import peaks
from mqlab.pipeline.tables.points.summary import measures, run_measures
from mqlab.pipeline.tables.rates import rates, totals
from mqlab.pipeline.tables.resources import bottlenecks, resources, usage
from mqlab.pipeline.tables.run_facts import run_facts
from mqlab.pipeline.tables.series import paces, series
from mqlab.pipeline.tables.steadiness import unsteady
from mqlab.pipeline.tables.travel import travel
from mqlab.study import Exhibit

# Called with the name of a step that begins, the number of steps done, and the number of all.
Progress = Callable[[str, int, int], None]

_COUNTS: Final = "counts"
_RECEIVED: Final = "messages of runs with faults"
_ACTIVITY: Final = "activity"
# The tables that stay in Spark: all others are finished tables or a few rows for each run or second, and are fetched.
_PERSISTED: Final = (_COUNTS, _RECEIVED)
# Runs whose counts are in one partition. More of them are in several, so that all cores make tables from them.
RUNS_OF_PARTITION: Final = 2_000
# With more counts than this, `activity` is not fetched but read from them: it has most of them, of many short runs.
MOST_FETCHED: Final = 1_000_000

# How the names of metrics begin that slices of a run tell, or that no setting of the system changes: copies, and by how
# many calls and waits the roles moved their messages.
_BY_SLICE: Final = ("rate", "bytes", "latency", "response", "confirm", "cpu", "syncs", "sync", "copies", "message")

# Called in a thread of its own: Spark takes longer to plan a table than to compute it. None: the table has no rows.
_DeclareTable = Callable[[], DataFrame | None]


def measure(
    spark: SparkSession,
    folder: RunFolder,
    progress: Progress | None = None,
    exhibits: Sequence[Exhibit] | None = None,
    *,
    in_sql: bool = False,
    sources: EventSources | None = None,
    counts_of_runs: Callable[[EventSources], DataFrame] | None = None,
) -> EventSources:
    """Compute every measure table for all runs of the folder and replace the former tables.

    `exhibits` say which systems and peaks are compared; the default is those of the study in the folder. A run with a
    damaged event file is void, with the reason. `in_sql`: count the events in SQL, which is slower and gives the same.
    `sources`: the examined event files, if the folder has not all of them. `counts_of_runs`: gives the counts of all
    readable runs, if they were counted before.
    """
    with folder.events_locked():
        sources = sources or examine(spark, folder)
        _measure(spark, folder, sources, progress, exhibits, in_sql=in_sql, counts_of_runs=counts_of_runs)
    return sources


def _measure(
    spark: SparkSession,
    folder: RunFolder,
    sources: EventSources,
    progress: Progress | None,
    exhibits: Sequence[Exhibit] | None,
    *,
    in_sql: bool,
    counts_of_runs: Callable[[EventSources], DataFrame] | None,
) -> None:
    meta = folder.meta()
    inputs = exhibit_inputs(load_exhibits(folder) if exhibits is None else exhibits)
    events, of_lab = EventTables(spark, sources), calibrations(spark, meta)
    looks = int(meta.get("looks") or 1)
    steps = _Steps(spark, progress)
    table = steps.table
    steps.compute(
        _audit_tables(steps, sources, events, in_sql=in_sql, counts_of_runs=counts_of_runs)
        | {
            "broker samples": lambda: broker_samples(events.samples, table("phases")),
            "resources": lambda: usage(events.samples, table("phases")),
            "durations": lambda: durations(table(_COUNTS)),
            "lab work": lambda: lab_work(table(_ACTIVITY), table("run facts"), of_lab),
            "run metrics": lambda: _run_metrics(steps, events.travel),
            "unsteady": lambda: unsteady(table("run facts"), table("durations"), table(_ACTIVITY)),
            "noise": lambda: noise(table("audits"), events.machine, table("unsteady")),
            "run_measures": lambda: run_measures(
                table("run metrics"), observations(table("run facts")), _used(steps)
            ),
            "bottlenecks": lambda: _bottlenecks(steps, meta),
            "measures": lambda: _with_unserved(
                steps, measures(_paced_measures(steps), events.runs, table("bottlenecks"), table("noise"), looks)
            ),
            "impacts": lambda: (
                impacts(_paced_measures(steps), table("points"), looks) if _has_bases(steps) else None
            ),
            "peaks": lambda: peaks(table("measures"), table("points"), inputs.peaks) if inputs.peaks else None,
            "comparisons": lambda: (
                comparisons(_paced_measures(steps), table("peaks"), inputs.compared_metrics, looks)
                if _has_pairs(steps) else None
            ),
            "paces": lambda: paces(table(_ACTIVITY), events.phases, table("phases"), _used_whole(steps)),
            "series": lambda: series(table("paces"), table("broker samples")),
            "depths": lambda: depths(table("broker samples"), _used_whole(steps)),
            "latencies": lambda: latencies(table(_COUNTS), "deliveries", _used(steps)),
            "responses": lambda: (
                latencies(table(_COUNTS), "round trips", _used(steps)) if sources.readable("round_trips") else None
            ),
            "latency_slots": lambda: latency_slots(table(_COUNTS), table("phases"), _used_whole(steps)),
            "operations": lambda: (
                operations(counts_of(table(_COUNTS), "operation counts"), _used_whole(steps))
                if sources.readable("operations") else None
            ),
        }
        | (
            _fault_tables(steps, sources, events, in_sql=in_sql)
            if sources.readable("faults") else {"faults": lambda: None}
        ),
    )  # fmt: skip
    with folder.measures_locked():
        begin_measures(folder)
        complete_measures(folder, sources, {name: write_table(folder, name, steps.rows(name)) for name in TABLES})


def audit(spark: SparkSession, folder: RunFolder) -> list[JsonObject]:
    """Return the rows of the table `audits` for all runs of the folder; compute no other table, and write nothing."""
    steps = _Steps(spark, None)
    with folder.events_locked():
        sources = examine(spark, folder)
        steps.compute(_audit_tables(steps, sources, EventTables(spark, sources)))
    rows: list[JsonObject] = steps.rows("audits").to_pylist()
    return rows


def measure_runs(spark: SparkSession, sources: EventSources) -> dict[str, pa.Table]:
    """Return the tables `counts` and `audits` of the runs, and their rates and durations as `figures`."""
    steps = _Steps(spark, None)
    tables = _audit_tables(steps, sources, EventTables(spark, sources))
    tables["all counts"] = lambda: steps.table(_COUNTS)
    tables["figures"] = lambda: rates(totals(steps.table("run facts"))).unionByName(durations(steps.table(_COUNTS)))
    steps.compute(tables)
    names = {"counts": "all counts", "audits": "audits", "figures": "figures"}
    return {name: steps.rows(table) for name, table in names.items()}


def count_runs(spark: SparkSession, sources: EventSources) -> DataFrame:
    """The counts of all events of the runs."""
    steps = _Steps(spark, None)
    return local_table(spark, _all_counts(steps, _audit_tables(steps, sources, EventTables(spark, sources))))


def differing_counts(spark: SparkSession, folder: RunFolder, sources: EventSources | None = None) -> list[str]:
    """Count all events in both ways, in columns and in SQL; return the names of the tables that are not the same."""
    ways, arrivals = [], []
    with folder.events_locked():
        sources = sources or examine(spark, folder)
        for in_sql in (False, True):
            steps, events = _Steps(spark, None), EventTables(spark, sources)
            tables = _audit_tables(steps, sources, events, in_sql=in_sql)
            ways.append(ordered_counts(_all_counts(steps, tables)))
            if sources.readable("faults"):
                arrivals.append(read_arrivals(spark, sources, steps.rows("phases"), events, in_sql=in_sql))
        in_columns, in_sql_too = ways
        different = [name for name, rows in in_columns.items() if rows != in_sql_too[name]]
        return different if not arrivals or have_same_arrivals(*arrivals) else [*different, "arrivals"]


def _all_counts(steps: "_Steps", tables: Mapping[str, _DeclareTable]) -> pa.Table:
    steps.compute({"phases": tables["phases"], "all counts": tables[_COUNTS]})
    return steps.rows("all counts")


def _audit_tables(
    steps: "_Steps",
    sources: EventSources,
    events: EventTables,
    *,
    in_sql: bool = False,
    counts_of_runs: Callable[[EventSources], DataFrame] | None = None,
) -> dict[str, _DeclareTable]:
    return {
        "phases": lambda: measure_windows(steps.spark, events, sources.sharing),
        "points": lambda: points(events.runs),
        _COUNTS: lambda: gather(
            counts_of_runs(sources) if counts_of_runs else _counts(steps, sources, events, in_sql=in_sql),
            ceil(len(steps.rows("phases")) / RUNS_OF_PARTITION),
        ),
        _ACTIVITY: lambda: counts_of(steps.table(_COUNTS), _ACTIVITY),
        "run facts": lambda: run_facts(steps.table(_COUNTS), steps.table("points"), steps.table("phases")),
        "audits": lambda: audits(events.runs, events.roles, events.clocks, steps.table("run facts")),
    }


def _counts(steps: "_Steps", sources: EventSources, events: EventTables, *, in_sql: bool) -> DataFrame:
    if in_sql:
        return sql_counts(steps.spark, sources, events, steps.table("phases"))
    rows, windows = count_rows(sources), steps.rows("phases")
    large = find_large(sources, rows)
    small = {run: number for run, number in rows.items() if run not in large}
    counts = read_partitions(steps.spark, divide(sources, windows, small))
    if not large:
        return counts
    of_large = read_large_counts(steps.spark, sources.of_runs(large), windows)
    return counts.unionByName(of_large, allowMissingColumns=True)


def _used(steps: "_Steps") -> DataFrame:
    return steps.shared("used runs", lambda: used_runs(steps.table("noise")))


def _used_whole(steps: "_Steps") -> DataFrame:
    """The used runs without those that share their events: what is not told by slices is not told of one of them."""
    if not _are_sliced(steps):
        return _used(steps)
    return _used(steps).join(
        fn.broadcast(steps.table("phases").where("edges IS NULL").select("run")), "run", "left_semi"
    )


def _are_sliced(steps: "_Steps") -> bool:
    edges = steps.rows("phases")["edges"]
    return bool(edges.null_count < len(edges))


def _paced_measures(steps: "_Steps") -> DataFrame:
    """The run measures, and whether their points are paced."""

    def paced() -> DataFrame:
        points = fn.broadcast(paced_points(steps.table("points")))
        return steps.table("run_measures").join(points, ["scenario", "point"])

    return steps.shared("paced measures", paced)


def _has_bases(steps: "_Steps") -> bool:
    return any(base is not None for base in steps.rows("points")["base"].to_pylist())


def _has_pairs(steps: "_Steps") -> bool:
    return len(steps.rows("run_measures")["system"].unique()) > 1


def _bottlenecks(steps: "_Steps", meta: JsonObject) -> DataFrame:
    cores = int(meta.get("machine", {}).get("cores") or 1)
    return bottlenecks(steps.table("resources"), steps.table("lab work"), steps.table("run facts"), cores)


def _run_metrics(steps: "_Steps", roles: DataFrame) -> DataFrame:
    """(run, metric, value) of all runs, valid or not; of those that share their events, what slices tell."""
    in_measure = totals(steps.table("run facts"))
    tables = [
        rates(in_measure),
        copies_per_message(steps.table("run facts")),
        steps.table("durations"),
        resources(steps.table("resources"), steps.table("lab work"), in_measure),
        onset(steps.table("broker samples")),
        travel(roles),
        *([fault_metrics(steps.table("faults"), _used(steps))] if len(steps.rows("faults")) else []),
    ]
    metrics = reduce(DataFrame.unionByName, tables)
    if not _are_sliced(steps):
        return metrics
    sliced = fn.broadcast(steps.table("phases").where("edges IS NOT NULL").select("run"))
    by_slice = metrics.where(fn.substring_index("metric", ".", 1).isin(*_BY_SLICE))
    return metrics.join(sliced, "run", "left_anti").unionByName(by_slice.join(sliced, "run", "left_semi"))


def _with_unserved(steps: "_Steps", point_measures: DataFrame) -> DataFrame:
    if not len(steps.rows("faults")):
        return point_measures
    return mark_unserved(point_measures, steps.table("faults"), _used(steps)).select(*point_measures.columns)


def _fault_tables(
    steps: "_Steps", sources: EventSources, events: EventTables, *, in_sql: bool
) -> dict[str, _DeclareTable]:
    """From the messages of the runs with faults alone: no other table needs them one by one."""
    table = steps.table
    received = partial(table, _RECEIVED)
    return {
        _RECEIVED: lambda: read_arrivals(steps.spark, sources, steps.rows("phases"), events, in_sql=in_sql),
        "fault scopes": lambda: fault_scopes(events.faults, table("phases"), events.phases),
        "silences": lambda: fault_silences(received(), table("fault scopes")),
        "recoveries": lambda: fault_recoveries(received(), table("fault scopes"), table("silences")),
        "fault latencies": lambda: fault_latencies(received(), table("fault scopes"), table("recoveries")),
        "faults": lambda: fault_effects(
            table("fault scopes"), table("silences"), table("recoveries"), table("fault latencies"), events.runs
        ),
    }


class _Steps:
    """Computes every table once, so that the plans of others do not contain it, and as soon as it can be computed."""

    def __init__(self, spark: SparkSession, progress: Progress | None) -> None:
        self.spark = spark
        self._progress = progress
        self._computed: dict[str, Future[pa.Table | DataFrame]] = {}
        self._shared: dict[str, DataFrame] = {}
        self._counts = 0

    def compute(self, tables: Mapping[str, _DeclareTable]) -> None:
        """Compute tables; each comes after those that it is made from."""
        # A thread for each, since a thread waits for the tables that its own is made from.
        with ThreadPoolExecutor(len(tables)) as threads:
            for name, declare in tables.items():
                self._computed[name] = threads.submit(self._compute, name, declare, len(tables))
        for computed in self._computed.values():
            computed.result()
        for name in _PERSISTED:
            if name in tables:
                self.table(name).unpersist()
        self._report_progress("", len(tables))

    def table(self, name: str) -> DataFrame:
        """The table, once it is computed."""
        computed = self._computed[name].result()
        if isinstance(computed, DataFrame):
            return computed
        return self.shared(name, lambda: local_table(self.spark, computed))

    def rows(self, name: str) -> pa.Table:
        return self._computed[name].result()

    def shared(self, name: str, declare: Callable[[], DataFrame]) -> DataFrame:
        """A table that is part of the plans of several: Spark analyses it once."""
        if name not in self._shared:
            self._shared[name] = declare()
        return self._shared[name]

    def _compute(self, name: str, declare: _DeclareTable, number: int) -> pa.Table | DataFrame:
        table = declare()
        self._report_progress(name, number)
        if table is None:
            return TABLES[name].schema.empty_table()
        if name == _ACTIVITY and self._counts > MOST_FETCHED:
            return table
        if name not in _PERSISTED:
            return table.toArrow()
        # Spark computes it again if an executor is lost.
        persisted = table.persist()
        number = persisted.count()
        self._counts = number if name == _COUNTS else self._counts
        return persisted

    def _report_progress(self, name: str, number: int) -> None:
        if self._progress is not None:
            self._progress(name, sum(computed.done() for computed in [*self._computed.values()]), number)
