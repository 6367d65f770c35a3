"""The published values of a study, read from its published.csv, and their match with points by their parameters."""

import csv
import re
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, replace
from io import StringIO
from math import isfinite
from pathlib import Path
from typing import Final

from mqlab.study.errors import StudyError
from mqlab.study.language.text_file import read_text
from mqlab.study.language.units import format_size
from mqlab.study.metric import METRICS
from mqlab.study.point import Point

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
# Parameters of published.csv whose names differ from the lab's.
_RENAMED: Final = {"ack": "acknowledge", "tx_size": "transaction", "pairs": "traced"}
# Parameters that must be equal. The scenario fixes all others, or a scale may shorten them (`messages`).
_COMPARED: Final = frozenset(
    ("size", "persistent", "durable", "requesters", "clients", "threads", "preload", "producers", "consumers",
     "acknowledge", "transaction", "trace", "traced", "api_trace", "queue_limit", "destinations")
)  # fmt: skip
_ABSENT: Final = ""


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


class PublishedEntry:
    """A published value, with the parameters that a point must have to match it."""

    def __init__(self, value: PublishedValue) -> None:
        self.value = value
        self._parameters = lab_parameters(value.parameters)
        # `clients=6;threads=1;aggregate=max` is the value of a point, and the peak of any sweep that contains it.
        self._is_peak = value.parameters.get("aggregate") == "max" and not value.over

    def matches(self, point: Point, metric: str, over: Set[str] = frozenset()) -> bool:
        """Whether it is the value of that metric at that point; with `over`, at the peak over these parameters."""
        meaning = self.value.meaning
        if meaning is None or _same_rate(meaning[0], point) != _same_rate(metric, point):
            return False
        if over != self.value.over and not (self._is_peak and over <= self._parameters.keys()):
            return False
        return all(_parameter(point, key) == value for key, value in self._parameters.items() if key not in over)


class PublishedMatcher:
    """Finds the published value of a point. `names`: scenario -> its names in published.csv."""

    def __init__(
        self, values: Sequence[PublishedValue], systems: Sequence[str], names: Mapping[str, Sequence[str]]
    ) -> None:
        self._names = names
        self._entries: dict[tuple[str, str], list[PublishedEntry]] = {}
        for value in values:
            if subject := subject_of(value, systems):
                self._entries.setdefault((subject, value.scenario), []).append(PublishedEntry(value))

    def find(
        self, system: str, point: Point, metric: str, over: Sequence[str] = (), table: str = ""
    ) -> PublishedValue | None:
        """See Study.find_published."""
        values = self._matching(system, point, metric, over)
        if not values and metric == "faster":
            values = self._matching(" / ".join(reversed(system.split(" / "))), point, metric, over)
        if not values:
            return None
        return next((value for value in values if reproduces(table, value.table)), values[0]).in_lab_units()

    def _matching(self, system: str, point: Point, metric: str, over: Sequence[str]) -> list[PublishedValue]:
        return [
            entry.value
            for name in self._names[point.scenario]
            for entry in self._entries.get((system, name), ())
            if entry.matches(point, metric, frozenset(over))
        ]


def subject_of(value: PublishedValue, systems: Sequence[str]) -> str:
    """Return the system, or "FIRST / SECOND" for a comparison; "" if these are not systems of the study."""
    parts = re.split(r" / | vs ", value.system)
    return " / ".join(parts) if len(parts) <= 2 and all(part in systems for part in parts) else ""


def reproduces(title: str, table: str) -> bool:
    """Whether an exhibit of that title reproduces that table: "Table 4: ..." does so for "Table 4" and its caption."""
    name = table.removesuffix(" caption")
    return title == name or (title.startswith(name) and not title[len(name)].isalnum())


def lab_parameters(published: Mapping[str, str]) -> dict[str, str]:
    """Return the parameters of a published value that a point must have, with the lab's names and values."""
    parameters = {_RENAMED.get(key, key): value for key, value in published.items()}
    if "size" in parameters and parameters["size"].isdecimal():
        parameters["size"] = format_size(int(parameters["size"]))
    for role in ("producers", "consumers"):
        # The study measured one side only; the lab needs the other side to fill or empty the queue.
        if parameters.get(role) == "0":
            del parameters[role]
    if parameters.get("acknowledge") in ("n/a", "transacted"):
        del parameters["acknowledge"]
    if "durable" in parameters:
        parameters["durable"] = parameters["durable"].partition("(")[0]
    return {key: value for key, value in parameters.items() if key in _COMPARED}


def _parameter(point: Point, key: str) -> str:
    if key == "destinations":
        return point.parameters.get("topics") or point.parameters.get("queues", _ABSENT)
    return point.parameters.get(key, _ABSENT)


def _same_rate(metric: str, point: Point) -> str:
    return point.work if metric == "rate.work" else metric
