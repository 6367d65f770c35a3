"""The systems of a run compared: the overview, their ratios at every point, and the rate against the latency."""

from collections.abc import Iterator
from typing import Final

from mqlab.pipeline.schema import ComparisonRow, MeasureRow
from mqlab.report.charts import bar_charts
from mqlab.report.charts.drawing import PALETTE
from mqlab.report.charts.figures import chart_figure
from mqlab.report.charts.interval_charts import RatedPoint, scatter
from mqlab.report.data.pairing import compared_systems, subjects
from mqlab.report.data.run_results import RunResults, stamped
from mqlab.report.exhibits.cells import own_cell, why_hidden
from mqlab.report.exhibits.exhibits import bar
from mqlab.report.exhibits.headline import headline
from mqlab.report.render import formatting
from mqlab.report.render.content import MEASURED, Cell, Figure, Row, Table, number, row
from mqlab.study import METRICS, Point

# With more points, or longer names, each scenario is one row.
_ROWS: Final = 24
_NAME: Final = 36
# Ratios, which have two lines each with their interval: a table with more is folded.
_MOST_OPEN: Final = 15

_OWN_COLOURS: Final = ", each system in a colour of its own"

OverviewRow = tuple[str, bar_charts.Bar]


def overview(results: RunResults) -> Figure | None:
    metric = headline(results)
    all_points = len(results.study_points) <= _ROWS and all(len(point.label) <= _NAME for point in results.study_points)
    bars = list(_each(results, metric) if all_points else _best(results, metric))
    if not any(bar.value for _, bar in bars):
        return None
    title = f"{formatting.capital(formatting.metric(metric))} of every scenario"
    if not all_points:
        title = f"Highest {formatting.metric(metric)} of every scenario"
    several = len({bar.name for _, bar in bars if bar.origin == MEASURED}) > 1
    description = (
        f"{title}: published figures as circles, those measured here as diamonds{_OWN_COLOURS if several else ''}."
    )
    note = (
        "Circles are published, all else was measured here: the mean with its 95 % interval, and below it a small dot "
        "for each run. The machines differ: compare the shape from scenario to scenario, not the distance between a "
        "circle and a diamond."
    )
    drawn = bar_charts.dots(bars, METRICS[metric].unit)
    return chart_figure("overview", title, drawn, description, (note,), wide=True)


def _each(results: RunResults, metric: str) -> Iterator[OverviewRow]:
    for point in results.study_points:
        for subject in subjects(results):
            yield point.label, bar(results, subject, point, metric)


def _best(results: RunResults, metric: str) -> Iterator[OverviewRow]:
    for name in dict.fromkeys(point.scenario for point in results.study_points):
        for subject in subjects(results):
            bars = [bar(results, subject, point, metric) for point in results.points_of(name)]
            if bars:
                yield name, max(bars, key=lambda candidate: candidate.value or 0.0)


def comparison_table(results: RunResults) -> Table | None:
    """Each point that both of the first two systems ran; None if there is none."""
    both = compared_systems(results, MEASURED)
    if both is None:
        return None
    metric = headline(results)
    rows = [
        _row(results, point, found)
        for point in results.points
        if (found := results.comparison(*both, point, metric) or results.comparison(*both, point, point.work))
    ]
    if not rows:
        return None
    first, second = (stamped(name, results.stamps_of(name)) for name in both)
    notes = (
        f"The ratio is that of {first} to {second}, with its 95 % interval. Where the runs took turns it comes from "
        "the ratio of each round.",
    )
    head = ("Scenario", "Metric", "Ratio", "Better", "By", "Runs")
    title = f"{both[0]} against {both[1]}, point by point, {MEASURED}"
    return Table(title, head, tuple(rows), notes, folded=len(rows) > _MOST_OPEN)


def _row(results: RunResults, point: Point, found: ComparisonRow) -> Row:
    known = found.low is not None and found.high is not None
    ends = f"{formatting.number(found.low or 0)} to {formatting.number(found.high or 0)}" if known else "no interval"
    is_certain = known and not (found.low or 0) <= 1 <= (found.high or 0)
    better = own_cell(results, found.faster) if is_certain else Cell("not certain", tone="absent")
    return row(
        Cell(point.label),
        Cell(formatting.metric(found.metric)),
        number(f"{formatting.number(found.ratio)} {formatting.TIMES}", ends),
        better,
        number(f"{formatting.number(found.percent_faster)} %") if is_certain else Cell(""),
        number(f"{found.runs:,}"),
    )


def rate_against_latency(results: RunResults) -> Figure | None:
    """The rate of each point against its 99 % latency, or response time; None if fewer than two points have both."""
    points = list(_rated_points(results))
    if len(points) < 2:
        return None
    names = results.names()
    colours = {name: PALETTE[n % len(PALETTE)] for n, name in enumerate(names)}
    title = f"Rate against 99 % latency of every point, {MEASURED}"
    units = {METRICS[point.work].unit for point in results.points}
    drawn = scatter(points, colours, (f"rate, {formatting.listed(sorted(units))}", "latency or response time, 99 %"))
    description = f"{title}: " + "; ".join(point.description for point in points[:20]) + "."
    note = "To the right is more, below is sooner. A closed loop loads each system as far as it goes."
    return chart_figure("rate-latency", title, drawn, description, (note,), wide=True)


def _rated_points(results: RunResults) -> Iterator[RatedPoint]:
    for point in results.points:
        kind = "response" if point.pattern == "request-reply" else "latency"
        for system in results.systems:
            rate, delay = (_positive(results, system.name, point, name) for name in (point.work, f"{kind}.p99"))
            if rate is None or delay is None:
                continue
            name = stamped(system.name, system.stamps)
            amount = f"{formatting.number(rate.value)} {rate.unit}"
            text = f"{name}, {point.label}: {amount}, {formatting.quantity(delay.value, 's')}"
            yield RatedPoint(name, point.label, rate.value, delay.value, text)


def _positive(results: RunResults, system: str, point: Point, metric: str) -> MeasureRow | None:
    """A measure that can be shown, and has a place on a log axis."""
    measure = results.measure(system, point, metric)
    return None if measure is None or why_hidden(measure) or measure.value <= 0 else measure
