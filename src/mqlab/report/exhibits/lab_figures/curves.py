"""Figures that the lab adds to a study: latency distributions, and messages in each second."""

from collections.abc import Iterable, Sequence
from typing import Final

from mqlab.pipeline.schema import LatencyRow, SeriesRow
from mqlab.report.charts import line_charts
from mqlab.report.charts.figures import chart_figure
from mqlab.report.data.run_results import RunResults, stamped
from mqlab.report.exhibits.cells import flag_notes, notes_of
from mqlab.report.render import formatting
from mqlab.report.render.content import MEASURED, Figure, Prose
from mqlab.study import Point
from mqlab.study.metric import PERCENTILES

# A chart over time has at least so many buckets.
FEWEST_BUCKETS: Final = 5
# Closer points on the stretched axis would be the same pixel.
_STEP: Final = 0.01
# The fastest messages are left out: they would stretch the log axis.
_FROM: Final = 0.01


def latency_figure(results: RunResults, point: Point) -> Figure | Prose | None:
    """The cumulative histogram of latencies; None where no latency was measured."""
    curves = [curve for system in results.systems if (curve := _curve(results, system.name, point))]
    if not curves:
        return None
    name = results.figure_name("latency", point)
    kind = "response time" if point.pattern == "request-reply" else "latency"
    title = f"{point.label}: {kind}, {MEASURED}"
    if all(len(curve.points) < 2 and len({value for _, value, _ in curve.marks}) < 2 for curve in curves):
        return Prose(f"{title}: not drawn, the histogram has a single bucket.")
    description = f"{title}. " + ". ".join(
        f"{curve.system}: " + ", ".join(text for _, _, text in curve.marks) for curve in curves
    )
    note = "The line is the running sum of the pipeline's histogram, the dots its percentiles."
    metrics = [f"{_kind(point)}.{rank}" for rank in PERCENTILES]
    drawn = line_charts.latencies(curves, results.names())
    return chart_figure(name, title, drawn, description, (note, *notes_of(results, (point,), metrics)))


def _kind(point: Point) -> str:
    return "response" if point.pattern == "request-reply" else "latency"


def series_figure(results: RunResults, point: Point) -> Figure | None:
    """Messages in each second. Runs of a few seconds have no figure (None): their rate says as much."""
    place = (point.scenario, point.name)
    rows = [row for row in results.series if (row.scenario, row.point) == place]
    lines = [line for system in results.systems for line in _lines(rows, system.name, system.stamps)]
    if all(len(line.seconds) < FEWEST_BUCKETS for line in lines):
        return None
    title = f"{point.label}: second by second, {MEASURED}"
    name = results.figure_name("series", point)
    description = f"{point.label}: messages in each second of every run, {MEASURED}."
    drawn = line_charts.series(lines, _bands(rows), results.names())
    note = "Every valid run is a line. Shaded seconds lie mostly outside the measure phase, which alone counts."
    notes = (note, *flag_notes(results, (point,)))
    return chart_figure(name, title, drawn, description, notes)


def _curve(results: RunResults, system: str, point: Point) -> line_charts.Curve | None:
    place = (system, point.scenario, point.name)
    replies = point.pattern == "request-reply"
    histogram = results.responses if replies else results.latencies
    buckets = [bucket for bucket in histogram if (bucket.system, bucket.scenario, bucket.point) == place]
    marks = []
    for rank, per_mille in PERCENTILES.items():
        metric = f"{_kind(point)}.{rank}"
        measure = results.measure(system, point, metric)
        if measure is not None and not measure.is_thin:
            marks.append(
                (
                    per_mille / 1000,
                    measure.value,
                    f"{formatting.metric(metric)}: {formatting.quantity(measure.value, measure.unit)}",
                )
            )
    if not buckets and not marks:
        return None
    return line_charts.Curve(stamped(system, results.stamps_of(system)), _thinned(_shares(buckets)), marks)


def _shares(buckets: Sequence[LatencyRow]) -> Iterable[tuple[float, float]]:
    """(share of messages that took no longer, latency), in rising order; `buckets` are sorted by latency."""
    total = sum(bucket.count for bucket in buckets)
    below = 0
    for bucket in buckets:
        below += bucket.count
        # The slowest message is drawn below 100 %, which the axis cannot show.
        share = min(below, total - 0.5) / total
        if share >= _FROM:
            yield share, bucket.latency


def _thinned(points: Iterable[tuple[float, float]]) -> list[tuple[float, float]]:
    all_points = list(points)
    kept: list[tuple[float, float]] = []
    for share, latency in all_points:
        if not kept or line_charts.stretched(share) - line_charts.stretched(kept[-1][0]) >= _STEP:
            kept.append((share, latency))
    if all_points and kept[-1] != all_points[-1]:
        kept.append(all_points[-1])
    return kept


def _lines(rows: Sequence[SeriesRow], system: str, stamps: tuple[str, ...]) -> list[line_charts.Steps]:
    runs: dict[int, list[SeriesRow]] = {}
    for row in rows:
        if row.system == system:
            runs.setdefault(row.run, []).append(row)
    name = stamped(system, stamps)
    lines = []
    for run, seconds in runs.items():
        for side in ("received", "sent"):
            steps = [(row.second, value) for row in seconds if (value := getattr(row, side)) is not None]
            lines.append(line_charts.Steps(name, str(run), side, steps))
    return [line for line in lines if line.seconds]


def _bands(rows: Sequence[SeriesRow]) -> list[line_charts.Band]:
    """The phases other than measure, from the first run: all runs of a point have the same phases."""
    bands: list[line_charts.Band] = []
    for row in rows:
        if row.run != rows[0].run or row.phase == "measure":
            continue
        phase = row.phase
        if bands and bands[-1].phase == phase and bands[-1].end == row.second:
            bands[-1] = line_charts.Band(phase, bands[-1].start, row.second + 1)
        else:
            bands.append(line_charts.Band(phase, row.second, row.second + 1))
    return bands
