"""A run as one JSON document, for programs: the measures, the audits and the verdicts as they are."""

from dataclasses import asdict
from typing import Any, Final

from mqlab.events.folder import RunFolder
from mqlab.report.claims.verdicts import judge
from mqlab.report.data.findings import Findings

MEASURE: Final = ("study", "scenario", "point", "system", "metric", "value", "unit", "ci95", "runs", "bound_by")


def as_json(folder: RunFolder) -> dict[str, Any]:
    """Only what `json.dumps` takes. A figure that does not exist is null or has no entry; it is never 0."""
    findings = Findings.of(folder)
    return {
        "run": str(folder.path),
        "study": findings.study.id,
        "scale": findings.scale,
        "status": findings.meta.get("status"),
        "systems": [
            {"name": s.name, "version": s.version, "settings": s.settings, "stamps": list(s.stamps)}
            for s in findings.systems
        ],
        "measures": [{key: getattr(measure, key) for key in MEASURE} for measure in findings.measures],
        "impacts": [asdict(impact) for impact in findings.impacts],
        "comparisons": [asdict(comparison) for comparison in findings.comparisons],
        "peaks": [asdict(peak) for peak in findings.peaks],
        "audits": [asdict(audit) for audit in findings.audits],
        "verdicts": [asdict(verdict) for verdict in judge(findings)],
    }
