"""The matrix of systems and scenarios, and ours as a multiple of what the study printed."""

from typing import Final

from mqlab.report.data.findings import Findings, stamped
from mqlab.report.data.pairing import Subject, subjects
from mqlab.report.exhibits.cells import (
    NOT_PRINTED,
    absent,
    flag_notes,
    measured,
    printed,
    system_cell,
    unknown,
    why_unknown,
)
from mqlab.report.render import formatting
from mqlab.report.render.content import MEASURED, PUBLISHED, Block, Cell, Row, Table, number, row
from mqlab.study import METRICS, Exhibit, Point

# More points than this go down the page, whatever the exhibit wants: nobody reads a table that wide.
_WIDEST: Final = 16


def matrix(findings: Findings, exhibit: Exhibit, _: str) -> tuple[Block, ...]:
    metric = exhibit.value or ""
    unit = METRICS[metric].unit
    notes = (
        f"{formatting.metric(metric).capitalize()}, {unit}.",
        f"{formatting.PLUS_MINUS} is the half width of the 95 % interval over the valid runs; "
        f"{formatting.LOWER_BOUND} marks a figure that the agents bounded: the system can do at least this much.",
        *flag_notes(findings, findings.points),
    )
    table = _matrix(findings, metric)
    if exhibit.rows == "scenario" or len(findings.points) > _WIDEST:
        table = _turned(table)
    found: list[Block] = [Table(exhibit.title, tuple(cell.words for cell in table[0]), _rows(table[1:]), notes)]
    return (*found, *_ratios(findings, metric))


def _matrix(findings: Findings, metric: str) -> list[list[Cell]]:
    """Systems down, points across."""
    head = [Cell("System"), *(Cell(point.label) for point in findings.points)]
    return [
        head,
        *(
            [system_cell(findings, *subject), *(_value(findings, subject, point, metric) for point in findings.points)]
            for subject in subjects(findings)
        ),
    ]


def _turned(table: list[list[Cell]]) -> list[list[Cell]]:
    turned = [list(column) for column in zip(*table, strict=True)]
    turned[0][0] = Cell("Scenario")
    return turned


def _rows(cells: list[list[Cell]]) -> tuple[Row, ...]:
    origins = {"published": PUBLISHED, "measured": MEASURED}
    return tuple(row(*line, origin=origins.get(line[0].tone, "")) for line in cells)


def _value(findings: Findings, subject: Subject, point: Point, metric: str) -> Cell:
    system, origin = subject
    if origin == MEASURED:
        return measured(findings, system, point, metric, unit=False, brief=False)
    return printed(findings.study.find_published(system, point, metric), unit=False)


def _ratios(findings: Findings, metric: str) -> tuple[Block, ...]:
    """Ours as a multiple of each printed figure: with the verdicts, the only figures a report computes."""
    head = [Cell("Compared with"), *(Cell(point.label) for point in findings.points)]
    tables: list[Block] = []
    for system in findings.systems:
        title = f"{stamped(system.name, system.stamps)}, measured here, as a multiple of the published figure"
        found = [head] + [
            [
                system_cell(findings, name, PUBLISHED),
                *(_ratio(findings, system.name, name, point, metric) for point in findings.points),
            ]
            for name in findings.study.systems_published
        ]
        if len(findings.points) > _WIDEST:
            found = _turned(found)
        note = "Computed in this report: our figure / the published one. The machines differ: compare shapes."
        if findings.study.systems_published:
            heads = tuple(cell.words for cell in found[0])
            tables.append(Table(title, heads, tuple(row(*line) for line in found[1:]), (note,), folded=True))
    return tuple(tables)


def _ratio(findings: Findings, ours: str, theirs: str, point: Point, metric: str) -> Cell:
    found = findings.measure(ours, point, metric)
    theirs_was = findings.study.published_value(theirs, point, metric)
    if found is None:
        return absent(findings.absence(ours, point, brief=True))
    if not theirs_was:
        return absent(NOT_PRINTED)
    if why := why_unknown(metric, found.value, found.ci95):
        return unknown(why)
    mark = f"{formatting.LOWER_BOUND} " if found.lower_bound else ""
    return number(f"{mark}{formatting.number(found.value / theirs_was)} \u00d7")
