"""Time series of a run: messages sent and received over time, and the onset of flow control."""

from collections.abc import Iterator

from mqlab.report.charts import line_charts, svg
from mqlab.report.charts.line_charts import Onset, TimeSeries
from mqlab.report.data.run_results import RunResults, stamped
from mqlab.report.exhibits.cells import flag_notes
from mqlab.report.render import formatting
from mqlab.report.render.content import MEASURED, PUBLISHED, Block, Figure, Prose
from mqlab.study import Exhibit, Point


def time_series(results: RunResults, exhibit: Exhibit, _: str) -> tuple[Block, ...]:
    """One figure for each point, of the first valid run of each system."""
    points = exhibit.select_points(results.points)
    figures = [_figure(results, exhibit, point, len(points) > 1) for point in points]
    drawn: list[Block] = [figure for figure in figures if figure is not None]
    if drawn:
        return tuple(drawn)
    return (Prose(f"{exhibit.title}: {formatting.NOT_AVAILABLE}, nothing was measured of it."),)


def _figure(results: RunResults, exhibit: Exhibit, point: Point, several: bool) -> Block | None:
    runs = [run for system in results.systems if (run := _time_series(results, system.name, point))]
    if not runs:
        return None
    onsets = list(_onsets(results, point))
    name = f"{results.exhibit_name('time-series', exhibit)}-{results.figure_name('', point)}"
    title = f"{exhibit.title}: {point.name or point.scenario}" if several else exhibit.title
    if all(len(run.paces) < 2 for run in runs):
        return Prose(f"{title}: not drawn, the run has a single step of 0.2 s.")
    held = "; ".join(onset.label for onset in onsets) or "no producer was held back"
    description = f"{title}: messages sent and received a second against time, {MEASURED}; {held}."
    picture = svg.clean(line_charts.time_series_chart(runs, onsets, results.names()), name, description)
    return Figure(name, title, picture, description, tuple(_notes(results, exhibit, point)), wide=True)


def _time_series(results: RunResults, system: str, point: Point) -> TimeSeries | None:
    place = (system, point.scenario, point.name)
    paces = [p for p in results.paces if (p.system, p.scenario, p.point) == place and p.run in results.valid_runs]
    if not paces:
        return None
    run = paces[0].run
    depths = [d for d in results.depths if d.run == run and d.depth is not None]
    source = depths[0].source if depths else ""
    return TimeSeries(
        stamped(system, results.stamps_of(system)),
        str(run),
        [(p.seconds, p.sent, p.received) for p in paces if p.run == run],
        [(d.seconds, d.depth or 0.0) for d in depths if d.source == source],
    )


def _onsets(results: RunResults, point: Point) -> Iterator[Onset]:
    several = len(results.systems) > 1
    for system in results.systems:
        onset = results.measure(system.name, point, "onset")
        if onset is not None:
            prefix = f"{stamped(system.name, system.stamps)}: " if several else ""
            label = f"{prefix}producers held back after {formatting.quantity(onset.value, onset.unit)}"
            yield Onset(system.name, onset.value, label)


def _notes(results: RunResults, exhibit: Exhibit, point: Point) -> Iterator[str]:
    yield (
        "The first valid run of each system, in steps of 0.2 s. The red line stands where the first producer was held "
        "back, as the mean over the valid runs."
    )
    for system in results.study.systems_published:
        value = results.study.find_published(system, point, "onset", table=exhibit.title)
        if value is not None and value.value is not None:
            yield f"{system}, {PUBLISHED}: producers held back after {formatting.printed(value.text)} {value.unit}."
    yield from flag_notes(results, (point,))
