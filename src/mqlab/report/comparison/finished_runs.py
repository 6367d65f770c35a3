"""The results of two finished runs as those of one, in which the two systems took no turns."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final

from mqlab.errors import MqlabError
from mqlab.json_values import JsonObject
from mqlab.report.data.run_results import RunResults
from mqlab.report.exhibits.headline import lengths
from mqlab.study import Point

# The keys of meta.json that make a machine another one. Versions of Python and Java may be what is compared.
_MACHINE: Final = ("cpu", "cores", "memory", "os", "kernel", "clock", "filesystem")
# The memory that the kernel leaves differs a little after each start.
_GIB: Final = 2**30


class IncomparableRunsError(MqlabError, ValueError):
    """Two runs have nothing that can be compared; the message says why."""


def differing_machine(base: RunResults, new: RunResults) -> str:
    """The differences between the machines of two runs, in words; "" if there are none."""
    machines = [_machine(results) for results in (base, new)]
    if not all(machines):
        return "meta.json does not say on which machine it was run"
    one, other = machines
    differing = [f"{key} {one[key]} and {other[key]}" for key in _MACHINE if one[key] != other[key]]
    if differing or one["id"] is None or other["id"] is None or one["id"] == other["id"]:
        return "; ".join(differing)
    return f"two machines of one kind, {one['id']} and {other['id']}"


def _machine(results: RunResults) -> JsonObject:
    """With the id of the machine; older versions of the lab wrote none."""
    machine = results.meta.get("machine") or {}
    known = {key: machine.get(key) for key in _MACHINE}
    memory = known["memory"]
    if not any(known.values()):
        return {}
    return {**known, "memory": memory and f"{memory / _GIB:.0f} GiB", "id": machine.get("id")}


def choose_systems(base: RunResults, new: RunResults, named: Sequence[str] = ()) -> tuple[str, str]:
    """The named systems, the only ones, or the only one that both runs have. Raises IncomparableRunsError."""
    ours, theirs = ([system.name for system in results.systems] for results in (base, new))
    if named:
        first, second = named[0], named[-1]
    elif len(ours) == len(theirs) == 1:
        first, second = ours[0], theirs[0]
    else:
        common = [name for name in ours if name in theirs]
        first = second = common[0] if len(common) == 1 else ""
    if first not in ours or second not in theirs:
        raise IncomparableRunsError(
            f"the base has the systems {', '.join(ours)}, the new run {', '.join(theirs)}; "
            "name one of each: --system BASE --system NEW"
        )
    return first, second


def joined(base: RunResults, new: RunResults, systems: tuple[str, str]) -> tuple[RunResults, tuple[str, str]]:
    """The results with one system of each run, and their names there: with the run, where both have the same.

    Raises IncomparableRunsError.
    """
    if base.study.id != new.study.id:
        raise IncomparableRunsError(f"they are runs of two studies, {base.study.id} and {new.study.id}")
    points = tuple(point for point in base.points if _has_same_workload(point, new))
    if not points:
        raise IncomparableRunsError(f"the two runs of {base.study.id} have no point in common")
    runs = _identities(base, new)
    names = tuple(f"{name} of {run}" for name, run in zip(systems, runs, strict=True))
    first, second = names if systems[0] == systems[1] else systems
    sides = ((base, systems[0], first), (new, systems[1], second))
    meta = {
        **base.meta,
        "systems": [entry for side in sides for entry in _renamed_entries(*side, "systems", "name")],
        "absences": [entry for side in sides for entry in _renamed_entries(*side, "absences", "system")],
        "looks": max(int(results.meta.get("looks") or 1) for results in (base, new)),
        "clock_error": max(float(results.meta.get("clock_error") or 0.0) for results in (base, new)),
    }
    tables = {
        table: tuple(row for side in sides for row in _renamed(*side, table))
        for table in ("measures", "run_measures", "audits", "noise")
    }
    results = replace(base, meta=meta).with_tables(
        points=points, run_of={first: runs[0], second: runs[1]}, impacts=(), comparisons=(), peaks=(), **tables
    )
    return results, (first, second)


def _identities(base: RunResults, new: RunResults) -> list[str]:
    """Of a run and its copy, the paths."""
    runs = [str(results.meta.get("id") or results.folder.path.name) for results in (base, new)]
    return runs if runs[0] != runs[1] else [str(results.folder.path) for results in (base, new)]


def run_differences(base: RunResults, new: RunResults) -> list[str]:
    """The notes that a reader of two runs needs before the first figure."""
    notes = ["The runs took no turns: what the machine did at one time and not at the other is part of a difference."]
    measured = [lengths(results.points) for results in (base, new)]
    if measured[0] != measured[1]:
        notes.append(f"A run was measured for {measured[0]} in the base, and for {measured[1]} in the new one.")
    others = [point.label for point in base.points if not _has_same_workload(point, new)]
    if others:
        notes.append(f"Not compared, since the other run has no such point: {', '.join(others)}.")
    versions = [results.meta.get("mqlab") for results in (base, new)]
    if versions[0] != versions[1]:
        notes.append(f"The lab itself was of two versions: {versions[0]} and {versions[1]}.")
    return notes


def _has_same_workload(point: Point, other: RunResults) -> bool:
    return any(
        (one.name, one.workload, one.pace) == (point.name, point.workload, point.pace)
        for one in other.points_of(point.scenario)
    )


def _renamed_entries(results: RunResults, system: str, name: str, key: str, field: str) -> list[JsonObject]:
    return [{**entry, field: name} for entry in results.meta.get(key) or () if entry[field] == system]


# Any: the rows of different tables, which all have a system.
def _renamed(results: RunResults, system: str, name: str, table: str) -> list[Any]:
    return [replace(row, system=name) for row in getattr(results, table) if row.system == system]
