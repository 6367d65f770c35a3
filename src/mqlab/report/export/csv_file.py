"""Measures and comparisons as CSV: one figure a row, in the units of docs/studies.md. An empty cell is not known."""

import csv
import io
import math
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from mqlab.report.claims.interval import Interval
from mqlab.report.comparison.comparison import SystemComparison
from mqlab.report.data.run_results import RunResults
from mqlab.study import METRICS

_MEASURES: Final = (
    "run", "study", "scenario", "point", "system", "version", "metric", "unit", "value", "ci95", "runs", "travel",
    "bound_by",
)  # fmt: skip
_COMPARED: Final = (
    "study", "scenario", "point", "metric", "unit", "base", "new", "ratio", "low", "high", "outcome", "reason",
    "base_system", "new_system", "base_travel", "new_travel", "paired",
)  # fmt: skip
_Cell = str | float | int | bool | None


def measures_csv(runs: Iterable[RunResults]) -> str:
    return _text(_MEASURES, (row for results in runs for row in _measures(results)))


def comparison_csv(comparison: SystemComparison) -> str:
    return _text(_COMPARED, _compared(comparison))


def _measures(results: RunResults) -> Iterator[Sequence[_Cell]]:
    versions = {system.name: system.version for system in results.systems}
    for one in results.measures:
        travel = results.travel_at(one.system, one.scenario, one.point)
        # A percentile of too few observations is not shown anywhere.
        value, half = (None, None) if one.is_thin else (one.value, one.ci95)
        yield (
            results.folder.path.name, one.study, one.scenario, one.point, one.system, versions.get(one.system),
            one.metric, one.unit, value, half, one.runs, travel, one.bound_by,
        )  # fmt: skip


def _compared(comparison: SystemComparison) -> Iterator[Sequence[_Cell]]:
    results, systems = comparison.results, (comparison.base, comparison.new)
    for row in comparison.rows:
        ratio = row.ratio
        low, high = (_finite(ratio.low), _finite(ratio.high)) if ratio else (None, None)
        yield (
            results.study.id, row.point.scenario, row.point.name, row.metric, METRICS[row.metric].unit,
            _value(row.base), _value(row.new), _value(ratio), low, high, row.outcome, row.reason, *systems,
            *(results.travel(system, row.point) for system in systems), comparison.is_paired,
        )  # fmt: skip


def _value(value: Interval | None) -> float | None:
    return None if value is None else value.value


def _finite(end: float) -> float | None:
    return end if math.isfinite(end) else None


def _text(head: Sequence[str], rows: Iterable[Sequence[_Cell]]) -> str:
    output = io.StringIO()
    writer = csv.writer(output, lineterminator="\n")
    writer.writerow(head)
    writer.writerows(rows)
    return output.getvalue()
