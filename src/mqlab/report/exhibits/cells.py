"""Measures as cells: a figure never stands without its interval, its bound, its flag and its system's stamps."""

from collections.abc import Iterable
from typing import Final

from mqlab.pipeline.schema import is_lower_bound
from mqlab.report.data.findings import Findings
from mqlab.report.render import formatting
from mqlab.report.render.content import MEASURED, Cell, number
from mqlab.study import METRICS, Point, PublishedValue
from mqlab.study.metric import is_throughput

ONE_RUN: Final = "one run, no interval"
SAME: Final = "the same in every run"
# Percent: a change whose interval is wider may as well be its opposite.
_WIDEST_CHANGE: Final = 100.0
NOT_PRINTED: Final = "not published"


def system_cell(findings: Findings, name: str, origin: str) -> Cell:
    """A system's name with its origin, and the stamps it must carry wherever it appears."""
    stamps = findings.stamps_of(name) if origin == MEASURED else ()
    return Cell(name, origin, "measured" if origin == MEASURED else "published", stamps)


def own_cell(findings: Findings, name: str) -> Cell:
    """The same in a table whose title says that all of it was measured here."""
    return Cell(name, tone="measured", stamps=findings.stamps_of(name))


def absent(reason: str) -> Cell:
    return Cell(formatting.NOT_AVAILABLE, reason, "absent")


def unknown(reason: str) -> Cell:
    """In place of a figure that says nothing."""
    return Cell(formatting.NOT_KNOWN, reason, "absent")


def why_unknown(metric: str, value: float, ci95: float | None) -> str:
    """Why a figure says nothing: it is a rate of nothing, or its interval is wider than itself. "": it says something.

    `metric` is one of METRICS, or `impact` (a change in percent: near zero it says a lot) or `ratio`.
    """
    if metric == "impact":
        return "the interval is wider than 100 %" if ci95 is not None and ci95 >= _WIDEST_CHANGE else ""
    if value == 0 and is_throughput(metric):
        return "nothing was counted"
    return "the interval is wider than the figure" if ci95 is not None and ci95 >= abs(value) > 0 else ""


def measured(findings: Findings, system: str, point: Point, metric: str, unit: bool = True, brief: bool = True) -> Cell:
    """The figure with its interval as small print, or n/a with the reason. `unit` is off where the head names it."""
    found = findings.measure(system, point, metric)
    if found is None:
        return absent(findings.absence(system, point, brief))
    if why := why_unknown(metric, found.value, found.ci95):
        return unknown(why)
    text = figure_text(found.value, found.unit if unit else "", found.lower_bound, findings.busy(system, point))
    return number(text, half_width(found.value, found.unit if unit else "", found.ci95))


def printed(value: PublishedValue | None, unit: bool = True) -> Cell:
    """A published value as it was printed; its unit only where the head does not name it."""
    if value is None:
        return absent(NOT_PRINTED)
    if value.value is None:
        return absent(f"printed as {value.text}")
    name = value.unit.partition(" (")[0] if unit else ""
    return number(f"{formatting.printed(value.text)} {name}".rstrip())


def figure_text(value: float, unit: str, lower_bound: bool, busy: bool) -> str:
    """A figure in the unit that suits it ("": in the one that the head names), with the marks that it must carry."""
    text = formatting.quantity(value, unit)
    return f"{formatting.LOWER_BOUND + ' ' if lower_bound else ''}{text}{' ' + formatting.FLAG if busy else ''}"


def half_width(value: float, unit: str, ci95: float | None) -> str:
    """The interval as small print, in the unit that suits the figure."""
    if ci95 is None:
        return ONE_RUN
    factor, _ = formatting.suited(value, unit)
    half = formatting.number(ci95 / factor)
    return SAME if half == "0" else f"{formatting.PLUS_MINUS} {half}"


def needs_unit(metric: str) -> bool:
    """Whether a figure stands with a unit of its own: one that suits its size."""
    return METRICS[metric].unit in formatting.SCALED


def flag_notes(findings: Findings, points: Iterable[Point]) -> tuple[str, ...]:
    """What the flag means, where one of these points carries it; for a table or figure that shows them."""
    if any(findings.busy(system.name, point) for point in points for system in findings.systems):
        return (FLAG_NOTE,)
    return ()


def bound_mark(metric: str, bound_by: str | None) -> str:
    return f"{formatting.LOWER_BOUND} " if is_lower_bound(metric, bound_by) else ""


FLAG_NOTE: Final = (
    f"{formatting.FLAG} In these runs an agent used more of its core than the study allows its clients: the figure may "
    "say more of the clients than of the system."
)
