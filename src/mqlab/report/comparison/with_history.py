"""A finished run against the earlier ones of the history, at every point that both have.

Each earlier run folder is one observation, since two runs of the same system differ by more than the runs inside one.
The new run is one more of them: the error of the ratio is the spread of the earlier ones, for their mean and for the
new value (docs/decisions/0025-compare.md).
"""

import math
from collections.abc import Sequence
from statistics import fmean, stdev
from typing import Final

from mqlab.pipeline.history.earlier import EarlierMeasure
from mqlab.report.claims.gates import judge_gate, judge_gates, value_at, was_run
from mqlab.report.claims.interval import Errors, Interval, Uncertainty
from mqlab.report.claims.values import clock_slack
from mqlab.report.comparison.comparison import (
    MAIN_METRICS,
    TOLERANCE,
    MetricComparison,
    SystemComparison,
    is_gated,
    judge_rows,
    left_out,
    ratios_of,
)
from mqlab.report.data.run_results import RunResults
from mqlab.study import Point
from mqlab.study.language.gate import Gate

# With fewer, their spread says nothing.
FEWEST: Final = 3


def compare_with_history(
    results: RunResults,
    system: str,
    earlier: Sequence[EarlierMeasure],
    *,
    tolerance: float = TOLERANCE,
    gates: Sequence[Gate] = (),
) -> SystemComparison:
    """Compare the main metrics, and those of the gates."""
    base = f"{system} before"
    relative = [gate for gate in gates if gate.is_relative]
    metrics = dict.fromkeys((*MAIN_METRICS, *(gate.metric for gate in relative)))
    known = {(measure.scenario, measure.point, measure.metric): measure.values for measure in earlier}
    rows = [
        row
        for point in results.judged_points
        if was_run(results, system, point)
        for metric in metrics
        if (row := _row(results, system, point, metric, known.get((point.scenario, point.name, metric), ()), relative))
    ]
    judged = judge_rows(rows, tolerance)
    verdicts = [judge_gate(gate, f"{system} against its history", ratios_of(gate, judged)) for gate in relative]
    verdicts += judge_gates(results, [gate for gate in gates if not gate.is_relative], [system])
    notes = (*_notes(earlier), *left_out(results, (system,)))
    return SystemComparison(results, base, system, False, tolerance, tuple(judged), tuple(verdicts), notes)


def _row(
    results: RunResults, system: str, point: Point, metric: str, earlier: Sequence[float], gates: Sequence[Gate]
) -> MetricComparison | None:
    """None if neither the run nor its history has the metric, unless a gate needs it."""
    measure = results.measure(system, point, metric)
    if measure is None and not earlier and not is_gated(results, point, metric, gates):
        return None
    new, reason = value_at(results, system, point, metric, within=False)
    base = _mean(earlier) if earlier else None
    row = MetricComparison(point, metric, base, new, reason=reason)
    if measure is None or new is None or measure.quiet is False or measure.lower_bound:
        return row
    if len(earlier) < FEWEST or base is None:
        return MetricComparison(
            point, metric, base, new,
            reason=f"the history has {len(earlier)} earlier runs of it that count; {FEWEST} are needed",
        )  # fmt: skip
    if base.value <= 0 or new.value <= 0:
        return MetricComparison(point, metric, base, new, reason="one of them is zero")
    ratio = new.value / base.value
    error = ratio * stdev(earlier) / base.value * math.sqrt(1 + 1 / len(earlier))
    errors: Errors = {"history": Uncertainty(error, len(earlier) - 1)}
    slack = clock_slack(results, metric, new.value)
    known = Interval.estimated(ratio, errors, is_ratio=True, slack=slack)
    return MetricComparison(point, metric, base, new, known, reason=reason)


def _mean(values: Sequence[float]) -> Interval:
    mean, count = fmean(values), len(values)
    if count == 1:
        return Interval(mean, -math.inf, math.inf)
    return Interval.estimated(mean, {"history": Uncertainty(stdev(values) / math.sqrt(count), count - 1)})


def _notes(earlier: Sequence[EarlierMeasure]) -> list[str]:
    times = sorted({started for measure in earlier for started in measure.started})
    return [
        f"The base is the history: {len(times)} earlier runs, from {times[0]:%Y-%m-%d %H:%M} to"
        f" {times[-1]:%Y-%m-%d %H:%M} UTC. Each of them is one observation, and so is the new run.",
        "The history does not keep the workload of a point: it must be the one that the study had then.",
    ]
