"""Goals of a study and gates of a command: a metric, the points that it is about, and its limit.

`rate.received > 50k/s`             at every point that has the metric
`latency.p99[A] < 5ms`              at the points of a scenario; `[A, size=1KiB]` and `["Q*"]` as in a claim
`latency.p99 > +10%`                against another system, with a sign: only a gate of `mqlab compare`

A goal is what must hold at every point, a gate (`--fail-if`) what must hold at none.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Literal, cast

from mqlab.study.language.expression import ExpressionError, parse_measure
from mqlab.study.language.reference import Reference
from mqlab.study.language.units import parse_percent, parse_rate, parse_size, parse_time
from mqlab.study.language.value_types import suggest
from mqlab.study.metric import METRICS
from mqlab.study.point import Point

Relation = Literal["<", "<=", ">", ">="]
_NEGATED: Final[dict[Relation, Relation]] = {"<": ">=", "<=": ">", ">": "<=", ">=": "<"}
_CONDITION: Final = re.compile(r"(.+?)\s*(<=|>=|<|>)\s*([^<>=]+)")
_EXAMPLE: Final = "latency.p99 > 10ms or rate.received[A] < 50k/s"
# All points.
EVERYWHERE: Final = "*"


@dataclass(frozen=True)
class Gate:
    """Fails where the metric is `relation` `limit`, at any point that `reference` means.

    `text` is as the user wrote it: of a goal, the opposite. `is_relative`: the limit is a ratio to another system.
    """

    text: str
    reference: Reference
    relation: Relation
    limit: float
    is_relative: bool = False
    is_goal: bool = False

    @property
    def metric(self) -> str:
        return self.reference.metric

    def matches(self, point: Point) -> bool:
        """A scenario alone means all its points."""
        named = self.reference
        return named.matches(point) or (not named.where and not named.point and named.scenario == point.scenario)


def parse_gate(text: str) -> Gate:
    """Raises ExpressionError."""
    parts = _CONDITION.fullmatch(text.strip())
    if parts is None:
        raise ExpressionError(f"'{text}' is not a condition like {_EXAMPLE}")
    reference = _reference(parts[1].strip())
    if reference.system:
        raise ExpressionError(f"'{text}' is about every system; leave out of")
    try:
        limit, is_relative = _limit(reference.metric, parts[3].strip())
    except ValueError as error:
        raise ExpressionError(f"'{text}': {error}") from None
    return Gate(text.strip(), reference, cast("Relation", parts[2]), limit, is_relative)


def parse_goal(text: str) -> Gate:
    """The gate that fails where the goal is missed. Raises ExpressionError."""
    gate = parse_gate(text)
    if gate.is_relative:
        raise ExpressionError(f"'{text}' compares two systems; a goal has no sign: mqlab compare --fail-if has")
    return Gate(gate.text, gate.reference, _NEGATED[gate.relation], gate.limit, is_goal=True)


def _reference(text: str) -> Reference:
    if "[" in text:
        return parse_measure(text)
    if text not in METRICS:
        raise ExpressionError(f"there is no metric {text}; {suggest(text, list(METRICS))}")
    return Reference(text, EVERYWHERE)


def _limit(metric: str, text: str) -> tuple[float, bool]:
    if text[:1] in ("+", "-"):
        change = parse_percent(text[1:].strip())
        ratio = 1 + change if text[0] == "+" else 1 - change
        if ratio <= 0:
            raise ValueError(f"no metric changes by {text}; write more than -100%")
        return ratio, True
    unit = METRICS[metric].unit
    return _PARSERS.get(unit, _rate)(text), False


def _rate(text: str) -> float:
    try:
        return parse_rate(text)
    except ValueError:
        raise ValueError(f"'{text}' is not a rate; write 100/s, 5k/s or 1.5M/s") from None


def _byte_rate(text: str) -> float:
    size, slash, second = text.rpartition("/")
    if slash and second.strip() == "s":
        return float(parse_size(size.strip()))
    raise ValueError(f"'{text}' is not a rate of bytes; write 10MB/s")


def _number(text: str) -> float:
    if re.fullmatch(r"\d{1,15}(\.\d{1,9})?", text, re.ASCII):
        return float(text)
    raise ValueError(f"'{text}' is not a number")


# By the unit of the metric; all others count something a second.
_PARSERS: Final[dict[str, Callable[[str], float]]] = {
    "s": parse_time,
    "bytes": parse_size,
    "bytes/s": _byte_rate,
    "%": lambda text: 100 * parse_percent(text),
    "count": _number,
}
