"""The results of a run, read once: the study, the measure tables and the published values. Nothing is computed."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, TypeVar

from mqlab.events.folder import RunFolder
from mqlab.json_values import JsonObject
from mqlab.pipeline import schema
from mqlab.pipeline.measure_tables import read_table
from mqlab.report.render.formatting import FLAG, FLAGGED, count, listed, plain, slug
from mqlab.study import Exhibit, Point, Study, load_study
from mqlab.study.exhibit import own_scenarios
from mqlab.study.language.reference import PointIndex
from mqlab.study.metric import is_between_agents
from mqlab.study.rounds.interleaving import interleaved_groups
from mqlab.study.rounds.paired import StudyRounds
from mqlab.study.travel import MESSAGE_BY_MESSAGE, PACKED, way_of_travel


@dataclass(frozen=True)
class MeasuredSystem:
    """A system as it was run. Its `stamps` stand beside all its figures.

    `durability`: what its confirmations and acknowledgements guarantee; `witnessed`: what the sync check observed.
    `ahead_seconds`: the longest lead of a free producer, as the time in which the system takes the messages; None: no
    limit. `rehearsals`: the number of warm-up runs of a second.
    """

    name: str
    version: str
    settings: dict[str, str]
    stamps: tuple[str, ...]
    durability: dict[str, str] = field(default_factory=dict)
    witnessed: str = ""
    ahead_seconds: float | None = None
    rehearsals: int = 0


Row = TypeVar("Row")
PointKey = tuple[str, str, str]  # a system, a scenario and a point's name


def _table(name: str, row: type[Row], *order: str) -> "cached_property[tuple[Row, ...]]":
    """The rows of a measure table, read when they are first used, and sorted by these columns."""

    def read(results: "RunResults") -> tuple[Row, ...]:
        table, columns = read_table(results.folder, name), schema.columns(row)
        rows = [row(**{column: _cleaned(values.get(column)) for column in columns}) for values in table]
        return tuple(sorted(rows, key=lambda values: [getattr(values, column) for column in order]))

    return cached_property(read)


@dataclass(frozen=True)
class RunResults:
    folder: RunFolder
    meta: JsonObject
    study: Study

    @classmethod
    def of(cls, folder: RunFolder) -> "RunResults":
        return cls(folder, _cleaned(folder.meta()), load_study(folder.study, own=True))

    def with_tables(self, **tables: object) -> "RunResults":
        """The same with these tables (or other cached properties), which are then not read from the folder."""
        results = replace(self)
        vars(results).update(tables)
        return results

    measures = _table("measures", schema.MeasureRow)
    run_measures = _table("run_measures", schema.RunMeasureRow)
    audits = _table("audits", schema.AuditRow, "run")
    noise = _table("noise", schema.NoiseRow, "run")
    faults = _table("faults", schema.FaultEffectRow, "scenario", "point", "system", "run", "number")
    series = _table("series", schema.SeriesRow, "run", "second")
    latencies = _table("latencies", schema.LatencyRow, "latency")
    responses = _table("responses", schema.LatencyRow, "latency")
    latency_slots = _table("latency_slots", schema.LatencySlotRow, "run", "seconds", "latency")
    paces = _table("paces", schema.PaceRow, "run", "seconds")
    depths = _table("depths", schema.DepthRow, "run", "seconds")
    impacts = _table("impacts", schema.ImpactRow)
    comparisons = _table("comparisons", schema.ComparisonRow)
    peaks = _table("peaks", schema.PeakRow)
    operations = _table("operations", schema.OperationSummaryRow)

    @cached_property
    def points(self) -> tuple[Point, ...]:
        """Those of the study, and those that a search added."""
        return (*self.study.points(self.scale), *self.searched)

    @cached_property
    def searched(self) -> tuple[Point, ...]:
        return tuple(Point.model_validate(point) for point in self.meta.get("searched") or ())

    @cached_property
    def judged_points(self) -> tuple[Point, ...]:
        """Those of the study. A search also plays rates that are meant to be too high."""
        of_searches = {(point.scenario, point.name) for point in self.searched}
        return tuple(point for point in self.points if (point.scenario, point.name) not in of_searches)

    @cached_property
    def noise_of(self) -> dict[int, schema.NoiseRow]:
        return {noise.run: noise for noise in self.noise}

    @cached_property
    def values_of(self) -> dict[int, dict[str, schema.RunMeasureRow]]:
        """The metrics of each used run, by name."""
        values: dict[int, dict[str, schema.RunMeasureRow]] = {}
        for row in self.run_measures:
            values.setdefault(row.run, {})[row.metric] = row
        return values

    @cached_property
    def rounds(self) -> StudyRounds:
        """The used runs of all points, by the rounds in which they took turns."""
        values: dict[tuple[str, str, tuple[str, str]], dict[int, float]] = {}
        places: dict[PointKey, dict[int, int]] = {}
        for run in self.run_measures:
            key = run.system, run.metric, (run.scenario, run.point)
            values.setdefault(key, {})[run.repetition] = run.value
            places.setdefault((run.system, run.scenario, run.point), {})[run.repetition] = run.run
        rounds = StudyRounds(int(self.meta.get("looks") or 1))
        paced = {(point.scenario, point.name) for point in self.points if point.is_paced}
        for (system, metric, point), by_round in values.items():
            turns = self.turns.get(point, point), self.run_of.get(system, "")
            in_order = places[system, *point]
            rounds.add(system, metric, point, turns, by_round, is_paced=point in paced, places=in_order)
        return rounds

    @cached_property
    def run_of(self) -> dict[str, str]:
        """The run of each system, where the results are of two runs (report/comparison): these took no turns."""
        return {}

    @cached_property
    def turns(self) -> dict[tuple[str, str], int]:
        """The group of points with which each takes turns."""
        groups = enumerate(interleaved_groups(self.points, self.study.claims))
        return {(point.scenario, point.name): number for number, group in groups for point in group}

    @cached_property
    def study_points(self) -> tuple[Point, ...]:
        """Those of the study itself, without the scenarios and rates that the lab added."""
        of_lab = own_scenarios(self.points)
        return tuple(point for point in self.study.points(self.scale) if point.scenario not in of_lab)

    @cached_property
    def declared(self) -> tuple[Point, ...]:
        """The points of the study at full scale: those that published values belong to."""
        return tuple(self.study.points("full"))

    @cached_property
    def point_index(self) -> PointIndex:
        return PointIndex(self.points)

    @cached_property
    def declared_index(self) -> PointIndex:
        return PointIndex(self.declared)

    @cached_property
    def systems(self) -> tuple[MeasuredSystem, ...]:
        """The systems. If one has packed messages, each of them says how its messages travelled."""
        systems = [_system(entry) for entry in self.meta.get("systems", [])]
        if not self.packed:
            return tuple(systems)
        return tuple(replace(system, stamps=(*system.stamps, self.way(system.name))) for system in systems)

    def way(self, system: str) -> str:
        """How the messages of a system travelled: packed or not, in all its points."""
        return PACKED if system in self.packed else MESSAGE_BY_MESSAGE

    @cached_property
    def packed(self) -> frozenset[str]:
        """The systems whose messages were packed, as recorded."""
        return frozenset(m.system for m in self.measures if m.metric == "message.records" and m.value > 1)

    @property
    def published_stamps(self) -> tuple[str, ...]:
        """The programs of the studies sent message by message, which stands beside their figures if ours are packed."""
        return (MESSAGE_BY_MESSAGE,) if self.packed else ()

    def travel(self, system: str, point: Point) -> str:
        """How the messages travelled, as recorded; "" if it was not recorded."""
        return self.travel_at(system, point.scenario, point.name)

    def travel_at(self, system: str, scenario: str, point: str) -> str:
        """The same, by the names of a measure."""
        found = (self._measures_by_point.get(((system, scenario, point), f"message.{n}")) for n in ("records", "waits"))
        records, waits = found
        if records is None or waits is None:
            return ""
        way = way_of_travel(records.value, waits.value)
        return f"{way}, {records.value:,.0f} records a message" if way == PACKED else way

    def clock_error_s(self, metric: str) -> float:
        """How wrong a value of the metric may be, since agents on several machines read several clocks."""
        return 2 * float(self.meta.get("clock_error") or 0.0) if is_between_agents(metric) else 0.0

    @property
    def scale(self) -> str:
        return str(self.meta["scale"])

    @property
    def is_incomplete(self) -> bool:
        """Whether the study was ended before its end."""
        return bool(self.meta.get("status") == schema.INCOMPLETE)

    @cached_property
    def _measures_by_point(self) -> dict[tuple[PointKey, str], schema.MeasureRow]:
        return {((m.system, m.scenario, m.point), m.metric): m for m in self.measures}

    @cached_property
    def _audits_by_point(self) -> dict[PointKey, list[schema.AuditRow]]:
        audits: dict[PointKey, list[schema.AuditRow]] = {}
        for audit in self.audits:
            audits.setdefault((audit.system, audit.scenario, audit.point), []).append(audit)
        return audits

    @cached_property
    def _unsupported(self) -> dict[PointKey, str]:
        """The points that a system could not run, with the feature that it lacks."""
        absences = self.meta.get("absences") or ()
        return {(absence["system"], absence["scenario"], absence["point"]): absence["reason"] for absence in absences}

    @cached_property
    def _impacts_by_point(self) -> dict[tuple[PointKey, str], schema.ImpactRow]:
        return {((i.system, i.scenario, i.point), i.metric): i for i in self.impacts}

    @cached_property
    def _peaks_by_point(self) -> dict[tuple[PointKey, str, frozenset[str]], schema.PeakRow]:
        return {((p.system, p.scenario, p.point), p.metric, frozenset(p.over.split(", "))): p for p in self.peaks}

    @cached_property
    def _comparisons_by_point(self) -> dict[tuple[str, ...], schema.ComparisonRow]:
        return {
            (c.first, c.second, c.scenario, c.parameters if c.over else c.point, c.metric, c.over): c
            for c in self.comparisons
        }

    @cached_property
    def _flags_by_point(self) -> dict[PointKey, str]:
        return {(m.system, m.scenario, m.point): flags_of(m) for m in self.measures}

    def points_of(self, scenario: str) -> list[Point]:
        return [point for point in self.points if point.scenario == scenario]

    def measure(self, system: str, point: Point, metric: str) -> schema.MeasureRow | None:
        return self._measures_by_point.get((_point_key(system, point), metric))

    def run_values(self, system: str, point: Point, metric: str) -> tuple[float, ...]:
        """The values of the used runs of a point, in their order."""
        return tuple(self._run_values.get((_point_key(system, point), metric), ()))

    @cached_property
    def _run_values(self) -> dict[tuple[PointKey, str], list[float]]:
        values: dict[tuple[PointKey, str], list[float]] = {}
        for m in self.run_measures:
            values.setdefault(((m.system, m.scenario, m.point), m.metric), []).append(m.value)
        return values

    def impact(self, system: str, point: Point, metric: str) -> schema.ImpactRow | None:
        return self._impacts_by_point.get((_point_key(system, point), metric))

    def peak(self, system: str, points: Sequence[Point], metric: str, over: Sequence[str]) -> schema.PeakRow | None:
        """The peak over these parameters, if one of the points reached it."""
        keys = ((_point_key(system, point), metric, frozenset(over)) for point in points)
        return next((self._peaks_by_point[key] for key in keys if key in self._peaks_by_point), None)

    def comparison(self, first: str, second: str, point: Point, metric: str) -> schema.ComparisonRow | None:
        return self._comparisons_by_point.get((first, second, point.scenario, point.name, metric, ""))

    def peak_comparison(
        self, first: str, second: str, points: Sequence[Point], metric: str, over: Sequence[str]
    ) -> schema.ComparisonRow | None:
        peak = self.peak(first, points, metric, over)
        if peak is None:
            return None
        return self._comparisons_by_point.get((first, second, peak.scenario, peak.parameters, metric, peak.over))

    def flags(self, system: str, point: Point) -> str:
        """The marks behind each figure of the point; see `flags_of`."""
        return self._flags_by_point.get(_point_key(system, point), "")

    def why_flagged(self, system: str, point: Point) -> str:
        """Why the first used run of the point that is flagged decides no verdict; "" if all do."""
        place = _point_key(system, point)
        used = (run for run in self.noise if run.used and (run.system, run.scenario, run.point) == place)
        return next((run.flagged for run in used if run.flagged), "")

    def has_valid_run(self, system: str, point: Point) -> bool:
        return _point_key(system, point) in self._flags_by_point

    def audits_of(self, system: str, point: Point) -> list[schema.AuditRow]:
        return self._audits_by_point.get(_point_key(system, point), [])

    def never_recovered(self, system: str, point: Point) -> tuple[int, int]:
        """The used runs of a point in which the system did not recover from a fault; and all used runs."""
        place = _point_key(system, point)
        used = {run.run for run in self.noise if run.used and (run.system, run.scenario, run.point) == place}
        return len({fault.run for fault in self.faults if fault.run in used and fault.recovery is None}), len(used)

    def absence(self, system: str, point: Point, brief: bool = False, metric: str = "") -> str:
        """Why a point has no measure, or not this one: with the reasons of its runs, if it has any and not `brief`."""
        audits = self.audits_of(system, point)
        if not audits:
            return self._unsupported.get(_point_key(system, point), "not run")
        if any(audit.status == schema.CLEAN for audit in audits):
            unrecovered, used = self.never_recovered(system, point) if metric == "fault.recovery" else (0, 0)
            return f"{unrecovered} of {count(used, 'run')} never recovered" if unrecovered else "not measured"
        reasons = dict.fromkeys(f"{a.status}: {a.reason}" if a.reason else a.status for a in audits)
        return "no valid run" if brief else "; ".join(("no valid run", *reasons))

    def figure_name(self, kind: str, point: Point) -> str:
        """The stem of a file name; the number of the point makes it unique."""
        return slug(f"{kind} {self._numbers[point.scenario, point.name]:02d} {point.label}")

    def exhibit_name(self, kind: str, exhibit: Exhibit) -> str:
        """The stem of the file name of an exhibit's figure; the number of the exhibit makes it unique."""
        number = next((n for n, other in enumerate(self.study.exhibits, start=1) if other is exhibit), 0)
        return slug(f"{kind} {number:02d} {exhibit.value or ''} {exhibit.title}")

    @cached_property
    def _numbers(self) -> dict[tuple[str, str], int]:
        return {(point.scenario, point.name): n for n, point in enumerate(self.points, start=1)}

    def names(self) -> list[str]:
        """The systems with their stamps, as charts name them."""
        return [stamped(system.name, system.stamps) for system in self.systems]

    def stamps_of(self, *systems: str) -> tuple[str, ...]:
        stamps = (stamp for system in self.systems if system.name in systems for stamp in system.stamps)
        return tuple(dict.fromkeys(stamps))


