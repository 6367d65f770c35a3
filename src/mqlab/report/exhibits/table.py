"""Tables of a study: a row for each combination of the parameters that the exhibit names, and its columns."""

from collections.abc import Iterator, Sequence
from typing import Final

from mqlab.report.data.pairing import stands_for
from mqlab.report.data.run_results import RunResults
from mqlab.report.data.selection import SCENARIO, Key, RowPoints, row_names, rows
from mqlab.report.exhibits.cells import notes_of
from mqlab.report.exhibits.columns import BASE, TableColumn, columns
from mqlab.report.render import formatting
from mqlab.report.render.content import MEASURED, PUBLISHED, Block, Cell, Table, number, row
from mqlab.study import Exhibit, Point

INTERVALS: Final = (
    f"{formatting.PLUS_MINUS} is the half width of the 95 % interval; {formatting.LOWER_BOUND} marks a figure "
    "that the lab bounded."
)


ScenarioColumn = tuple[str, TableColumn]  # a column and its scenario ("": that of the row)


def table(results: RunResults, exhibit: Exhibit, _: str) -> tuple[Block, ...]:
    points = [*exhibit.select_points(results.declared), *exhibit.select_points(results.points)]
    varied = [name for figure in exhibit.views for name in figure.over]
    names = row_names(exhibit, points, varied)
    # Without a column for the scenario, each scenario has its own columns.
    scenarios = [""] if SCENARIO in names else list(dict.fromkeys(point.scenario for point in points))
    shown_columns = [
        (scenario, column)
        for scenario in scenarios
        for figure in exhibit.views
        for column in columns(results, exhibit, figure)
    ]
    rows_by_key = {
        key: (by_scenario, _cells(by_scenario, shown_columns))
        for key, by_scenario in rows(results, exhibit, names).items()
    }
    shown_rows = {key: cells for key, (by_scenario, cells) in rows_by_key.items() if _has_content(by_scenario, cells)}
    places = _places(shown_columns, list(shown_rows.values()))
    shown_columns = [shown_columns[place] for place in places]
    labels = _labels(results, names, list(shown_rows))
    table_rows = tuple(
        row(*label, *(cells[place] for place in places))
        for label, cells in zip(labels, shown_rows.values(), strict=True)
    )
    head = (*(formatting.parameter(name) for name in names), *(column.head for _, column in shown_columns))
    groups = (("", len(names)), *_groups(results, shown_columns, len(scenarios)))
    notes = tuple(_notes(results, exhibit, points, len(rows_by_key) - len(shown_rows)))
    return (Table(exhibit.title, head, table_rows, notes, groups=groups),)


def _cells(by_scenario: dict[str, RowPoints], shown: Sequence[ScenarioColumn]) -> list[Cell]:
    row_points = next(iter(by_scenario.values()))
    return [
        column.cell(by_scenario.get(scenario, RowPoints(scenario)) if scenario else row_points)
        for scenario, column in shown
    ]


def _has_content(by_scenario: dict[str, RowPoints], cells: Sequence[Cell]) -> bool:
    """Whether a row has a point of this run, or a published value."""
    return any(row_points.measured for row_points in by_scenario.values()) or any(_is_figure(cell) for cell in cells)


def _places(shown: Sequence[ScenarioColumn], every: Sequence[Sequence[Cell]]) -> list[int]:
    """The indexes of the columns to show: all measured ones, and published ones with a value."""
    return [
        place
        for place, (_, column) in enumerate(shown)
        if column.origin == MEASURED or any(_is_figure(cells[place]) for cells in every)
    ]


def _is_figure(cell: Cell) -> bool:
    return cell.tone == "number" and cell.text not in ("", BASE)


def _labels(results: RunResults, names: Key, keys: Sequence[Key]) -> Iterator[list[Cell]]:
    """The first cells of each row; only the first row of a scenario has its title."""
    titled: set[str] = set()
    for key in keys:
        cells = []
        for name, value in zip(names, key, strict=True):
            if name == SCENARIO:
                cells.append(Cell(value, "" if value in titled else results.study.scenarios[value].title))
                titled.add(value)
            else:
                cells.append(number(formatting.printed(value)) if value.isdecimal() else Cell(value))
        yield cells


def _groups(results: RunResults, shown: Sequence[ScenarioColumn], scenarios: int) -> Iterator[tuple[str, int]]:
    """The heads above the systems, with the scenario's name where the table has several."""
    texts = []
    for scenario, column in shown:
        title = results.study.scenarios[scenario].title or scenario if scenario and scenarios > 1 else ""
        texts.append(": ".join(part for part in (title, column.group) if part))
    start = 0
    for place in range(1, len(texts) + 1):
        if place == len(texts) or texts[place] != texts[start]:
            yield texts[start], place - start
            start = place


def _notes(results: RunResults, exhibit: Exhibit, points: Sequence[Point], left_out: int) -> Iterator[str]:
    yield INTERVALS
    if left_out:
        left = formatting.count(left_out, "further row")
        yield f"The study in full has {left} here, of which nothing was printed and the scale has no point."
    for system in results.systems:
        if note := stands_for(results, system.name):
            yield f"{system.name} was run {note}."
    kinds = {figure.kind for figure in exhibit.views}
    if "faster" in kinds:
        yield "Percent faster is given for the system that is ahead; where its interval reaches below 0, neither is."
    if "peak" in kinds:
        yield "In brackets: where on the swept parameters the peak was reached."
    if any(figure.metric.startswith("cpu.") for figure in exhibit.views) and results.study.systems_published:
        yield f"CPU measured here is in percent of one core; {PUBLISHED} figures are in the study's own measure."
    yield from notes_of(results, points, [figure.metric for figure in exhibit.views])
