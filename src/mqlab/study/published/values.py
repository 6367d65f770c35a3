"""The published values of a study, read from its published.csv."""

import csv
from dataclasses import dataclass, replace
from io import StringIO
from math import isfinite
from pathlib import Path
from typing import Final

from mqlab.study.errors import StudyError
from mqlab.study.language.text_file import read_text
from mqlab.study.metric import METRICS

COLUMNS: Final = ("study", "table", "system", "scenario", "parameters", "metric", "unit", "value")
# (metric, unit) of published.csv -> the lab's metric and the factor to its unit. Besides metrics: `impact` (the change
# against the base in percent), `ratio` (of two systems), `faster` (by how many percent one is ahead) and `at` (where
# a peak is).
_MEANINGS: Final = {
    ("throughput", "messages/s"): ("rate.work", 1.0),
    ("throughput_received", "messages/s"): ("rate.received", 1.0),
    ("throughput_sent", "messages/s"): ("rate.sent", 1.0),
    ("bytes_per_second", "KB/s"): ("bytes.round_trips", 1000.0),
    ("response_time", "ms"): ("response.mean", 0.001),
    ("cpu_percent", "%"): ("cpu.broker", 1.0),
    ("flow_control_onset", "s"): ("onset", 1.0),
    ("percent_overhead", "%"): ("impact", 1.0),
    ("percent_decrease", "%"): ("impact", -1.0),
    ("ratio", "times"): ("ratio", 1.0),
    ("ratio", "fraction"): ("ratio", 1.0),
    ("ratio", "%"): ("ratio", 0.01),
    ("percent_faster", "%"): ("faster", 1.0),
    ("threads_at_peak", "threads"): ("at", 1.0),
}


@dataclass(frozen=True)
class PublishedValue:
    study: str
    table: str
    system: str
    scenario: str
    parameters: dict[str, str]
    metric: str  # as in the file
    unit: str
    value: float | None  # None if the study printed no number ("N/A")
    text: str  # as printed

    @property
    def meaning(self) -> tuple[str, float] | None:
        """The lab's metric and the factor to its unit, or None."""
        unit = self.unit.partition(" (")[0]  # The brackets hold a note.
        if self.metric in METRICS and METRICS[self.metric].unit == unit:
            return self.metric, 1.0
        return _MEANINGS.get((self.metric, unit))

    @property
    def measure(self) -> str | None:
        """The metric of METRICS that measures the same, or None."""
        meaning = self.meaning
        return meaning[0] if meaning and meaning[0] in METRICS else None

    @property
    def over(self) -> frozenset[str]:
        """The parameters that the value is a peak over: `threads=1..15`."""
        return frozenset(key for key, value in self.parameters.items() if ".." in value)

    def in_lab_units(self) -> "PublishedValue":
        """Return a copy with the number in the lab's unit; `text` stays as printed."""
        if self.meaning is None or self.value is None:
            return self
        # Ten digits: multiplication must not add digits to the printed number.
        return replace(self, value=float(f"{self.value * self.meaning[1]:.10g}"))


def read_published(path: Path, study: str) -> list[PublishedValue]:
    """Return all values of the file in its order. Raises StudyError."""
    lines = csv.reader(StringIO(read_text(path), newline=""), strict=True)
    try:
        if tuple(next(lines, [])) != COLUMNS:
            raise StudyError(f"the first line must be {','.join(COLUMNS)}", path, 1)
        return [_value(path, lines.line_num, study, row) for row in lines]
    except csv.Error as error:
        raise StudyError(f"is not CSV: {error}", path, lines.line_num) from None


def _value(path: Path, line: int, study: str, row: list[str]) -> PublishedValue:
    if len(row) != len(COLUMNS):
        raise StudyError(f"{len(row)} columns, not {len(COLUMNS)} ({', '.join(COLUMNS)})", path, line)
    if not all(cell.isprintable() for cell in row):
        raise StudyError("contains characters that cannot be printed", path, line)
    if row[0] != study:
        raise StudyError(f"a value of the study '{row[0]}' in the file of '{study}'", path, line)
    pairs = [part.partition("=") for part in row[4].split(";") if part]
    if any(not key or not equals for key, equals, _ in pairs):
        raise StudyError(f"parameters: '{row[4]}' is not a list like size=12;producers=1", path, line)
    parameters = {key: value for key, _, value in pairs}
    return PublishedValue(row[0], row[1], row[2], row[3], parameters, row[5], row[6], _number(row[7]), row[7])


def _number(text: str) -> float | None:
    try:
        number = float(text)
    except ValueError:
        return None
    return number if isfinite(number) else None
