"""Verdicts on gates: the goals of a study, and the conditions that a command was given (`--fail-if`).

A gate that fails at any point fails: like a claim over many points, it takes wider intervals for that, and passes only
if it passes at all of them. Where the intervals leave it open it is not known, and never passes.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from mqlab.report.claims.interval import Interval, greatest, least, less
from mqlab.report.claims.values import MeasuredValues, MissingValueError
from mqlab.report.data.run_results import RunResults
from mqlab.report.render.formatting import NOT_KNOWN, number, scaled_unit, signed
from mqlab.study import METRICS, Point
from mqlab.study.language.gate import Gate
from mqlab.study.language.reference import Reference

PASSED: Final = "passed"
FAILED: Final = "failed"
OPEN: Final = "the 95 % interval leaves it open"


class PointValue(NamedTuple):
    """The value that a gate is judged by at a point. `reason`: why there is no value, or why its interval is wide."""

    value: Interval | None
    reason: str = ""


@dataclass(frozen=True)
class GateVerdict:
    """`found` is the figure at the point that decides, `place` that point, `reason` why it is not known."""

    gate: Gate
    subject: str
    outcome: str
    found: str = ""
    place: str = ""
    reason: str = ""

    @property
    def kind(self) -> str:
        return "goal" if self.gate.is_goal else "fails if"

    @property
    def words(self) -> str:
        """The figure, where it is, and what is missing."""
        at = f"{self.found} at {self.place}" if self.found else self.place
        return "; ".join(filter(None, (at, self.reason)))


def judge_gates(results: RunResults, gates: Iterable[Gate], systems: Sequence[str] = ()) -> list[GateVerdict]:
    """Judge each gate on each system (default: all of the run). A goal none of whose points was run is left out."""
    verdicts = []
    for gate in gates:
        able = any(gate.matches(point) and not point.why_without(gate.metric) for point in results.judged_points)
        for system in systems or [system.name for system in results.systems]:
            values = _values(results, gate, system)
            if values or not gate.is_goal or not able:
                verdicts.append(judge_gate(gate, system, values))
    return verdicts


def judge_gate(gate: Gate, subject: str, values: Mapping[str, PointValue]) -> GateVerdict:
    """`values`: by the label of the point."""
    known = {place: one.value for place, one in values.items() if one.value is not None}
    is_failing = _is_failing(gate, known.values()) if known else None
    if is_failing:
        place, value = _extreme(gate, known)
        return GateVerdict(gate, subject, FAILED, _figure(gate, value), place)
    for place in (place for place in values if place not in known):
        return GateVerdict(gate, subject, NOT_KNOWN, "", place, values[place].reason)
    if not known:
        return GateVerdict(gate, subject, NOT_KNOWN, reason=f"no point has {gate.metric}")
    if is_failing is None:
        open_ones = {place: value for place, value in known.items() if _is_failing(gate, [value]) is not False}
        place, value = _extreme(gate, open_ones)
        return GateVerdict(gate, subject, NOT_KNOWN, _figure(gate, value), place, values[place].reason or OPEN)
    place, value = _extreme(gate, known)
    return GateVerdict(gate, subject, PASSED, _figure(gate, value), place)


def value_at(results: RunResults, system: str, point: Point, metric: str, *, within: bool) -> PointValue:
    """`within`: as in `ClaimValues.value`."""
    values = MeasuredValues(results)
    try:
        value = values.value_of(system, Reference(metric, point.scenario, point.name), within)
    except MissingValueError as missing:
        return PointValue(None, str(missing))
    measure = results.measure(system, point, metric)
    is_shown = measure is not None and not measure.is_thin
    return PointValue(value if is_shown else None, values.uncertainty(system, point, metric))


def _values(results: RunResults, gate: Gate, system: str) -> dict[str, PointValue]:
    """At all points that were run and can have the metric: one that lacks it is not known."""
    points = [point for point in results.judged_points if gate.matches(point) and was_run(results, system, point)]
    asked = [point for point in points if can_have(results, point, gate.metric)]
    return {point.label: value_at(results, system, point, gate.metric, within=True) for point in asked}


def can_have(results: RunResults, point: Point, metric: str) -> bool:
    """Whether a run of the point may have the metric, or one has."""
    measured = any(results.measure(system.name, point, metric) for system in results.systems)
    return measured or not point.why_without(metric)


def was_run(results: RunResults, system: str, point: Point) -> bool:
    """Whether it was part of the run, also if the system lacks a feature that it needs."""
    return results.has_valid_run(system, point) or results.absence(system, point) != "not run"


def _is_failing(gate: Gate, values: Iterable[Interval]) -> bool | None:
    """Whether the gate fails at any of the points; None: it depends on where in the intervals the truth lies."""
    limit = Interval.exactly(gate.limit)
    extreme = greatest(values) if gate.relation in (">", ">=") else least(values)
    match gate.relation:
        case ">":
            return less(limit, extreme)
        case "<":
            return less(extreme, limit)
        case ">=":
            below = less(extreme, limit)
            return None if below is None else not below
        case "<=":
            above = less(limit, extreme)
            return None if above is None else not above


def _extreme(gate: Gate, values: Mapping[str, Interval]) -> tuple[str, Interval]:
    """The point that is nearest to failing, or fails most."""
    choose = max if gate.relation in (">", ">=") else min
    return choose(values.items(), key=lambda entry: entry[1].value)


def _figure(gate: Gate, value: Interval) -> str:
    return change_text(value) if gate.is_relative else figure_text(value, METRICS[gate.metric].unit)


def figure_text(value: Interval, unit: str) -> str:
    """A value with its interval, in a unit of its size: `1.21 ms (1.19 to 1.23)`."""
    factor, name = scaled_unit(value.value, unit)
    return f"{number(value.value / factor)} {name}{interval_text(value, factor)}"


def change_text(ratio: Interval) -> str:
    """A ratio as a change: `+10.2 % (+8 to +12.5)`."""
    value, low, high = (signed(100 * (end - 1)) for end in (ratio.value, ratio.low, ratio.high))
    return f"{value} %{interval_text(ratio)}" if ratio.exact or ratio.is_open else f"{value} % ({low} to {high})"


def interval_text(value: Interval, factor: float = 1.0) -> str:
    """Its interval in brackets; "" for an exact value."""
    if value.is_open:
        return " (no interval)"
    return "" if value.exact else f" ({number(value.low / factor)} to {number(value.high / factor)})"
