"""Finding what a study printed for a point: published values and points are matched by their parameters."""

import re
from collections.abc import Mapping, Sequence, Set
from typing import Final

from mqlab.study.language.units import format_size
from mqlab.study.point import Point
from mqlab.study.published.values import PublishedValue

# Words of published.csv that differ from the lab's.
_RENAMED: Final = {"ack": "acknowledge", "tx_size": "transaction", "pairs": "traced"}
# What must agree. All else describes: the scenario fixes it, or a scale may shorten it (`messages`).
_COMPARED: Final = frozenset(
    ("size", "persistent", "durable", "requesters", "clients", "threads", "preload", "producers", "consumers",
     "acknowledge", "transaction", "trace", "traced", "api_trace", "queue_limit", "destinations")
)  # fmt: skip
_ABSENT: Final = ""


class PublishedEntry:
    """A published value, with the parameters that a point must have in the lab's words."""

    def __init__(self, value: PublishedValue) -> None:
        self.value = value
        self._wanted = words(value.parameters)
        # `clients=6;threads=1;aggregate=max` is the value of a point, and the peak of any sweep that it is in.
        self._greatest_at = value.parameters.get("aggregate") == "max" and not value.over

    def matches(self, point: Point, metric: str, over: Set[str] = frozenset()) -> bool:
        """Whether it says that metric of that point; with `over`, of the peak over these parameters around it."""
        meaning = self.value.meaning
        if meaning is None or _same_rate(meaning[0], point) != _same_rate(metric, point):
            return False
        if over != self.value.over and not (self._greatest_at and over <= self._wanted.keys()):
            return False
        return all(_parameter(point, key) == wanted for key, wanted in self._wanted.items() if key not in over)


class PublishedMatcher:
    """The published values of a study. `names`: scenario -> its names among the published values."""

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
        found = self._matching(system, point, metric, over)
        if not found and metric == "faster":
            found = self._matching(" / ".join(reversed(system.split(" / "))), point, metric, over)
        if not found:
            return None
        return next((value for value in found if reproduces(table, value.table)), found[0]).in_lab_units()

    def _matching(self, system: str, point: Point, metric: str, over: Sequence[str]) -> list[PublishedValue]:
        return [
            entry.value
            for name in self._names[point.scenario]
            for entry in self._entries.get((system, name), ())
            if entry.matches(point, metric, frozenset(over))
        ]


def subject_of(value: PublishedValue, systems: Sequence[str]) -> str:
    """The system it is about, or "FIRST / SECOND" where it compares two; "" when these are not the study's systems."""
    parts = re.split(r" / | vs ", value.system)
    return " / ".join(parts) if len(parts) <= 2 and all(part in systems for part in parts) else ""


def reproduces(title: str, table: str) -> bool:
    """Whether an exhibit of that title reproduces that table: "Table 4: ..." does so for "Table 4" and its caption."""
    name = table.removesuffix(" caption")
    return title == name or (title.startswith(name) and not title[len(name)].isalnum())


def words(parameters: Mapping[str, str]) -> dict[str, str]:
    """The parameters of a published value that a point must have, in the lab's words."""
    found = {_RENAMED.get(key, key): value for key, value in parameters.items()}
    if "size" in found and found["size"].isdecimal():
        found["size"] = format_size(int(found["size"]))
    for role in ("producers", "consumers"):
        # In a test of one side the other is idle; the lab needs it to fill the queue before.
        if found.get(role) == "0":
            del found[role]
    if found.get("acknowledge") in ("n/a", "transacted"):
        del found["acknowledge"]
    if "durable" in found:
        found["durable"] = found["durable"].partition("(")[0]
    _trace_in_our_words(found)
    return {key: value for key, value in found.items() if key in _COMPARED}


def _trace_in_our_words(found: dict[str, str]) -> None:
    if found.get("traced") in ("all", "none"):
        found["traced"] = _ABSENT
    if found.get("trace") == "mqtrace-api":
        found |= {"trace": "off", "api_trace": "yes"}
    elif found.get("trace") == "default":
        del found["trace"]
        found.pop("traced", None)
    elif "trace" in found and found.get("traced") == _ABSENT:
        found["api_trace"] = "no"
    elif found.get("traced") == "0":
        # Nobody is traced: the level is of no consequence.
        del found["trace"]


def _parameter(point: Point, key: str) -> str:
    if key == "destinations":
        return point.parameters.get("topics") or point.parameters.get("queues", _ABSENT)
    return point.parameters.get(key, _ABSENT)


def _same_rate(metric: str, point: Point) -> str:
    return point.work if metric == "rate.work" else metric
