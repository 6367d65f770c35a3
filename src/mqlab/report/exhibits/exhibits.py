"""The exhibits of a study, with its titles, rows and columns, and measured values beside published ones."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Final

from mqlab.pipeline.schema import MACHINE_FULL
from mqlab.report.charts import bar_charts, line_charts
from mqlab.report.charts.figures import chart_figure
from mqlab.report.charts.line_charts import Onset, TimeSeries
from mqlab.report.charts.setups import diagram, setup
from mqlab.report.data.pairing import Subject, subjects
from mqlab.report.data.run_results import RunResults, stamped
from mqlab.report.exhibits.cells import figure_text, flag_notes, notes_of, printed, system_cell, why_hidden
from mqlab.report.exhibits.groups import grouped
from mqlab.report.exhibits.lab_figures.curves import FEWEST_BUCKETS
from mqlab.report.exhibits.lines import lines
from mqlab.report.exhibits.matrix import matrix
from mqlab.report.exhibits.table import table
from mqlab.report.render import formatting
from mqlab.report.render.content import MEASURED, PUBLISHED, Block, Cell, Figure, Prose, Table, number, row
from mqlab.study import METRICS, Exhibit, Point

# A scenario with more points has one grouped chart in place of a chart for each point.
_CHARTS: Final = 4


def time_series(results: RunResults, exhibit: Exhibit, _: str) -> tuple[Block, ...]:
    """One figure for each point, of the first valid run of each system."""
    points = exhibit.select_points(results.points)
    figures = [_time_series_figure(results, exhibit, point, len(points) > 1) for point in points]
    drawn: list[Block] = [figure for figure in figures if figure is not None]
    if drawn:
        return tuple(drawn)
    return (Prose(f"{exhibit.title}: {formatting.NOT_AVAILABLE}, nothing was measured of it."),)


def _time_series_figure(results: RunResults, exhibit: Exhibit, point: Point, several: bool) -> Block | None:
    runs = [run for system in results.systems if (run := _time_series(results, system.name, point))]
    if not runs:
        return None
    onsets = list(_onsets(results, point))
    name = f"{results.exhibit_name('time-series', exhibit)}-{results.figure_name('', point)}"
    title = f"{exhibit.title}: {point.name or point.scenario}" if several else exhibit.title
    if all(len(run.paces) < FEWEST_BUCKETS for run in runs):
        return Prose(f"{title}: not drawn, the runs have fewer than {FEWEST_BUCKETS} steps of 0.2 s.")
    held = "; ".join(onset.label for onset in onsets) or "no producer was held back"
    description = f"{title}: messages sent and received a second against time, {MEASURED}; {held}."
    drawn = line_charts.time_series_chart(runs, onsets, results.names())
    return chart_figure(name, title, drawn, description, tuple(_time_series_notes(results, exhibit, point)), wide=True)


def _time_series(results: RunResults, system: str, point: Point) -> TimeSeries | None:
    place = (system, point.scenario, point.name)
    paces = [p for p in results.paces if (p.system, p.scenario, p.point) == place]
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


def _time_series_notes(results: RunResults, exhibit: Exhibit, point: Point) -> Iterator[str]:
    yield (
        "The first valid run of each system, in steps of 0.2 s. The red line stands where the first producer was held "
        "back, as the mean over the valid runs."
    )
    for system in results.study.systems_published:
        value = results.study.find_published(system, point, "onset", table=exhibit.title)
        if value is not None and value.value is not None:
            yield f"{system}, {PUBLISHED}: producers held back after {formatting.printed(value.text)} {value.unit}."
    yield from flag_notes(results, (point,))


def blocks(results: RunResults, exhibit: Exhibit, scenario: str = "") -> tuple[Block, ...]:
    """The blocks of an exhibit; of one with a part for each scenario, the part of `scenario`."""
    return _FORMS[exhibit.form](results, exhibit, scenario)


def bars(results: RunResults, exhibit: Exhibit, scenario: str) -> tuple[Block, ...]:
    if not exhibit.each:
        return grouped(results, exhibit, scenario)
    points = results.points_of(scenario)
    if len(points) > _CHARTS:
        return grouped(results, replace(exhibit, title=exhibit.title_for(scenario), of=(scenario,)), scenario)
    return tuple(_bars_of(results, exhibit, point) for point in points)


def _bars_of(results: RunResults, exhibit: Exhibit, point: Point) -> Figure:
    metric = exhibit.value or ""
    system_bars = [bar(results, subject, point, metric) for subject in subjects(results)]
    title = exhibit.title_for(point.label)
    name = results.figure_name(f"bars {metric}", point)
    description = f"{title}, {METRICS[metric].unit}. " + "; ".join(bar.description for bar in system_bars)
    drawn = bar_charts.bars(system_bars, METRICS[metric].unit)
    notes = (bar_note(results, point, metric), *notes_of(results, (point,), [metric]))
    return chart_figure(name, title, drawn, description, notes)


def bar_note(results: RunResults, point: Point, metric: str) -> str:
    """The note on measured bars: connections; the way of travel, the runs and the bottleneck of each system."""
    notes = []
    for system in results.systems:
        measure = results.measure(system.name, point, metric)
        if measure is None:
            notes.append(
                f"{system.name}: {formatting.NOT_AVAILABLE}, {results.absence(system.name, point, metric=metric)}"
            )
            continue
        limit = ", so a lower bound" if measure.lower_bound else ""
        way = results.travel(system.name, point)
        runs = f"{formatting.count(measure.runs, 'valid run')} of {measure.attempted}"
        notes.append(f"{system.name}: {way + ', ' if way else ''}{runs}, {_bottleneck(measure.bound_by)}{limit}")
    return f"Measured here with {connections(point)}. {'; '.join(notes)}."


def _bottleneck(bound_by: str | None) -> str:
    if bound_by is None:
        return "nothing that was sampled at its limit"
    return bound_by if bound_by == MACHINE_FULL else f"bound by the {bound_by}"


def connections(point: Point) -> str:
    if point.clients:
        return formatting.count(point.clients, "connection")
    return "a connection for each role" if point.connections == "each" else "one connection shared by an agent's roles"


def summary(results: RunResults, exhibit: Exhibit, _: str) -> tuple[Block, ...]:
    replies = any(point.pattern == "request-reply" for point in results.study_points)
    roles = ("Producers or requesters", "Consumers or responders") if replies else ("Producers", "Consumers")
    head = ("Scenario", "Destination Type", "Durability", "Msg Size", *roles, "ACK Mode")
    rows = tuple(
        row(
            Cell(point.label),
            Cell(_destination(point)),
            Cell("P" if point.persistent else "NP"),
            Cell(formatting.bodies(point)),
            number(f"{point.producers or point.requesters:,}"),
            number(f"{point.consumers or point.responders:,}"),
            Cell(f"TX ({point.transaction} msgs)" if point.transaction else formatting.ACKNOWLEDGE[point.acknowledge]),
        )
        for point in results.study_points
    )
    folded = len(rows) > formatting.LONG
    return (Table(exhibit.title, head, rows, ("P = Persistent. NP = Non Persistent.",), folded=folded),)


def settings(results: RunResults, exhibit: Exhibit, _: str) -> tuple[Block, ...]:
    rows = [
        row(
            system_cell(results, system, PUBLISHED),
            Cell(item.setting),
            Cell(item.value),
            Cell(item.effect),
            origin=PUBLISHED,
        )
        for system in results.study.systems_published
        for item in results.study.settings.get(system, ())
    ]
    for system in results.systems:
        name = system_cell(results, system.name, MEASURED)
        rows += [row(name, Cell(key), Cell(value), Cell(""), origin=MEASURED) for key, value in system.settings.items()]
        if not system.settings:
            rows.append(row(name, Cell("none"), Cell("its defaults"), Cell(""), origin=MEASURED))
    return (Table(exhibit.title, ("System", "Setting", "Value", "Stated effect"), tuple(rows)),)


def bar(results: RunResults, subject: Subject, point: Point, metric: str) -> bar_charts.Bar:
    system, origin = subject
    name = stamped(system, results.stamps_of(system) if origin == MEASURED else results.published_stamps, "\n")
    if origin == MEASURED and system in results.study.systems_published:
        # The published system was run again: two bars with the same name would overlap.
        name += f"\n({MEASURED})"
    if origin == PUBLISHED:
        value = results.study.find_published(system, point, metric)
        if value is None or value.value is None:
            cell = printed(value)
            return bar_charts.Bar(name, None, None, origin, f"{cell.text}, {cell.note}")
        text = formatting.printed(value.text)
        return bar_charts.Bar(name, value.value, None, origin, text, unit=METRICS[metric].unit)
    measure = results.measure(system, point, metric)
    if measure is None:
        return bar_charts.Bar(name, None, None, origin, formatting.NOT_AVAILABLE)
    if why_hidden(measure):
        return bar_charts.Bar(name, None, None, origin, formatting.NOT_KNOWN)
    text = figure_text(measure.value, "", measure.lower_bound, results.flags(system, point))
    runs = results.run_values(system, point, metric)
    return bar_charts.Bar(name, measure.value, measure.ci95, origin, text, runs, METRICS[metric].unit)


def _destination(point: Point) -> str:
    name = point.domain.capitalize()
    if point.pattern == "request-reply":
        return "Queue pair" if point.destinations == 1 else f"{point.destinations:,} Queue pairs"
    return name if point.destinations == 1 else f"{point.destinations:,} {name}s"


_FORMS: Final[dict[str, Callable[[RunResults, Exhibit, str], tuple[Block, ...]]]] = {
    "matrix": matrix,
    "bars": bars,
    "table": table,
    "lines": lines,
    "series": time_series,
    "summary": summary,
    "settings": settings,
    "diagram": diagram,
    "setup": setup,
}
