"""All that a report may show, read once: the declaration, the measures and what was published. Nothing is computed."""

from collections.abc import Iterable
from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any, TypeVar

from mqlab.events.folder import RunFolder
from mqlab.pipeline.measure import read
from mqlab.report.words import listed, plain, slug
from mqlab.study import Point, Study, load_study

CLEAN = "clean"


@dataclass(frozen=True)
class System:
    """A system as it was run. Its `stamps` go wherever its figures go."""

    name: str
    version: str
    settings: dict[str, str]
    stamps: tuple[str, ...]


@dataclass(frozen=True)
class Measure:
    study: str
    scenario: str
    point: str
    system: str
    metric: str
    value: float
    unit: str
    ci95: float | None
    runs: int
    bound_by: str | None
    attempted: int
    void: int

    @property
    def lower_bound(self) -> bool:
        """The agents were the bottleneck: the system can do at least this much."""
        return self.bound_by == "client" and self.metric.startswith(("rate.", "bytes."))


@dataclass(frozen=True)
class RunMeasure:
    run: int
    scenario: str
    point: str
    system: str
    repetition: int
    metric: str
    value: float
    unit: str


@dataclass(frozen=True)
class Audit:
    run: int
    scenario: str
    point: str
    system: str
    repetition: int
    sent: int | None
    expected: int | None
    delivered: int | None
    lost: int | None
    duplicated: int | None
    duplicated_marked: int | None
    recovered: int | None
    out_of_order: int | None
    unexpected: int | None
    status: str
    reason: str | None


@dataclass(frozen=True)
class Second:
    run: int
    scenario: str
    point: str
    system: str
    repetition: int
    second: int
    sent: float | None
    received: float | None
    phase: str


@dataclass(frozen=True)
class Bucket:
    """`latency` is the upper edge, in seconds."""

    scenario: str
    point: str
    system: str
    latency: float
    count: int


Record = TypeVar("Record")


@dataclass(frozen=True)
class Findings:
    folder: RunFolder
    meta: dict[str, Any]
    study: Study

    @classmethod
    def of(cls, folder: RunFolder) -> "Findings":
        return cls(folder, _cleaned(folder.meta()), load_study(folder.study))

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
    def valid_runs(self) -> frozenset[int]:
        return frozenset(audit.run for audit in self.audits if audit.status == CLEAN)

    @cached_property
    def points(self) -> tuple[Point, ...]:
        return tuple(self.study.points(self.scale))

    @cached_property
    def systems(self) -> tuple[System, ...]:
        return tuple(_system(entry) for entry in self.meta.get("systems", []))

    @property
    def scale(self) -> str:
        return str(self.meta["scale"])

    @cached_property
    def _by_place(self) -> dict[tuple[str, str, str, str], Measure]:
        return {(m.system, m.scenario, m.point, m.metric): m for m in self.measures}

    @cached_property
    def published(self) -> dict[tuple[str, str, str], float]:
        """(system, scenario, metric) -> the printed value."""
        return self.study.published_measures()

    def points_of(self, scenario: str) -> list[Point]:
        return [point for point in self.points if point.scenario == scenario]

    def measure(self, system: str, point: Point, metric: str) -> Measure | None:
        return self._by_place.get((system, point.scenario, point.name, metric))

    def absence(self, system: str, point: Point, brief: bool = False) -> str:
        """Why there is no measure of a point: in the words of its runs where it has any, if not `brief`."""
        audits = [a for a in self.audits if (a.system, a.scenario, a.point) == (system, point.scenario, point.name)]
        if not audits:
            return "not run"
        if any(audit.status == CLEAN for audit in audits):
            return "not measured"
        reasons = dict.fromkeys(f"{a.status}: {a.reason}" if a.reason else a.status for a in audits)
        return "no valid run" if brief else "; ".join(("no valid run", *reasons))

    def figure_name(self, kind: str, point: Point) -> str:
        """The stem of a file; the point's place in the study keeps two points apart whose names look alike."""
        return slug(f"{kind} {self.points.index(point) + 1:02d} {point.label}")

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


def _system(entry: dict[str, Any]) -> System:
    given = entry.get("settings") or {}
    settings = {str(key): "none" if value is None else str(value) for key, value in given.items()}
    stamps = tuple(str(stamp) for stamp in entry.get("stamps") or ())
    return System(str(entry["name"]), str(entry.get("version") or ""), settings, stamps)


def _cleaned(value: Any) -> Any:
    """Names and reasons may come from a system or its clients: see words.plain."""
    if isinstance(value, str):
        return plain(value)
    if isinstance(value, dict):
        return {_cleaned(key): _cleaned(item) for key, item in value.items()}
    return [_cleaned(item) for item in value] if isinstance(value, list) else value
