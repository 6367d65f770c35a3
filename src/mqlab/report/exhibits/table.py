"""The table of a study: a row for each value of the parameters it names, and its own columns."""

from collections.abc import Iterator, Sequence
from typing import Final

from mqlab.report.data.findings import Findings
from mqlab.report.data.pairing import stands_for
from mqlab.report.data.selection import SCENARIO, Key, Spot, row_names, rows
from mqlab.report.exhibits.cells import flag_notes
from mqlab.report.exhibits.columns import BASE, Column, columns
from mqlab.report.render import formatting
from mqlab.report.render.content import MEASURED, PUBLISHED, Block, Cell, Table, number, row
from mqlab.study import Exhibit, Point

INTERVALS: Final = (
    f"{formatting.PLUS_MINUS} is the half width of the 95 % interval; {formatting.LOWER_BOUND} marks a figure "
    "that the agents bounded."
)


Shown = tuple[str, Column]  # a column, and the scenario it is about ("": that of the row)


def table(findings: Findings, exhibit: Exhibit, _: str) -> tuple[Block, ...]:
    points = [*exhibit.select_points(findings.declared), *exhibit.select_points(findings.points)]
    apart = [name for figure in exhibit.views for name in figure.over]
    names = row_names(exhibit, points, apart)
    # Without a column for the scenario, each scenario has columns of its own.
    scenarios = [""] if SCENARIO in names else list(dict.fromkeys(point.scenario for point in points))
    shown = [
        (scenario, column)
        for scenario in scenarios
        for figure in exhibit.views
        for column in columns(findings, exhibit, figure)
    ]
    found = {key: (spots, _cells(spots, shown)) for key, spots in rows(findings, exhibit, names).items()}
    kept = {key: cells for key, (spots, cells) in found.items() if _tells(spots, cells)}
    places = _places(shown, list(kept.values()))
    shown = [shown[place] for place in places]
    labels = _labels(findings, names, list(kept))
    lines = tuple(
        row(*label, *(cells[place] for place in places)) for label, cells in zip(labels, kept.values(), strict=True)
    )
    head = (*(formatting.parameter(name) for name in names), *(column.head for _, column in shown))
    groups = (("", len(names)), *_groups(findings, shown, len(scenarios)))
    notes = tuple(_notes(findings, exhibit, points, len(found) - len(kept)))
    return (Table(exhibit.title, head, lines, notes, groups=groups),)


def _cells(spots: dict[str, Spot], shown: Sequence[Shown]) -> list[Cell]:
    only = next(iter(spots.values()))
    return [column.cell(spots.get(scenario, Spot(scenario)) if scenario else only) for scenario, column in shown]


def _tells(spots: dict[str, Spot], cells: Sequence[Cell]) -> bool:
    """Whether a row is of this run, or has a printed figure; others a shorter scale leaves with nothing to show."""
    return any(spot.ours for spot in spots.values()) or any(_is_figure(cell) for cell in cells)


def _places(shown: Sequence[Shown], every: Sequence[Sequence[Cell]]) -> list[int]:
    """The columns that are shown: all that were measured here, and those in which anything was published."""
    return [
        place
        for place, (_, column) in enumerate(shown)
        if column.origin == MEASURED or any(_is_figure(cells[place]) for cells in every)
    ]


def _is_figure(cell: Cell) -> bool:
    return cell.tone == "number" and cell.text not in ("", BASE)


def _labels(findings: Findings, names: Key, keys: Sequence[Key]) -> Iterator[list[Cell]]:
    """What each row is; the title of a scenario stands with the first of its rows."""
    titled: set[str] = set()
    for key in keys:
        cells = []
        for name, value in zip(names, key, strict=True):
            if name == SCENARIO:
                cells.append(Cell(value, "" if value in titled else findings.study.scenarios[value].title))
                titled.add(value)
            else:
                cells.append(number(formatting.printed(value)) if value.isdecimal() else Cell(value))
        yield cells


def _groups(findings: Findings, shown: Sequence[Shown], scenarios: int) -> Iterator[tuple[str, int]]:
    """The figures above the systems; with a scenario's name where the table holds several."""
    texts = []
    for scenario, column in shown:
        title = findings.study.scenarios[scenario].title or scenario if scenario and scenarios > 1 else ""
        texts.append(": ".join(part for part in (title, column.group) if part))
    start = 0
    for place in range(1, len(texts) + 1):
        if place == len(texts) or texts[place] != texts[start]:
            yield texts[start], place - start
            start = place


def _notes(findings: Findings, exhibit: Exhibit, points: Sequence[Point], left_out: int) -> Iterator[str]:
    """What a reader of the figures must know; only what applies."""
    yield INTERVALS
    if left_out:
        left = formatting.count(left_out, "further row")
        yield f"The study in full has {left} here, of which nothing was printed and the scale has no point."
    for system in findings.systems:
        if said := stands_for(findings, system.name):
            yield f"{system.name} was run {said}."
    kinds = {figure.kind for figure in exhibit.views}
    if "faster" in kinds:
        yield "Percent faster is given for the system that is ahead; where its interval reaches below 0, neither is."
    if "peak" in kinds:
        yield "In brackets: where on the swept parameters the peak was reached."
    if any(figure.metric.startswith("cpu.") for figure in exhibit.views) and findings.study.systems_published:
        yield f"CPU measured here is in percent of one core; {PUBLISHED} figures are in the study's own measure."
    yield from flag_notes(findings, points)
