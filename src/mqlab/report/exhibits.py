"""The study's own tables and figures, with its titles, rows and columns, and ours beside what it printed."""

from collections.abc import Callable
from typing import Final

from mqlab.report import charts, diagrams, svg, words
from mqlab.report.cells import measured, system_cell
from mqlab.report.content import MEASURED, PUBLISHED, Block, Cell, Figure, Table, number, row
from mqlab.report.findings import Findings, stamped
from mqlab.report.matrix import Subject, matrix, published_value, subjects
from mqlab.study import METRICS, Exhibit, Point


def blocks(findings: Findings, exhibit: Exhibit, scenario: str = "") -> tuple[Block, ...]:
    """One exhibit; where the study has one a scenario, that of `scenario`."""
    return _FORMS[exhibit.form](findings, exhibit, scenario)


def bars(findings: Findings, exhibit: Exhibit, scenario: str) -> tuple[Block, ...]:
    metric = exhibit.value or ""
    found: list[Block] = []
    for point in findings.points_of(scenario):
        given = [bar(findings, subject, point, metric) for subject in subjects(findings)]
        title = exhibit.title_for(point.label)
        name = findings.figure_name(f"bars {metric}", point)
        says = f"{title}, {METRICS[metric]}. " + "; ".join(bar.words for bar in given)
        picture = svg.clean(charts.bars(given, METRICS[metric]), name, says)
        found.append(Figure(name, title, picture, says, (bar_note(findings, point, metric),)))
    return tuple(found)


def bar_note(findings: Findings, point: Point, metric: str) -> str:
    """What stands behind the bars measured here: how messages moved, and what set each figure."""
    said = []
    for system in findings.systems:
        found = findings.measure(system.name, point, metric)
        if found is None:
            said.append(f"{system.name}: {words.NOT_AVAILABLE}, {findings.absence(system.name, point)}")
            continue
        bound = f"bound by the {found.bound_by}" if found.bound_by else "nothing that was sampled at its limit"
        limit = ", so a lower bound" if found.lower_bound else ""
        said.append(f"{system.name}: {words.count(found.runs, 'valid run')} of {found.attempted}, {bound}{limit}")
    moved = f"batches of {point.batch:,}, {connections(point)}"
    return f"Measured here with {moved}. {'; '.join(said)}."


def connections(point: Point) -> str:
    return "a connection for each role" if point.connections == "each" else "one connection shared by an agent's roles"


def summary(findings: Findings, exhibit: Exhibit, _: str) -> tuple[Block, ...]:
    """The study's own columns and words."""
    head = ("Scenario", "Destination Type", "Durability", "Msg Size", "Producers", "Consumers", "ACK Mode")
    rows = tuple(
        row(
            Cell(point.label),
            Cell(_destination(point)),
            Cell("P" if point.persistent else "NP"),
            Cell(words.size(point.size)),
            number(f"{point.producers:,}"),
            number(f"{point.consumers:,}"),
            Cell(f"TX ({point.transaction} msgs)" if point.transaction else point.acknowledge.capitalize()),
        )
        for point in findings.points
    )
    return (Table(exhibit.title, head, rows, ("P = Persistent. NP = Non Persistent.",)),)


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


def diagram(findings: Findings, exhibit: Exhibit, scenario: str) -> tuple[Block, ...]:
    found: list[Block] = []
    for point in findings.points_of(scenario):
        name = findings.figure_name("diagram", point)
        says = (
            f"{words.count(point.producers, 'producer')} send to {words.count(point.destinations, point.domain)}, "
            f"{words.count(point.consumers, 'consumer')} receive."
        )
        title = exhibit.title_for(point.label)
        found.append(Figure(name, title, svg.clean(diagrams.point_diagram(point), name, says), says))
    return tuple(found)


def setup(findings: Findings, exhibit: Exhibit, _: str) -> tuple[Block, ...]:
    name = "setup"
    cores = (findings.meta.get("machine") or {}).get("cores")
    caption = f"{MEASURED}: one machine" + (f", {cores} cores" if cores else "")
    says = "Measured here: the producers' agents, the system and the consumers' agents run on one machine."
    system = findings.systems[0].name if len(findings.systems) == 1 else "system"
    picture = svg.clean(diagrams.setup_diagram([(caption, ("producers", system, "consumers"))]), name, says)
    figure = Figure(name, exhibit.title, picture, says)
    source = findings.study.source
    if source is None or not source.conditions:
        return (figure,)
    rows = tuple(row(Cell(key), Cell(value), origin=PUBLISHED) for key, value in source.conditions.items())
    return figure, Table(f"{exhibit.title}, as published", ("Item", "As published"), rows)


def bar(findings: Findings, subject: Subject, point: Point, metric: str) -> charts.Bar:
    system, origin = subject
    name = stamped(system, findings.stamps_of(system) if origin == MEASURED else (), "\n")
    if origin == MEASURED and system in findings.study.systems_published:
        # The same system, run again: two bars of one name would fall on each other.
        name += f"\n({MEASURED})"
    if origin == PUBLISHED:
        value = published_value(findings, system, point, metric)
        label = f"{words.NOT_AVAILABLE}, not published" if value is None else words.number(value)
        return charts.Bar(name, value, None, origin, label)
    found = findings.measure(system, point, metric)
    if found is None:
        return charts.Bar(name, None, None, origin, words.NOT_AVAILABLE)
    cell = measured(findings, system, point, metric, unit=False)
    return charts.Bar(name, found.value, found.ci95, origin, cell.text)


def _destination(point: Point) -> str:
    name = point.domain.capitalize()
    return name if point.destinations == 1 else f"{point.destinations:,} {name}s"


_FORMS: Final[dict[str, Callable[[Findings, Exhibit, str], tuple[Block, ...]]]] = {
    "matrix": matrix,
    "bars": bars,
    "summary": summary,
    "settings": settings,
    "diagram": diagram,
    "setup": setup,
}
