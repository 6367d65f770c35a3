"""The columns of a table: for each figure that it shows, one for every system, published and measured side by side."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Final

from mqlab.pipeline.schema import ComparisonRow
from mqlab.report.data.findings import Findings
from mqlab.report.data.pairing import Subject, pairs, two
from mqlab.report.data.selection import Spot
from mqlab.report.exhibits.cells import (
    NOT_PRINTED,
    absent,
    bound_mark,
    figure_text,
    half_width,
    measured,
    needs_unit,
    printed,
    system_cell,
    unknown,
    why_unknown,
)
from mqlab.report.render import formatting
from mqlab.report.render.content import MEASURED, PUBLISHED, Cell, number
from mqlab.study import METRICS, Exhibit
from mqlab.study.exhibit import MetricView

ORIGINS: Final = (PUBLISHED, MEASURED)
# Stands where a change would: of the point that the others are compared with.
BASE: Final = "base"


@dataclass(frozen=True)
class Column:
    """`group` stands above the heads of all columns of one figure."""

    group: str
    head: str
    origin: str
    cell: Callable[[Spot], Cell]


@dataclass(frozen=True)
class Shown:
    """A figure of an exhibit; `table` is its title, which says which of several printed values is meant."""

    findings: Findings
    figure: MetricView
    table: str

    @property
    def unit(self) -> bool:
        return needs_unit(self.figure.metric)

    @property
    def group(self) -> str:
        return self.figure.head or _WORDS[self.figure.kind](self.figure)

    def columns(self) -> list[Column]:
        return _COLUMNS[self.figure.kind](self)

    def for_each_system(self, cell: Callable[["Shown", Subject, Spot], Cell]) -> list[Column]:
        every = [subject for pair in pairs(self.findings) for subject in pair.subjects]
        return [
            Column(self.group, subject_head(self.findings, subject), subject[1], partial(cell, self, subject))
            for subject in dict.fromkeys(every)
        ]

    def percent(self) -> bool:
        """Whether a ratio is shown in percent: where the study's own head says so."""
        return self.figure.head.rstrip().endswith("%")


def columns(findings: Findings, exhibit: Exhibit, figure: MetricView) -> list[Column]:
    return Shown(findings, figure, exhibit.title).columns()


def subject_head(findings: Findings, subject: Subject) -> str:
    return system_cell(findings, *subject).words


def value_cell(shown: Shown, subject: Subject, spot: Spot) -> Cell:
    system, origin = subject
    metric = shown.figure.metric
    if origin == PUBLISHED:
        point = spot.declared
        found = point and shown.findings.study.find_published(system, point, metric, table=shown.table)
        return printed(found or None, shown.unit)
    if spot.point is None:
        return absent(spot.absence(shown.findings))
    return measured(shown.findings, system, spot.point, metric, unit=shown.unit)


def impact_cell(shown: Shown, subject: Subject, spot: Spot) -> Cell:
    system, origin = subject
    point = spot.declared if origin == PUBLISHED else spot.point
    if point is None:
        return absent(spot.absence(shown.findings))
    if point.base is None:
        return Cell(BASE, tone="number")
    if origin == PUBLISHED:
        change = shown.findings.study.published_value(system, point, "impact", table=shown.table)
        return absent(NOT_PRINTED) if change is None else number(formatting.signed(change))
    found = shown.findings.impact(system, point, shown.figure.metric)
    if found is None:
        return absent(shown.findings.absence(system, point, brief=True))
    if why := why_unknown("impact", found.value, found.ci95):
        return unknown(why)
    flag = f" {formatting.FLAG}" if shown.findings.busy(system, point) else ""
    return number(f"{formatting.signed(found.value)}{flag}", half_width(found.value, "", found.ci95))


def peak_cell(shown: Shown, subject: Subject, spot: Spot) -> Cell:
    """The figure, and in brackets where on the swept parameters it was reached."""
    system, origin = subject
    findings, figure = shown.findings, shown.figure
    if origin == PUBLISHED:
        point = spot.declared
        if point is None:
            return absent(spot.absence(findings))
        found = printed(
            findings.study.find_published(system, point, figure.metric, figure.over, shown.table), shown.unit
        )
        at = findings.study.find_published(system, point, "at", figure.over, shown.table)
        return found if at is None or found.tone == "absent" else number(f"{found.text} ({at.text})")
    peak = findings.peak(system, spot.ours, figure.metric, figure.over)
    if peak is None:
        return absent(findings.absence(system, spot.ours[0], brief=True) if spot.ours else spot.absence(findings))
    if why := why_unknown(peak.metric, peak.value, peak.ci95):
        return unknown(why)
    busy = any(findings.busy(system, point) for point in spot.ours if point.name == peak.point)
    unit = peak.unit if shown.unit else ""
    mark = bound_mark(peak.metric, peak.bound_by)
    text = f"{mark}{figure_text(peak.value, unit, False, busy)} ({formatting.setting(peak.at)})"
    return number(text, half_width(peak.value, unit, peak.ci95))


