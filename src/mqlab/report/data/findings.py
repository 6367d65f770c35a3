"""All that a report may show, read once: the declaration, the measures and what was published. Nothing is computed."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any, TypeVar

from mqlab.events.folder import RunFolder
from mqlab.pipeline.measure import read
from mqlab.report.data.lookup import Lookup
from mqlab.report.data.records import (
    CLEAN,
    Audit,
    Bucket,
    Comparison,
    Depth,
    Impact,
    Measure,
    Operation,
    Pace,
    Peak,
    RunMeasure,
    Second,
    System,
)
from mqlab.report.render.formatting import listed, plain, slug
from mqlab.study import Exhibit, Point, Study, load_study

Record = TypeVar("Record")
Place = tuple[str, str, str]  # a system, a scenario and a point's name


@dataclass(frozen=True)
class Findings:
    folder: RunFolder
    meta: dict[str, Any]
    study: Study

    @classmethod
    def of(cls, folder: RunFolder) -> "Findings":
        return cls(folder, _cleaned(folder.meta()), load_study(folder.study, own=True))

    @cached_property
    def measures(self) -> tuple[Measure, ...]:
        return self._records("measures", Measure)

    @cached_property
    def run_measures(self) -> tuple[RunMeasure, ...]:
        return self._records("run_measures", RunMeasure)

    @cached_property
    def audits(self) -> tuple[Audit, ...]:
        return tuple(sorted(self._records("audits", Audit), key=lambda audit: audit.run))

    @cached_property
    def series(self) -> tuple[Second, ...]:
        return tuple(sorted(self._records("series", Second), key=lambda second: (second.run, second.second)))

    @cached_property
    def latencies(self) -> tuple[Bucket, ...]:
        return tuple(sorted(self._records("latencies", Bucket), key=lambda bucket: bucket.latency))

    @cached_property
    def responses(self) -> tuple[Bucket, ...]:
        """The histogram of round trips."""
        return tuple(sorted(self._records("responses", Bucket), key=lambda bucket: bucket.latency))

    @cached_property
    def paces(self) -> tuple[Pace, ...]:
        return tuple(sorted(self._records("paces", Pace), key=lambda pace: (pace.run, pace.seconds)))

    @cached_property
    def depths(self) -> tuple[Depth, ...]:
        return tuple(sorted(self._records("depths", Depth), key=lambda depth: (depth.run, depth.seconds)))

    @cached_property
    def impacts(self) -> tuple[Impact, ...]:
        return self._records("impacts", Impact)

    @cached_property
    def comparisons(self) -> tuple[Comparison, ...]:
        return self._records("comparisons", Comparison)

    @cached_property
    def peaks(self) -> tuple[Peak, ...]:
        return self._records("peaks", Peak)

    @cached_property
    def operations(self) -> tuple[Operation, ...]:
        return self._records("operations", Operation)

    @cached_property
    def valid_runs(self) -> frozenset[int]:
        return frozenset(audit.run for audit in self.audits if audit.status == CLEAN)

    @cached_property
    def points(self) -> tuple[Point, ...]:
        return tuple(self.study.points(self.scale))

    @cached_property
    def declared(self) -> tuple[Point, ...]:
        """The points of the study in its own length: those that printed values belong to."""
        return tuple(self.study.points("full"))

    @cached_property
    def lookup(self) -> Lookup:
        return Lookup(self.points)

    @cached_property
    def declared_lookup(self) -> Lookup:
        return Lookup(self.declared)

    @cached_property
    def systems(self) -> tuple[System, ...]:
        return tuple(_system(entry) for entry in self.meta.get("systems", []))

    @property
    def scale(self) -> str:
        return str(self.meta["scale"])

    @cached_property
    def _measures_by_place(self) -> dict[tuple[Place, str], Measure]:
        return {((m.system, m.scenario, m.point), m.metric): m for m in self.measures}

    @cached_property
    def _audits_by_place(self) -> dict[Place, list[Audit]]:
        found: dict[Place, list[Audit]] = {}
        for audit in self.audits:
            found.setdefault((audit.system, audit.scenario, audit.point), []).append(audit)
        return found

    @cached_property
    def _lacking(self) -> dict[Place, str]:
        """What could not be run at all, with what the system lacks for it."""
        given = self.meta.get("absences") or ()
        return {(one["system"], one["scenario"], one["point"]): one["reason"] for one in given}

    @cached_property
    def _impacts_by_place(self) -> dict[tuple[Place, str], Impact]:
        return {((i.system, i.scenario, i.point), i.metric): i for i in self.impacts}

    @cached_property
    def _peaks_by_place(self) -> dict[tuple[Place, str, frozenset[str]], Peak]:
        return {((p.system, p.scenario, p.point), p.metric, frozenset(p.over.split(", "))): p for p in self.peaks}

    @cached_property
    def _comparisons_by_place(self) -> dict[tuple[str, ...], Comparison]:
        return {
            (c.first, c.second, c.scenario, c.parameters if c.over else c.point, c.metric, c.over): c
            for c in self.comparisons
        }

    @cached_property
    def _busy(self) -> frozenset[Place]:
        return frozenset((m.system, m.scenario, m.point) for m in self.measures if m.client_cpu)

    def points_of(self, scenario: str) -> list[Point]:
        return [point for point in self.points if point.scenario == scenario]

    def measure(self, system: str, point: Point, metric: str) -> Measure | None:
        return self._measures_by_place.get((_place(system, point), metric))

    def impact(self, system: str, point: Point, metric: str) -> Impact | None:
        return self._impacts_by_place.get((_place(system, point), metric))

    def peak(self, system: str, points: Sequence[Point], metric: str, over: Sequence[str]) -> Peak | None:
        """The greatest over these parameters, where it was reached in one of the points."""
        for point in points:
            found = self._peaks_by_place.get((_place(system, point), metric, frozenset(over)))
            if found is not None:
                return found
        return None

    def comparison(self, first: str, second: str, point: Point, metric: str) -> Comparison | None:
        return self._comparisons_by_place.get((first, second, point.scenario, point.name, metric, ""))

    def peak_comparison(
        self, first: str, second: str, points: Sequence[Point], metric: str, over: Sequence[str]
    ) -> Comparison | None:
        peak = self.peak(first, points, metric, over)
        if peak is None:
            return None
        return self._comparisons_by_place.get((first, second, peak.scenario, peak.parameters, metric, peak.over))

    def busy(self, system: str, point: Point) -> bool:
        """Whether an agent was busier in this point than the study allows: its figures are flagged."""
        return _place(system, point) in self._busy

    def audits_of(self, system: str, point: Point) -> list[Audit]:
        return self._audits_by_place.get(_place(system, point), [])

    def absence(self, system: str, point: Point, brief: bool = False) -> str:
        """Why there is no measure of a point: in the words of its runs where it has any, if not `brief`."""
        audits = self.audits_of(system, point)
        if not audits:
            return self._lacking.get(_place(system, point), "not run")
        if any(audit.status == CLEAN for audit in audits):
            return "not measured"
        reasons = dict.fromkeys(f"{a.status}: {a.reason}" if a.reason else a.status for a in audits)
        return "no valid run" if brief else "; ".join(("no valid run", *reasons))

    def figure_name(self, kind: str, point: Point) -> str:
        """The stem of a file; the point's place in the study keeps two points apart whose names look alike."""
        return slug(f"{kind} {self._numbers[point.scenario, point.name]:02d} {point.label}")

    def exhibit_name(self, kind: str, exhibit: Exhibit) -> str:
        """The stem of the file of an exhibit's figure; its place keeps two of one title apart."""
        place = next((n for n, other in enumerate(self.study.exhibits, start=1) if other is exhibit), 0)
        return slug(f"{kind} {place:02d} {exhibit.value or ''} {exhibit.title}")

    @cached_property
    def _numbers(self) -> dict[tuple[str, str], int]:
        return {(point.scenario, point.name): n for n, point in enumerate(self.points, start=1)}

    def names(self) -> list[str]:
        """The systems with their stamps, as the charts name them."""
        return [stamped(system.name, system.stamps) for system in self.systems]

    def stamps_of(self, *systems: str) -> tuple[str, ...]:
        found = (stamp for system in self.systems if system.name in systems for stamp in system.stamps)
        return tuple(dict.fromkeys(found))

    def _records(self, table: str, kind: type[Record]) -> tuple[Record, ...]:
        names = [field.name for field in fields(kind)]  # type: ignore[arg-type]  # every kind here is a dataclass
        rows: Iterable[dict[str, Any]] = read(self.folder, table)
        return tuple(kind(**{name: _cleaned(row[name]) for name in names}) for row in rows)


def stamped(name: str, stamps: Iterable[str], between: str = " ") -> str:
    """A system's name where only text fits, as beside a bar."""
    marks = list(stamps)
    return f"{name}{between}[{listed(marks)}]" if marks else name


def _place(system: str, point: Point) -> Place:
    return system, point.scenario, point.name


def _system(entry: dict[str, Any]) -> System:
    given = entry.get("settings") or {}
    settings = {str(key): "none" if value is None else str(value) for key, value in given.items()}
    stamps = tuple(str(stamp) for stamp in entry.get("stamps") or ())
    return System(
        str(entry["name"]), str(entry.get("version") or ""), settings, stamps, dict(entry.get("durability") or {}),
        str(entry.get("witnessed") or ""), entry.get("ahead_seconds"), int(entry.get("rehearsals") or 0),
    )  # fmt: skip


def _cleaned(value: Any) -> Any:
    """Names and reasons may come from a system or its clients: see words.plain."""
    if isinstance(value, str):
        return plain(value)
    if isinstance(value, dict):
        return {_cleaned(key): _cleaned(item) for key, item in value.items()}
    return [_cleaned(item) for item in value] if isinstance(value, list) else value
