"""The study's own tables and figures, with its titles, rows and columns, and ours beside what it printed."""

from collections.abc import Callable
from dataclasses import replace
from typing import Final

from mqlab.report.charts import bar_charts, svg
from mqlab.report.charts.setups import diagram, setup
from mqlab.report.data.findings import Findings, stamped
from mqlab.report.data.pairing import Subject, subjects
from mqlab.report.exhibits.cells import figure_text, flag_notes, printed, system_cell, why_unknown
from mqlab.report.exhibits.groups import grouped
from mqlab.report.exhibits.lines import lines
from mqlab.report.exhibits.matrix import matrix
from mqlab.report.exhibits.table import table
from mqlab.report.exhibits.time_series import courses
from mqlab.report.render import formatting
from mqlab.report.render.content import MEASURED, PUBLISHED, Block, Cell, Figure, Table, number, row
from mqlab.study import METRICS, Exhibit, Point

# A scenario of more points has one chart of groups in place of a chart for each.
_CHARTS: Final = 4


def blocks(findings: Findings, exhibit: Exhibit, scenario: str = "") -> tuple[Block, ...]:
    """One exhibit; where the study has one a scenario, that of `scenario`."""
    return _FORMS[exhibit.form](findings, exhibit, scenario)


def bars(findings: Findings, exhibit: Exhibit, scenario: str) -> tuple[Block, ...]:
    if not exhibit.each:
        return grouped(findings, exhibit, scenario)
    points = findings.points_of(scenario)
    if len(points) > _CHARTS:
        return grouped(findings, replace(exhibit, title=exhibit.title_for(scenario), of=(scenario,)), scenario)
    return tuple(_bars_of(findings, exhibit, point) for point in points)


def _bars_of(findings: Findings, exhibit: Exhibit, point: Point) -> Figure:
    metric = exhibit.value or ""
    given = [bar(findings, subject, point, metric) for subject in subjects(findings)]
    title = exhibit.title_for(point.label)
    name = findings.figure_name(f"bars {metric}", point)
    says = f"{title}, {METRICS[metric].unit}. " + "; ".join(bar.words for bar in given)
    picture = svg.clean(bar_charts.bars(given, METRICS[metric].unit), name, says)
    notes = (bar_note(findings, point, metric), *flag_notes(findings, (point,)))
    return Figure(name, title, picture, says, notes)


def bar_note(findings: Findings, point: Point, metric: str) -> str:
    """What stands behind the bars measured here: how messages moved, and what set each figure."""
    said = []
    for system in findings.systems:
        found = findings.measure(system.name, point, metric)
        if found is None:
            said.append(f"{system.name}: {formatting.NOT_AVAILABLE}, {findings.absence(system.name, point)}")
            continue
        bound = f"bound by the {found.bound_by}" if found.bound_by else "nothing that was sampled at its limit"
        limit = ", so a lower bound" if found.lower_bound else ""
        said.append(f"{system.name}: {formatting.count(found.runs, 'valid run')} of {found.attempted}, {bound}{limit}")
    moved = f"batches of {point.batch:,}, {connections(point)}"
    return f"Measured here with {moved}. {'; '.join(said)}."


def connections(point: Point) -> str:
    if point.clients:
        return formatting.count(point.clients, "connection")
    return "a connection for each role" if point.connections == "each" else "one connection shared by an agent's roles"


def summary(findings: Findings, exhibit: Exhibit, _: str) -> tuple[Block, ...]:
    """The study's own columns and words."""
    replies = any(point.pattern == "request-reply" for point in findings.points)
    roles = ("Producers or requesters", "Consumers or responders") if replies else ("Producers", "Consumers")
    head = ("Scenario", "Destination Type", "Durability", "Msg Size", *roles, "ACK Mode")
    rows = tuple(
        row(
            Cell(point.label),
            Cell(_destination(point)),
            Cell("P" if point.persistent else "NP"),
            Cell(formatting.size(point.size)),
            number(f"{point.producers or point.requesters:,}"),
            number(f"{point.consumers or point.responders:,}"),
            Cell(f"TX ({point.transaction} msgs)" if point.transaction else formatting.ACKNOWLEDGE[point.acknowledge]),
        )
        for point in findings.points
    )
    folded = len(rows) > formatting.LONG
    return (Table(exhibit.title, head, rows, ("P = Persistent. NP = Non Persistent.",), folded=folded),)


def settings(findings: Findings, exhibit: Exhibit, _: str) -> tuple[Block, ...]:
    rows = [
        row(
            system_cell(findings, system, PUBLISHED),
            Cell(item.name),
            Cell(item.value),
            Cell(item.effect),
            origin=PUBLISHED,
        )
        for system in findings.study.systems_published
        for item in findings.study.settings.get(system, ())
    ]
    for system in findings.systems:
        name = system_cell(findings, system.name, MEASURED)
        rows += [row(name, Cell(key), Cell(value), Cell(""), origin=MEASURED) for key, value in system.settings.items()]
        if not system.settings:
            rows.append(row(name, Cell("none"), Cell("its defaults"), Cell(""), origin=MEASURED))
    return (Table(exhibit.title, ("System", "Setting", "Value", "Stated effect"), tuple(rows)),)


def bar(findings: Findings, subject: Subject, point: Point, metric: str) -> bar_charts.Bar:
    system, origin = subject
    name = stamped(system, findings.stamps_of(system) if origin == MEASURED else (), "\n")
    if origin == MEASURED and system in findings.study.systems_published:
        # The same system, run again: two bars of one name would fall on each other.
        name += f"\n({MEASURED})"
    if origin == PUBLISHED:
        value = findings.study.find_published(system, point, metric)
        if value is None or value.value is None:
            cell = printed(value)
            return bar_charts.Bar(name, None, None, origin, f"{cell.text}, {cell.note}")
        return bar_charts.Bar(name, value.value, None, origin, formatting.printed(value.text))
    found = findings.measure(system, point, metric)
    if found is None:
        return bar_charts.Bar(name, None, None, origin, formatting.NOT_AVAILABLE)
    if why_unknown(metric, found.value, found.ci95):
        return bar_charts.Bar(name, None, None, origin, formatting.NOT_KNOWN)
    text = figure_text(found.value, "", found.lower_bound, findings.busy(system, point))
    return bar_charts.Bar(name, found.value, found.ci95, origin, text)


def _destination(point: Point) -> str:
    name = point.domain.capitalize()
    if point.pattern == "request-reply":
        return "Queue pair" if point.destinations == 1 else f"{point.destinations:,} Queue pairs"
    return name if point.destinations == 1 else f"{point.destinations:,} {name}s"


_FORMS: Final[dict[str, Callable[[Findings, Exhibit, str], tuple[Block, ...]]]] = {
    "matrix": matrix,
    "bars": bars,
    "table": table,
    "lines": lines,
    "series": courses,
    "summary": summary,
    "settings": settings,
    "diagram": diagram,
    "setup": setup,
}