def ratio_cell(shown: Shown, origin: str, systems: tuple[str, str], spot: Spot) -> Cell:
    findings, figure = shown.findings, shown.figure
    if origin == PUBLISHED:
        point = spot.declared
        found = point and findings.study.find_published(" / ".join(systems), point, "ratio", figure.over, shown.table)
        if not found:
            return printed(None)
        sign = "%" if found.unit.startswith("%") else formatting.TIMES
        return number(f"{printed(found, unit=False).text} {sign}")
    ratio = _comparison(shown, systems, spot)
    if isinstance(ratio, Cell):
        return ratio
    if why := why_unknown("ratio", ratio.ratio, ratio.ci95):
        return unknown(why)
    factor, sign = (100.0, "%") if shown.percent() else (1.0, formatting.TIMES)
    half = None if ratio.ci95 is None else ratio.ci95 * factor
    return number(f"{formatting.number(ratio.ratio * factor)} {sign}", half_width(1.0, "", half))


def faster_cell(shown: Shown, subject: Subject, other: str, spot: Spot) -> Cell:
    """How many percent a system is ahead of the other; empty where it is not ahead."""
    system, origin = subject
    findings, figure = shown.findings, shown.figure
    if origin == PUBLISHED:
        point = spot.declared
        found = point and findings.study.find_published(
            f"{system} / {other}", point, "faster", figure.over, shown.table
        )
        # The value is found whoever is asked about: it belongs to the system that it names first.
        return printed(found, unit=False) if found and found.system.startswith(system) else Cell("", tone="number")
    ahead = _comparison(shown, (system, other), spot)
    if isinstance(ahead, Cell):
        return ahead
    if ahead.faster != system:
        return Cell("", tone="number")
    low, high = ahead.percent_low, ahead.percent_high
    if low is None or high is None:
        return number(formatting.number(ahead.percent_faster), half_width(1.0, "", None))
    return number(formatting.number(ahead.percent_faster), f"{formatting.number(low)} to {formatting.number(high)}")


def _comparison(shown: Shown, systems: tuple[str, str], spot: Spot) -> ComparisonRow | Cell:
    """The comparison of the two in this row, or the cell that says why there is none."""
    findings, figure = shown.findings, shown.figure
    if figure.over:
        found = findings.peak_comparison(*systems, spot.ours, figure.metric, figure.over)
    else:
        found = findings.comparison(*systems, spot.point, figure.metric) if spot.point else None
    if found is not None:
        return found
    if not spot.ours or not (figure.over or spot.point):
        return absent(spot.absence(findings))
    missing = [name for name in systems if findings.absence(name, spot.ours[0]) != "not measured"]
    return absent(findings.absence(missing[0] if missing else systems[0], spot.ours[0], brief=True))


def _ratio_columns(shown: Shown) -> list[Column]:
    found = []
    for origin in ORIGINS:
        systems = two(shown.findings, origin)
        if systems is not None:
            head = f"{systems[0]} / {systems[1]} ({origin})"
            found.append(Column(shown.group, head, origin, partial(ratio_cell, shown, origin, systems)))
    return found


def _faster_columns(shown: Shown) -> list[Column]:
    found = []
    for origin in ORIGINS:
        systems = two(shown.findings, origin)
        for system, other in (systems, systems[::-1]) if systems else ():
            head = subject_head(shown.findings, (system, origin))
            found.append(Column(shown.group, head, origin, partial(faster_cell, shown, (system, origin), other)))
    return found


def _named(figure: MetricView) -> str:
    unit = METRICS[figure.metric].unit
    return formatting.capital(formatting.metric(figure.metric)) + ("" if unit in formatting.SCALED else f", {unit}")


_WORDS: Final[dict[str, Callable[[MetricView], str]]] = {
    "value": _named,
    "peak": lambda figure: f"{_named(figure)}, peak ({f' {formatting.TIMES} '.join(figure.over)})",
    "ratio": lambda figure: f"{formatting.capital(formatting.metric(figure.metric))}: ratio",
    "faster": lambda figure: f"{formatting.capital(formatting.metric(figure.metric))}: % faster",
    "impact": lambda figure: f"{formatting.capital(formatting.metric(figure.metric))}: impact, %",
}
_COLUMNS: Final[dict[str, Callable[[Shown], list[Column]]]] = {
    "value": lambda shown: shown.for_each_system(value_cell),
    "peak": lambda shown: shown.for_each_system(peak_cell),
    "impact": lambda shown: shown.for_each_system(impact_cell),
    "ratio": _ratio_columns,
    "faster": _faster_columns,
}
