"""The values a study printed, from its published.csv."""

import csv
from dataclasses import dataclass
from io import StringIO
from math import isfinite
from pathlib import Path
from typing import Final

from mqlab.study.error import StudyError
from mqlab.study.metric import METRICS
from mqlab.study.text_file import read_text

COLUMNS: Final = ("study", "table", "system", "scenario", "parameters", "metric", "unit", "value")
# What the studies count, in the words of the lab's own metrics. Only the same thing in the same unit is compared.
_MEASURES: Final = {
    ("throughput_received", "messages/s"): "rate.received",
    ("throughput_sent", "messages/s"): "rate.sent",
}


@dataclass(frozen=True)
class PublishedValue:
    study: str
    table: str
    system: str
    scenario: str
    parameters: dict[str, str]
    metric: str  # as the file says it
    unit: str
    value: float | None  # None where no number was printed ("N/A")
    text: str  # as it was printed

    @property
    def measure(self) -> str | None:
        """The lab's metric that counts the same thing in the same unit; None where there is none."""
        if METRICS.get(self.metric) == self.unit:
            return self.metric
        return _MEASURES.get((self.metric, self.unit))


def read_published(path: Path, study: str) -> list[PublishedValue]:
    """All values of that file, in its order. Raises StudyError."""
    lines = csv.reader(StringIO(read_text(path), newline=""), strict=True)
    try:
        _check_header(path, next(lines, []))
        return [_value(path, lines.line_num, study, row) for row in lines]
    except csv.Error as error:
        raise StudyError(f"is not CSV: {error}", path, lines.line_num) from None


def _check_header(path: Path, header: list[str]) -> None:
    if tuple(header) != COLUMNS:
        raise StudyError(f"the first line must be {','.join(COLUMNS)}", path, 1)


def _value(path: Path, line: int, study: str, row: list[str]) -> PublishedValue:
    if len(row) != len(COLUMNS):
        raise StudyError(f"{len(row)} columns, not {len(COLUMNS)} ({', '.join(COLUMNS)})", path, line)
    if not all(cell.isprintable() for cell in row):
        raise StudyError("holds signs that cannot be printed", path, line)
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
