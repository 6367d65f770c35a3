"""Measures as cells: a figure never stands without its interval, its bound and its system's stamps."""

from typing import Final

from mqlab.report import words
from mqlab.report.content import MEASURED, Cell, number
from mqlab.report.findings import Findings, Measure
from mqlab.study import Point

ONE_RUN: Final = "one run, no interval"


def system_cell(findings: Findings, name: str, origin: str) -> Cell:
    """A system's name with its origin, and the stamps it must carry wherever it appears."""
    stamps = findings.stamps_of(name) if origin == MEASURED else ()
    return Cell(name, origin, "measured" if origin == MEASURED else "published", stamps)


def own_cell(findings: Findings, name: str) -> Cell:
    """The same in a table whose title says that all of it was measured here."""
    return Cell(name, tone="measured", stamps=findings.stamps_of(name))


def absent(reason: str) -> Cell:
    return Cell(words.NOT_AVAILABLE, reason, "absent")


def measured(findings: Findings, system: str, point: Point, metric: str, unit: bool = True, brief: bool = True) -> Cell:
    """The figure with its interval as small print, or n/a with the reason. `unit` is off where the head names it."""
    found = findings.measure(system, point, metric)
    return absent(findings.absence(system, point, brief)) if found is None else measure_cell(found, unit)


def measure_cell(measure: Measure, unit: bool = True) -> Cell:
    # Without its unit beside it, a figure stays in the one that the head names.
    factor, name = words.suited(measure.value, measure.unit) if unit else (1.0, "")
    text = f"{words.number(measure.value / factor)} {name}".rstrip()
    half = ONE_RUN if measure.ci95 is None else f"{words.PLUS_MINUS} {words.number(measure.ci95 / factor)}"
    return number(f"{words.LOWER_BOUND} {text}" if measure.lower_bound else text, half)
