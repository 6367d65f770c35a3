"""Matching of published values with points, by their parameters."""

import re
from collections.abc import Mapping, Sequence, Set
from typing import Final

from mqlab.study.language.units import format_size
from mqlab.study.point import Point
from mqlab.study.published.values import PublishedValue

# Parameters of published.csv whose names differ from the lab's.
_RENAMED: Final = {"ack": "acknowledge", "tx_size": "transaction", "pairs": "traced"}
# Parameters that must be equal. The scenario fixes all others, or a scale may shorten them (`messages`).
_COMPARED: Final = frozenset(
    ("size", "persistent", "durable", "requesters", "clients", "threads", "preload", "producers", "consumers",
     "acknowledge", "transaction", "trace", "traced", "api_trace", "queue_limit", "destinations")
)  # fmt: skip
_ABSENT: Final = ""


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
