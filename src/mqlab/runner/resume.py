"""Resuming: which runs of an interrupted run folder are kept, and whether the folder belongs to the same plan."""

import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pyarrow.parquet as pq

from mqlab import __version__
from mqlab.errors import MqlabError
from mqlab.events import schema
from mqlab.events.checksums import EventFile, examine
from mqlab.events.folder import RunFolder
from mqlab.events.slices import Switch, slice_edges, total_ns
from mqlab.json_values import JsonObject
from mqlab.runner.machine import describe_machine, package_versions
from mqlab.runner.results.cpu import cpu_use
from mqlab.runner.results.outcome import RunOutcome, why_unsteady
from mqlab.runner.run import INTERRUPTED
from mqlab.study import Point, Study
from mqlab.systems import System

# How the name of the folder with the data of the systems begins.
DATA_PREFIX: Final = ".systems-"
# The memory of a machine differs a little from start to start.
_MEMORY_SHARE: Final = 0.02


class NotResumableError(MqlabError, ValueError):
    """The run folder cannot go on: it is complete, or its study, systems, machine or software are others now."""


@dataclass(frozen=True)
class KeptRun:
    """A run that is not played again. `point` has the phases and the rate that were played.

    `events_of`: the run whose events it has. `seconds`: its share of the time of that run.
    """

    number: int
    events_of: int
    point: Point
    system: str
    repetition: int
    outcome: RunOutcome
    seconds: float


def check_resumable(folder: RunFolder, study: Study, systems: Sequence[System]) -> None:
    """Raises NotResumableError. `study` and `systems`: those that the command would run now."""
    meta = folder.meta()
    if meta.get("status") == schema.COMPLETE or folder.is_compacted:
        raise NotResumableError(f"{folder.path} is complete: there is nothing to resume")
    for file, copy in study.copies(folder.study):
        if not copy.is_file() or copy.read_bytes() != file.read_bytes():
            raise NotResumableError(f"{file} has changed since {folder.path} began: run it anew")
    then = {entry["name"]: _identity(entry) for entry in meta["systems"]}
    for label, identity in {system.label: _identity(system.describe()) for system in systems}.items():
        if then.get(label) != identity:
            raise NotResumableError(f"{folder.path} has run {_named(then.get(label))}, not {_named(identity)}")
    if {*then} != {system.label for system in systems}:
        raise NotResumableError(f"{folder.path} has run {', '.join(then)}: name the same systems")
    _check_machine(folder, meta)


def _identity(entry: JsonObject) -> tuple[str, str, tuple[tuple[str, str], ...]]:
    settings = sorted((key, str(value)) for key, value in (entry.get("settings") or {}).items())
    return str(entry["name"]), str(entry.get("version")), tuple(settings)


def _named(identity: tuple[str, str, object] | None) -> str:
    return "no such system" if identity is None else f"{identity[0]} {identity[1]} with its settings"


def _check_machine(folder: RunFolder, meta: JsonObject) -> None:
    data = Path((meta.get("options") or {}).get("data") or folder.path)
    now: JsonObject = {**describe_machine(data), "mqlab": __version__, **package_versions()}
    then = {**meta["machine"], "mqlab": meta["mqlab"], **meta["packages"]}
    for name, value in now.items():
        before = then.get(name)
        if name == "memory" and before and abs(value - before) <= _MEMORY_SHARE * before:
            continue
        if value != before:
            raise NotResumableError(
                f"{folder.path} began with another {name}: {before}, now {value}. Figures of both would not compare: "
                "run it anew"
            )


