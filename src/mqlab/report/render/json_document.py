"""A run as one JSON document, for programs: measures, audits and verdicts."""

from dataclasses import asdict
from typing import Final

from mqlab.events.folder import RunFolder
from mqlab.json_values import JsonObject
from mqlab.report.claims.verdicts import Verdict, judge
from mqlab.report.data.run_results import RunResults

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
)


def as_json(folder: RunFolder) -> JsonObject:
    """Return values that `json.dumps` accepts. A missing figure is null or has no entry; it is never 0."""
    results = RunResults.of(folder)
    return {
        "run": str(folder.path),
        "study": results.study.id,
        "scale": results.scale,
        "status": results.meta.get("status"),
        "systems": [
            {"name": s.name, "version": s.version, "settings": s.settings, "stamps": list(s.stamps)}
            for s in results.systems
        ],
        "measures": [
            {
                **{key: getattr(m, key) for key in MEASURE},
                "travel": results.travel_at(m.system, m.scenario, m.point) or None,
            }
            for m in results.measures
        ],
        "impacts": [asdict(impact) for impact in results.impacts],
        "comparisons": [
            {**asdict(c), "travel": [results.way(name) for name in (c.first, c.second)]} for c in results.comparisons
        ],
        "peaks": [asdict(peak) for peak in results.peaks],
        "audits": [asdict(audit) for audit in results.audits],
        "noise": [asdict(run) for run in results.noise],
        "verdicts": [_verdict(verdict) for verdict in judge(results)],
    }


def _verdict(verdict: Verdict) -> JsonObject:
    """`interval` is null without one; of its ends, one that is not known is null."""
    document = asdict(verdict)
    ends = [document.pop("low"), document.pop("high")]
    return {**document, "class": verdict.kind, "interval": None if verdict.measured is None else ends}
