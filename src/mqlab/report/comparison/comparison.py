"""Better, worse, same or not known: each metric of a new system against that of a base, at every point of both.

The ratio and its 95 % interval are those of a claim (docs/decisions/0024-paired-rounds.md): of rounds in which the two
took turns, or of independent runs. It is the same where the interval lies within the tolerance; better or worse where
an interval that is wide enough for all comparisons together lies on one side of 1 (docs/decisions/0025-compare.md).
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Final

from mqlab.pipeline.schema import CLEAN, AuditRow
from mqlab.report.claims.gates import (
    OPEN,
    GateVerdict,
    PointValue,
    can_have,
    judge_gate,
    judge_gates,
    value_at,
    was_run,
)
from mqlab.report.claims.interval import TAIL, Interval
from mqlab.report.data.run_results import RunResults, stamped
from mqlab.report.render.formatting import NOT_KNOWN, listed
from mqlab.study import METRICS, Point
from mqlab.study.language.gate import Gate
from mqlab.study.point import point_label

BETTER: Final = "better"
WORSE: Final = "worse"
SAME: Final = "same"
OUTCOMES: Final = (WORSE, BETTER, SAME, NOT_KNOWN)
MAIN_METRICS: Final = ("rate.work", "response.p99", "latency.p99", "confirm.p99", "cpu.message")
TOLERANCE: Final = 0.05


@dataclass(frozen=True)
class MetricComparison:
    """`ratio`: new over base. `decided_by`: the same with the interval for all comparisons together.

    `travel`: how the messages of base and new travelled, if that differs. `reason`: why it is not known.
    """

    point: Point
    metric: str
    base: Interval | None
    new: Interval | None
    ratio: Interval | None = None
    decided_by: Interval | None = None
    outcome: str = NOT_KNOWN
    reason: str = ""
    travel: tuple[str, str] | None = None


@dataclass(frozen=True)
class SystemComparison:
    """`is_paired`: the systems took turns. `notes`: what a reader must know before the first figure."""

    results: RunResults
    base: str
    new: str
    is_paired: bool
    tolerance: float
    rows: tuple[MetricComparison, ...]
    gates: tuple[GateVerdict, ...] = ()
    notes: tuple[str, ...] = ()

    def name(self, system: str) -> str:
        """With its stamps: among them how its messages travelled, if any were packed."""
        return stamped(system, self.results.stamps_of(system))

    @property
    def has_conditions(self) -> bool:
        """Whether the user said when it fails; otherwise it does if a figure is worse."""
        return any(not verdict.gate.is_goal for verdict in self.gates)

    @property
    def audits(self) -> list[AuditRow]:
        """Of the two systems at the points that are compared."""
        return audits_of(self.results, (self.base, self.new))

    def count(self, outcome: str) -> int:
        return sum(row.outcome == outcome for row in self.rows)

    @property
    def points(self) -> list[Point]:
        return list({row.point.label: row.point for row in self.rows}.values())


def compare(
    results: RunResults,
    base: str,
    new: str,
    *,
    tolerance: float = TOLERANCE,
    gates: Sequence[Gate] = (),
    notes: Sequence[str] = (),
) -> SystemComparison:
    """Compare the main metrics, and those of the gates."""
    relative = [gate for gate in gates if gate.is_relative]
    metrics = dict.fromkeys((*MAIN_METRICS, *(gate.metric for gate in relative)))
    points = [p for p in results.judged_points if was_run(results, base, p) or was_run(results, new, p)]
    rows = [row for point in points for metric in metrics if (row := _row(results, base, new, point, metric, relative))]
    judged = judge_rows(rows, tolerance)
    verdicts = [judge_gate(gate, f"{new} against {base}", ratios_of(gate, judged)) for gate in relative]
    verdicts += judge_gates(results, [gate for gate in gates if not gate.is_relative], [new])
    is_paired = not results.run_of
    said = (*notes, *left_out(results, (base, new)))
    return SystemComparison(results, base, new, is_paired, tolerance, tuple(judged), tuple(verdicts), said)


def audits_of(results: RunResults, systems: Iterable[str]) -> list[AuditRow]:
    """Those of the points of the study."""
    return [
        audit for system in systems for point in results.judged_points for audit in results.audits_of(system, point)
    ]


def left_out(results: RunResults, systems: Iterable[str]) -> list[str]:
    """A sentence for each point and system some of whose rounds do not count, with the reason of the first."""
    rejected: dict[tuple[str, str], list[AuditRow]] = {}
    for audit in audits_of(results, systems):
        if audit.status != CLEAN:
            rejected.setdefault((point_label(audit.scenario, audit.point), audit.system), []).append(audit)
    return [
        f"Left out of {system} at {point}: {'round' if len(audits) == 1 else 'rounds'} "
        f"{listed([f'{audit.repetition}' for audit in audits])}, {audits[0].status}: "
        f"{audits[0].reason or 'no reason given'}."
        for (point, system), audits in rejected.items()
    ]


def _row(
    results: RunResults, base: str, new: str, point: Point, metric: str, gates: Sequence[Gate]
) -> MetricComparison | None:
    """None if neither has the metric there, unless nothing at all is known of the point, or a gate needs it."""
    sides = [value_at(results, name, point, metric, within=False) for name in (base, new)]
    has_metric = any(results.measure(name, point, metric) for name in (base, new))
    is_empty = not any(results.has_valid_run(name, point) for name in (base, new))
    if not has_metric and not (is_empty and metric == "rate.work") and not is_gated(results, point, metric, gates):
        return None
    (first, why_first), (second, why_second) = sides
    ways = results.travel(base, point), results.travel(new, point)
    row = MetricComparison(
        point, metric, first, second, reason=why_first or why_second, travel=ways if ways[0] != ways[1] else None
    )
    if first is None or second is None:
        return row
    if first.value <= 0 or second.value <= 0:
        return replace(row, reason="one of them is zero")
    return replace(row, ratio=second / first)


def is_gated(results: RunResults, point: Point, metric: str, gates: Sequence[Gate]) -> bool:
    """Whether one of the gates is about this metric at this point, which can have it."""
    about = any(gate.metric == metric and gate.matches(point) for gate in gates)
    return about and can_have(results, point, metric)


def judge_rows(rows: Sequence[MetricComparison], tolerance: float) -> list[MetricComparison]:
    """All of them together call an equal pair better or worse in at most 5 % of all cases."""
    count = sum(row.ratio is not None for row in rows)
    return [_judged(row, row.ratio, count, tolerance) if row.ratio else row for row in rows]


def _judged(row: MetricComparison, ratio: Interval, count: int, tolerance: float) -> MetricComparison:
    wide = ratio.at(TAIL / count)
    reason = ""
    if ratio.low >= 1 / (1 + tolerance) and ratio.high <= 1 + tolerance:
        outcome = SAME
    elif wide.low > 1 or wide.high < 1:
        outcome = BETTER if (wide.low > 1) == (METRICS[row.metric].better == "higher") else WORSE
    else:
        outcome, reason = NOT_KNOWN, row.reason or OPEN
    return replace(row, decided_by=wide, outcome=outcome, reason=reason)


def ratios_of(gate: Gate, rows: Sequence[MetricComparison]) -> dict[str, PointValue]:
    chosen = [row for row in rows if row.metric == gate.metric and gate.matches(row.point)]
    return {row.point.label: PointValue(row.ratio, row.reason) for row in chosen}