def keep_runs(folder: RunFolder, points: Sequence[Point]) -> list[KeptRun]:
    """The runs to keep, in the order in which they were played; the events of all others are removed.

    A run is kept if it came to an end of its own, every file of it matches its checksum, its point is one of `points`
    or of a search, and the runs of the same point before it are kept.
    """
    for unfinished in folder.events.glob("*/.*"):
        unfinished.unlink()
    for data in folder.path.glob(f"{DATA_PREFIX}*"):  # of systems of a lab that was killed
        shutil.rmtree(data)
    searched = (Point.model_validate(point) for point in folder.meta().get("searched") or ())
    known = {(point.scenario, point.name) for point in (*points, *searched)}
    files: dict[int | None, list[EventFile]] = {}
    for table in schema.TABLES:
        for path in folder.event_files(table):
            files.setdefault((file := examine(path)).run, []).append(file)
    kept: list[KeptRun] = []
    for number in sorted(number for number in files if number is not None):
        runs = _read(number, files[number])
        if runs and all((run.point.scenario, run.point.name) in known and _follows(run, kept) for run in runs):
            kept += runs
        else:
            folder.remove_events(number)
    return kept


def _follows(run: KeptRun, kept: Sequence[KeptRun]) -> bool:
    """Whether it is the next repetition of its point, or a disturbed one once more."""
    series = (run.system, run.point.scenario, run.point.name)
    before = [one.repetition for one in kept if (one.system, one.point.scenario, one.point.name) == series]
    return run.repetition - max(before, default=0) in ((0, 1) if before else (1,))


def _read(number: int, files: Sequence[EventFile]) -> list[KeptRun]:
    """The run, or the runs that share its events; none if it was interrupted or a file of it is damaged."""
    if any(file.damage for file in files):
        return []
    rows = {table: [*_rows(table, files)] for table in ("runs", "phases", "machine", "switches", "samples")}
    if any(run["reason"] == INTERRUPTED for run in rows["runs"]):
        return []
    phases = {row["phase"]: row for row in rows["phases"]}
    seconds = sum(row["t_end"] - row["t_start"] for row in rows["phases"]) / 1e9 / max(1, len(rows["runs"]))
    edges = _edges(rows["switches"], phases)
    kept = []
    for run in rows["runs"]:
        point = Point.from_json(run["parameters"])
        outcome = _outcome(point, run, phases, rows, edges.get(run["run"]))
        kept.append(KeptRun(run["run"], number, point, run["system"], run["repetition"], outcome, seconds))
    return kept


def _edges(switches: Sequence[JsonObject], phases: Mapping[str, JsonObject]) -> dict[int, list[int]]:
    """The edges of the slices of each run, if the run has slices."""
    if not switches or schema.MEASURE not in phases:
        return {}
    measure = phases[schema.MEASURE]
    rows = [Switch(row["setting_run"], row["t_asked"], row["t_counted"]) for row in switches]
    return slice_edges(rows, measure["t_start"], measure["t_end"])


def _outcome(
    point: Point, run: JsonObject, phases: Mapping[str, JsonObject], rows: Mapping[str, Sequence[JsonObject]],
    edges: Sequence[int] | None,
) -> RunOutcome:  # fmt: skip
    """The outcome as it was. The number of copies is that of the point, which the record does not have."""
    if run["status"] != schema.COMPLETE or schema.MEASURE not in phases:
        return RunOutcome(schema.INCOMPLETE, run["reason"])
    measure = phases[schema.MEASURE]
    edges = (measure["t_start"], measure["t_end"]) if edges is None else edges
    machine = rows["machine"]
    counted = {name: run[name] for name in ("counted_sent", "counted_received", "counted_round_trips")}
    outcome = RunOutcome(
        run["status"], run["reason"], **counted, seconds=total_ns(edges) / 1e9,
        copies=float(point.copies), cpu=cpu_use(rows["samples"], edges),
        disturbed=machine[0]["disturbed"] if machine else "",
    )  # fmt: skip
    return RunOutcome(**{**vars(outcome), "unsteady": why_unsteady(point, outcome, 0.0)})


def _rows(table: str, files: Sequence[EventFile]) -> Iterator[JsonObject]:
    for path in (file.path for file in files if file.path.parent.name == table):
        yield from pq.read_table(path).to_pylist()
