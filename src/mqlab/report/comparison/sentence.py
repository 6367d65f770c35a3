"""The first sentence of a comparison: how many times the base the new system reaches, and what else differs."""

from mqlab.report.claims.gates import interval_text
from mqlab.report.claims.interval import Interval
from mqlab.report.comparison.comparison import OUTCOMES, SAME, MetricComparison, SystemComparison
from mqlab.report.render import formatting
from mqlab.report.render.formatting import NOT_KNOWN
from mqlab.study import METRICS


def answer(comparison: SystemComparison) -> str:
    base, new = (comparison.name(name) for name in (comparison.base, comparison.new))
    if not comparison.rows:
        return f"{new} and {base} have no point in common: nothing was compared."
    if len(comparison.points) == 1:
        return _at_one_point(comparison, base, new)
    counts = ", ".join(f"{count} {word}" for word in OUTCOMES if (count := comparison.count(word)))
    points = formatting.count(len(comparison.points), "point")
    said = f"{new} against {base}: {counts}, of {formatting.count(len(comparison.rows), 'figure')} at {points}"
    decided = [row for row in comparison.rows if row.outcome not in (SAME, NOT_KNOWN) and row.ratio]
    if not decided:
        return f"{said}."
    first = max(decided, key=lambda row: max(row.ratio.value, 1 / row.ratio.value) if row.ratio else 0.0)
    return f"{said}. Most of all differs the {_ratio(first)} at {first.point.label}: {first.outcome}."


def _at_one_point(comparison: SystemComparison, base: str, new: str) -> str:
    """`The rate of nats is 3.1 times that of rabbitmq (2.7 to 3.5) at P: better; latency, 99 % 4 ms against 11 ms.`"""
    first, *others = comparison.rows
    at = first.point.label
    subject = f"The {formatting.metric(first.metric)} of {new}"
    if first.ratio is None or first.ratio.is_open:
        said = f"{subject} against {base} at {at} is not known: {first.reason}"
    else:
        said = f"{subject} is {_times(first.ratio)} that of {base} at {at}: {first.outcome}"
    more = [f"{_against(row)} ({row.outcome})" for row in others if row.base and row.new]
    return "; ".join((said, *more)) + "."


def _ratio(row: MetricComparison) -> str:
    assert row.ratio is not None  # of all that are decided
    return f"{formatting.metric(row.metric)}, {_times(row.ratio)}"


def _times(ratio: Interval) -> str:
    return f"{formatting.number(ratio.value)} times{interval_text(ratio)}"


def _against(row: MetricComparison) -> str:
    assert row.base is not None
    assert row.new is not None
    unit = METRICS[row.metric].unit
    values = (formatting.quantity(side.value, unit) for side in (row.new, row.base))
    return f"{formatting.metric(row.metric)} {' against '.join(values)}"
