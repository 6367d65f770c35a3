"""The matrix of systems and scenarios, and measured values as multiples of published ones."""

from typing import Final

from mqlab.report.data.pairing import Subject, subjects
from mqlab.report.data.run_results import RunResults, stamped
from mqlab.report.exhibits.cells import (
    NOT_PRINTED,
    absent,
    measured,
    notes_of,
    printed,
    system_cell,
    unknown,
    why_hidden,
)
from mqlab.report.render import formatting
from mqlab.report.render.content import MEASURED, PUBLISHED, Block, Cell, Row, Table, number, row
from mqlab.study import METRICS, Exhibit, Point

# With more points the table has a row for each, even if the exhibit asks for columns.
_WIDEST: Final = 16


def matrix(results: RunResults, exhibit: Exhibit, _: str) -> tuple[Block, ...]:
    metric = exhibit.value or ""
    unit = METRICS[metric].unit
    notes = (
        f"{formatting.metric(metric).capitalize()}, {unit}.",
        f"{formatting.PLUS_MINUS} is the half width of the 95 % interval over the valid runs; "
        f"{formatting.LOWER_BOUND} marks a figure that the lab bounded: the system can do at least this much.",
        *notes_of(results, results.study_points, [metric]),
    )
    table = _matrix(results, metric)
    if exhibit.rows == "scenario" or len(results.study_points) > _WIDEST:
        table = _transposed(table)
    blocks: list[Block] = [Table(exhibit.title, tuple(cell.full_text for cell in table[0]), _rows(table[1:]), notes)]
    return (*blocks, *_ratios(results, metric))


def _matrix(results: RunResults, metric: str) -> list[list[Cell]]:
    """Systems down, points across."""
    head = [Cell("System"), *(Cell(point.label) for point in results.study_points)]
    return [
        head,
        *(
            [
                system_cell(results, *subject),
                *(_value(results, subject, point, metric) for point in results.study_points),
            ]
            for subject in subjects(results)
        ),
    ]


def _transposed(table: list[list[Cell]]) -> list[list[Cell]]:
    transposed = [list(column) for column in zip(*table, strict=True)]
    transposed[0][0] = Cell("Scenario")
    return transposed


def _rows(cells: list[list[Cell]]) -> tuple[Row, ...]:
    origins = {"published": PUBLISHED, "measured": MEASURED}
    return tuple(row(*line, origin=origins.get(line[0].tone, "")) for line in cells)


def _value(results: RunResults, subject: Subject, point: Point, metric: str) -> Cell:
    system, origin = subject
    if origin == MEASURED:
        return measured(results, system, point, metric, unit=False, brief=False)
    return printed(results.study.find_published(system, point, metric), unit=False)


def _ratios(results: RunResults, metric: str) -> tuple[Block, ...]:
    """Measured values as multiples of published ones: beside verdicts, the only figures that a report computes."""
    head = [Cell("Compared with"), *(Cell(point.label) for point in results.study_points)]
    tables: list[Block] = []
    # The studies sent message by message.
    for system in (system for system in results.systems if system.name not in results.packed):
        title = f"{stamped(system.name, system.stamps)}, measured here, as a multiple of the published figure"
        cells = [head] + [
            [
                system_cell(results, name, PUBLISHED),
                *(_ratio(results, system.name, name, point, metric) for point in results.study_points),
            ]
            for name in results.study.systems_published
        ]
        if len(results.study_points) > _WIDEST:
            cells = _transposed(cells)
        note = "Computed in this report: our figure / the published one. The machines differ: compare shapes."
        if results.study.systems_published:
            heads = tuple(cell.full_text for cell in cells[0])
            tables.append(Table(title, heads, tuple(row(*line) for line in cells[1:]), (note,), folded=True))
    return tuple(tables)


def _ratio(results: RunResults, system: str, published_system: str, point: Point, metric: str) -> Cell:
    measure = results.measure(system, point, metric)
    published = results.study.published_value(published_system, point, metric)
    if measure is None:
        return absent(results.absence(system, point, True, metric))
    if not published:
        return absent(NOT_PRINTED)
    if why := why_hidden(measure):
        return unknown(why)
    mark = f"{formatting.LOWER_BOUND} " if measure.lower_bound else ""
    return number(f"{mark}{formatting.number(measure.value / published)} \u00d7{results.flags(system, point)}")