def flags_of(measure: schema.MeasureRow) -> str:
    """FLAG: an agent used more CPU than the study allows. FLAGGED: all runs are disturbed or not steady."""
    flags = {FLAG: measure.client_cpu, FLAGGED: measure.quiet is False}
    return "".join(f" {flag}" for flag, applies in flags.items() if applies)


def stamped(name: str, stamps: Iterable[str], between: str = " ") -> str:
    """A system's name with its stamps, as plain text."""
    given = list(stamps)
    return f"{name}{between}[{listed(given)}]" if given else name


def _point_key(system: str, point: Point) -> PointKey:
    return system, point.scenario, point.name


def _system(entry: JsonObject) -> MeasuredSystem:
    settings = {
        str(key): "none" if value is None else str(value) for key, value in (entry.get("settings") or {}).items()
    }
    stamps = tuple(str(stamp) for stamp in entry.get("stamps") or ())
    return MeasuredSystem(
        str(entry["name"]), str(entry.get("version") or ""), settings, stamps, dict(entry.get("durability") or {}),
        str(entry.get("witnessed") or ""), entry.get("ahead_seconds"), int(entry.get("rehearsals") or 0),
    )  # fmt: skip


# Any: values of JSON and of Parquet rows (pyarrow has no types), which keep their type.
def _cleaned(value: Any) -> Any:
    """Replace control characters: names and reasons may come from a system or its clients (see formatting.plain)."""
    if isinstance(value, str):
        return plain(value)
    if isinstance(value, dict):
        return {_cleaned(key): _cleaned(item) for key, item in value.items()}
    return [_cleaned(item) for item in value] if isinstance(value, list) else value
