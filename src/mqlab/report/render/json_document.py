"""A run as one JSON document, for programs: measures, audits and verdicts."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Final

from mqlab.events.folder import RunFolder
from mqlab.json_values import JsonObject
from mqlab.pipeline.schema import MeasureRow
from mqlab.report.capacity.trials import searches
from mqlab.report.claims.gates import GateVerdict, judge_gates
from mqlab.report.claims.verdicts import Verdict, judge
from mqlab.report.data.run_results import RunResults
from mqlab.report.data.self_comparison import false_differences
from mqlab.report.exhibits.answer import answer
from mqlab.report.render.formatting import LOOPS
from mqlab.study.metric import is_duration

MEASURE: Final = (
    "study",
    "scenario",
    "point",
    "system",
    "metric",
    "value",
    "unit",
    "ci95",
    "runs",
    "bound_by",
    "quiet",
    "observations",
)


def as_json(folder: RunFolder) -> JsonObject:
    """Return values that `json.dumps` accepts. A missing figure is null or has no entry; it is never 0."""
    results = RunResults.of(folder)
    verdicts = judge(results)
    loops = {(point.scenario, point.name): LOOPS[point.loop] for point in results.points}
    return {
        "run": str(folder.path),
        "study": results.study.id,
        "scale": results.scale,
        "status": results.meta.get("status"),
        "answer": answer(results, verdicts),
        "systems": [
            {"name": s.name, "version": s.version, "settings": s.settings, "stamps": list(s.stamps)}
            for s in results.systems
        ],
        "measures": [
            {**_measure(m, loops), "travel": results.travel_at(m.system, m.scenario, m.point) or None}
            for m in results.measures
        ],
        "impacts": [asdict(impact) for impact in results.impacts],
        "comparisons": [
            {**asdict(c), "travel": [results.way(name) for name in (c.first, c.second)]} for c in results.comparisons
        ],
        "peaks": [asdict(peak) for peak in results.peaks],
        "audits": [asdict(audit) for audit in results.audits],
        "faults": [asdict(effect) for effect in results.faults],
        "noise": [asdict(run) for run in results.noise],
        "false_differences": (found := false_differences(results)) and {**asdict(found), "share": found.share},
        "capacities": [
            {
                "system": found.system,
                "scenario": found.point.scenario,
                "point": found.point.name,
                "goal": str(found.goal),
                "peak": found.peak,
                **asdict(found.capacity),
            }
            for found in searches(results)
        ],
        "verdicts": [_verdict(verdict) for verdict in verdicts],
        "goals": gates_json(judge_gates(results, results.study.goals)),
    }


def gates_json(verdicts: Sequence[GateVerdict]) -> list[JsonObject]:
    return [
        {
            "condition": verdict.gate.text,
            "goal": verdict.gate.is_goal,
            "system": verdict.subject,
            "outcome": verdict.outcome,
            "figure": verdict.found or None,
            "point": verdict.place or None,
            "reason": verdict.reason or None,
        }
        for verdict in verdicts
    ]


def _measure(measure: MeasureRow, loops: Mapping[tuple[str, str], str]) -> JsonObject:
    """A percentile with too few observations beyond it has no value. Durations say which loop they are of."""
    document = {key: getattr(measure, key) for key in MEASURE}
    if measure.is_thin:
        document |= {"value": None, "ci95": None}
    return {**document, "loop": loops.get((measure.scenario, measure.point)) if is_duration(measure.metric) else None}


def _verdict(verdict: Verdict) -> JsonObject:
    """`interval` is null without one; of its ends, one that is not known is null."""
    document = asdict(verdict)
    ends = [document.pop("low"), document.pop("high")]
    return {**document, "class": verdict.kind, "interval": None if verdict.measured is None else ends}
