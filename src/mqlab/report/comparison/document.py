"""A comparison as one JSON document, for programs."""

import math

from mqlab.json_values import JsonObject
from mqlab.report.claims.interval import Interval
from mqlab.report.comparison.comparison import MetricComparison, SystemComparison
from mqlab.report.comparison.sentence import answer
from mqlab.report.render.json_document import gates_json
from mqlab.study import METRICS


def comparison_json(comparison: SystemComparison) -> JsonObject:
    """Values that `json.dumps` accepts. A figure or an end that is not known is null, never 0."""
    results = comparison.results
    return {
        "study": results.study.id,
        "scale": results.scale,
        "base": comparison.base,
        "new": comparison.new,
        "paired": comparison.is_paired,
        "tolerance": comparison.tolerance,
        "answer": answer(comparison),
        "notes": list(comparison.notes),
        "rows": [_row(comparison, row) for row in comparison.rows],
        "gates": gates_json(comparison.gates),
    }


def _row(comparison: SystemComparison, row: MetricComparison) -> JsonObject:
    names = (comparison.base, comparison.new)
    return {
        "scenario": row.point.scenario,
        "point": row.point.name,
        "metric": row.metric,
        "unit": METRICS[row.metric].unit,
        "base": _interval(row.base),
        "new": _interval(row.new),
        "ratio": _interval(row.ratio),
        "decided_by": _interval(row.decided_by),
        "outcome": row.outcome,
        "reason": row.reason or None,
        "travel": [comparison.results.travel(name, row.point) or None for name in names],
    }


def _interval(value: Interval | None) -> JsonObject | None:
    if value is None:
        return None
    low, high = (end if math.isfinite(end) else None for end in (value.low, value.high))
    return {"value": value.value, "low": low, "high": high}
