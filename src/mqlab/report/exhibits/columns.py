"""The columns of a table: for each metric, one column for every system, published and measured side by side."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Final

from mqlab.pipeline.schema import ComparisonRow
from mqlab.report.data.pairing import Subject, compared_systems, pairs
from mqlab.report.data.run_results import RunResults
from mqlab.report.data.selection import RowPoints
from mqlab.report.exhibits import cells
from mqlab.report.render import formatting
from mqlab.report.render.content import MEASURED, PUBLISHED, Cell, number
from mqlab.study import METRICS, Exhibit, PublishedValue
from mqlab.study.exhibit import MetricView
from mqlab.study.travel import MESSAGE_BY_MESSAGE, PACKED

ORIGINS: Final = (PUBLISHED, MEASURED)
# The text in place of an impact, for the point that the others are compared with.
BASE: Final = "base"


@dataclass(frozen=True)
class TableColumn:
    """`group` is the common head of all columns of one metric."""

    group: str
    head: str
    origin: str
    cell: Callable[[RowPoints], Cell]


@dataclass(frozen=True)
class ColumnGroup:
    """The columns of one metric in a table; `table` is its title, which selects among several published values."""

    results: RunResults
    figure: MetricView
    table: str

    @property
    def unit(self) -> bool:
        return cells.needs_unit(self.figure.metric)

    @property
    def head(self) -> str:
        return self.figure.head or _HEADS[self.figure.kind](self.figure)

    def columns(self) -> list[TableColumn]:
        return _COLUMNS[self.figure.kind](self)

    def for_each_system(self, cell: Callable[["ColumnGroup", Subject, RowPoints], Cell]) -> list[TableColumn]:
        every = [subject for pair in pairs(self.results) for subject in pair.subjects]
        return [
            TableColumn(self.head, subject_head(self.results, subject), subject[1], partial(cell, self, subject))
            for subject in dict.fromkeys(every)
        ]

    def published(self, system: str, row: RowPoints, metric: str) -> PublishedValue | None:
        """The value in this table that was published for the declared point of the row."""
        study, figure, point = self.results.study, self.figure, row.declared
        return None if point is None else study.find_published(system, point, metric, figure.over, self.table)

    def percent(self) -> bool:
        """Whether a ratio is group in percent: where the head that the study gave ends with a percent sign."""
        return self.figure.head.rstrip().endswith("%")


def columns(results: RunResults, exhibit: Exhibit, figure: MetricView) -> list[TableColumn]:
    return ColumnGroup(results, figure, exhibit.title).columns()


def subject_head(results: RunResults, subject: Subject) -> str:
    return cells.system_cell(results, *subject).full_text


def value_cell(group: ColumnGroup, subject: Subject, row: RowPoints) -> Cell:
    system, origin = subject
    metric = group.figure.metric
    if origin == PUBLISHED:
        point = row.declared
        published = point and group.results.study.find_published(system, point, metric, table=group.table)
        return cells.printed(published or None, group.unit)
    if row.point is None:
        return cells.absent(row.absence(group.results))
    return cells.measured(group.results, system, row.point, metric, unit=group.unit)


def impact_cell(group: ColumnGroup, subject: Subject, row: RowPoints) -> Cell:
    system, origin = subject
    point = row.declared if origin == PUBLISHED else row.point
    if point is None:
        return cells.absent(row.absence(group.results))
    if point.base is None:
        return Cell(BASE, tone="number")
    if origin == PUBLISHED:
        change = group.results.study.published_value(system, point, "impact", table=group.table)
        return cells.absent(cells.NOT_PRINTED) if change is None else number(formatting.signed(change))
    impact = group.results.impact(system, point, group.figure.metric)
    if impact is None:
        return cells.absent(group.results.absence(system, point, brief=True))
    if why := cells.why_unknown("impact", impact.value, impact.ci95):
        return cells.unknown(why)
    flags = group.results.flags(system, point)
    return number(f"{formatting.signed(impact.value)}{flags}", cells.half_width(impact.value, "", impact.ci95))


def peak_cell(group: ColumnGroup, subject: Subject, row: RowPoints) -> Cell:
    """The figure, and in brackets where on the swept parameters it was reached."""
    system, origin = subject
    results, figure = group.results, group.figure
    if origin == PUBLISHED:
        if row.declared is None:
            return cells.absent(row.absence(results))
        published = cells.printed(group.published(system, row, figure.metric), group.unit)
        at = group.published(system, row, "at")
        return published if at is None or published.tone == "absent" else number(f"{published.text} ({at.text})")
    peak = results.peak(system, row.measured, figure.metric, figure.over)
    if peak is None:
        return cells.absent(
            results.absence(system, row.measured[0], brief=True) if row.measured else row.absence(results)
        )
    if why := cells.why_unknown(peak.metric, peak.value, peak.ci95):
        return cells.unknown(why)
    flags = next((results.flags(system, point) for point in row.measured if point.name == peak.point), "")
    unit = peak.unit if group.unit else ""
    mark = cells.bound_mark(peak.metric, peak.bound_by)
    text = f"{mark}{cells.figure_text(peak.value, unit, False, flags)} ({formatting.setting(peak.at)})"
    return number(text, cells.half_width(peak.value, unit, peak.ci95))


def ratio_cell(group: ColumnGroup, origin: str, systems: tuple[str, str], row: RowPoints) -> Cell:
    if origin == PUBLISHED:
        published = group.published(" / ".join(systems), row, "ratio")
        if published is None:
            return cells.printed(None)
        sign = "%" if published.unit.startswith("%") else formatting.TIMES
        return number(f"{cells.printed(published, unit=False).text} {sign}")
    ratio = _comparison(group, systems, row)
    if isinstance(ratio, Cell):
        return ratio
    if why := cells.why_unknown("ratio", ratio.ratio, ratio.ci95):
        return cells.unknown(why)
    factor, sign = (100.0, "%") if group.percent() else (1.0, formatting.TIMES)
    half = None if ratio.ci95 is None else ratio.ci95 * factor
    text = f"{formatting.number(ratio.ratio * factor)} {sign}{_flags(group, systems, row)}"
    return number(text, cells.half_width(1.0, "", half))


def faster_cell(group: ColumnGroup, subject: Subject, other: str, row: RowPoints) -> Cell:
    """By how many percent a system is faster than the other; empty where it is not."""
    system, origin = subject
    if origin == PUBLISHED:
        published = group.published(f"{system} / {other}", row, "faster")
        # A value is published for both systems: it belongs to the first that it names.
        return (
            cells.printed(published, unit=False)
            if published and published.system.startswith(system)
            else Cell("", tone="number")
        )
    ahead = _comparison(group, (system, other), row)
    if isinstance(ahead, Cell):
        return ahead
    if ahead.faster != system:
        return Cell("", tone="number")
    low, high = ahead.percent_low, ahead.percent_high
    text = f"{formatting.number(ahead.percent_faster)}{_flags(group, (system, other), row)}"
    if low is None or high is None:
        return number(text, cells.half_width(1.0, "", None))
    return number(text, f"{formatting.number(low)} to {formatting.number(high)}")


def _flags(group: ColumnGroup, systems: tuple[str, str], row: RowPoints) -> str:
    """Of both systems, each flag once."""
    flags = (group.results.flags(system, point).split() for system in systems for point in row.measured)
    return "".join(f" {flag}" for flag in dict.fromkeys(flag for some in flags for flag in some))


def _comparison(group: ColumnGroup, systems: tuple[str, str], row: RowPoints) -> ComparisonRow | Cell:
    """The comparison of two systems in this row, or the cell with the reason why there is none."""
    results, figure = group.results, group.figure
    if len({system in results.packed for system in systems}) > 1:
        return cells.absent(f"{PACKED} is not compared with {MESSAGE_BY_MESSAGE}")
    if figure.over:
        comparison = results.peak_comparison(*systems, row.measured, figure.metric, figure.over)
    else:
        comparison = results.comparison(*systems, row.point, figure.metric) if row.point else None
    if comparison is not None:
        return comparison
    if not row.measured or not (figure.over or row.point):
        return cells.absent(row.absence(results))
    missing = [name for name in systems if results.absence(name, row.measured[0]) != "not measured"]
    return cells.absent(results.absence(missing[0] if missing else systems[0], row.measured[0], brief=True))


def _ratio_columns(group: ColumnGroup) -> list[TableColumn]:
    columns = []
    for origin in ORIGINS:
        systems = compared_systems(group.results, origin)
        if systems is not None:
            head = f"{systems[0]} / {systems[1]} ({origin})"
            columns.append(TableColumn(group.head, head, origin, partial(ratio_cell, group, origin, systems)))
    return columns


def _faster_columns(group: ColumnGroup) -> list[TableColumn]:
    columns = []
    for origin in ORIGINS:
        systems = compared_systems(group.results, origin)
        for system, other in (systems, systems[::-1]) if systems else ():
            head = subject_head(group.results, (system, origin))
            columns.append(TableColumn(group.head, head, origin, partial(faster_cell, group, (system, origin), other)))
    return columns


def _named(figure: MetricView) -> str:
    unit = METRICS[figure.metric].unit
    return formatting.capital(formatting.metric(figure.metric)) + ("" if unit in formatting.SCALED else f", {unit}")


_HEADS: Final[dict[str, Callable[[MetricView], str]]] = {
    "value": _named,
    "peak": lambda figure: f"{_named(figure)}, peak ({f' {formatting.TIMES} '.join(figure.over)})",
    "ratio": lambda figure: f"{formatting.capital(formatting.metric(figure.metric))}: ratio",
    "faster": lambda figure: f"{formatting.capital(formatting.metric(figure.metric))}: % faster",
    "impact": lambda figure: f"{formatting.capital(formatting.metric(figure.metric))}: impact, %",
}
_COLUMNS: Final[dict[str, Callable[[ColumnGroup], list[TableColumn]]]] = {
    "value": lambda group: group.for_each_system(value_cell),
    "peak": lambda group: group.for_each_system(peak_cell),
    "impact": lambda group: group.for_each_system(impact_cell),
    "ratio": _ratio_columns,
    "faster": _faster_columns,
}
