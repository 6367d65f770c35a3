"""Layers to points: what is written nearer to the run goes over what is written farther away, and lists multiply."""

from collections.abc import Callable, Iterator
from itertools import product
from math import prod
from typing import Any, Final, Literal

from mqlab.study.point import Phases, Point, Repeat
from mqlab.study.rule import Rule
from mqlab.study.units import format_rate, format_size, format_time
from mqlab.study.written import LARGEST_BODY

FULL: Final = "full"
DEFAULT_SCALE: Final = "quick"

# What holds where nothing is written. Destinations, roles and the size have no default: they are the study.
LAB_DEFAULTS: Final[dict[str, Any]] = {
    "message": {"persistent": False},
    "session": {"acknowledge": "auto", "transaction": 0},
    "send": "free",
    "batch": "auto",
    "rate": None,
    "connections": "each",
    "phases": {"warmup": 5.0, "measure": 30.0, "drain": 30.0},
    "repeat": {"until": Rule("interval", 0.03), "least": 2, "most": 5},
}
# For studies that say nothing of their own. `full` adds nothing: it is the study's own length.
LAB_SCALES: Final[dict[str, dict[str, Any]]] = {
    "quick": {"phases": {"warmup": 0.3, "measure": 2.0}, "repeat": {"least": 2, "most": 3}},
    "standard": {
        "phases": {"warmup": 5.0, "measure": 30.0},
        "repeat": {"until": Rule("interval", 0.03), "least": 2, "most": 5},
    },
    FULL: {},
}
# Every parameter that may be a list, in the order in which lists multiply (the last varies fastest), and how a value
# of it is shown in the name of a point.
PARAMETERS: Final[dict[str, Callable[[Any], str]]] = {
    "topics": str,
    "queues": str,
    "producers": str,
    "consumers": str,
    "message.size": format_size,
    "message.persistent": lambda value: "yes" if value else "no",
    "session.acknowledge": str,
    "session.transaction": lambda value: str(value or "none"),
    "send": str,
    "batch": str,
    "rate": lambda value: "max" if value is None else format_rate(value),
    "connections": str,
    "phases.warmup": format_time,
    "phases.measure": format_time,
    "phases.drain": format_time,
}
# The largest grid of the published studies has about a thousand cells; ten times that is a slip of the pen.
MOST_POINTS: Final = 10_000

# A batch is cheap per message from some hundred KiB on, and more would only add latency.
_BATCH_BYTES: Final = 512 * 1024
_BATCH_MESSAGES: Final = 32768
# With a fixed rate a batch must not wait to be full: it holds what one producer owes within this time.
_BATCH_SECONDS: Final = 0.001


def merge(*layers: dict[str, Any]) -> dict[str, Any]:
    """Later layers over earlier ones, group by group. Topics take the place of queues, and the other way round."""
    merged: dict[str, Any] = {}
    for layer in layers:
        if "topics" in layer or "queues" in layer:
            merged = {key: value for key, value in merged.items() if key not in ("topics", "queues")}
        for key, value in layer.items():
            merged[key] = {**merged.get(key, {}), **value} if isinstance(value, dict) else value
    return merged


def expand(scenario: str, parameters: dict[str, Any]) -> list[Point]:
    """All points of one scenario. Raises ValueError where its parameters do not fit together."""
    flat = {name: _at(parameters, name) for name in PARAMETERS if _at(parameters, name, ...) is not ...}
    repeat = _repeat(parameters["repeat"])
    _check_complete(flat)
    swept = {name: values for name, values in flat.items() if isinstance(values, tuple)}
    if (count := prod(len(values) for values in swept.values())) > MOST_POINTS:
        raise ValueError(f"its lists give {count} points; at most {MOST_POINTS} are accepted")
    points = []
    for values in product(*swept.values()):
        chosen = dict(zip(swept, values, strict=True))
        points.append(_point(scenario, _label(chosen), {**flat, **chosen}, repeat))
    return points


def automatic_batch(point: dict[str, Any]) -> int:
    """How many messages move together when the study does not say: what the way of sending allows."""
    if transaction := int(point["session.transaction"]):
        return transaction
    if point["send"] == "confirmed":
        return 1
    most = max(1, min(_BATCH_MESSAGES, _BATCH_BYTES // int(point["message.size"])))
    if point["rate"] is None:
        return most
    return max(1, min(most, int(point["rate"] / point["producers"] * _BATCH_SECONDS)))


def _at(parameters: dict[str, Any], name: str, default: Any = None) -> Any:
    group, _, key = name.rpartition(".")
    return (parameters.get(group, {}) if group else parameters).get(key, default)


def _label(chosen: dict[str, Any]) -> str:
    return ", ".join(f"{name.rpartition('.')[2]}={PARAMETERS[name](value)}" for name, value in chosen.items())


def _repeat(written: dict[str, Any]) -> Repeat:
    until, least, most = written["until"], written["least"], written["most"]
    if until is None:
        least = most
    if least > most:
        raise ValueError(f"repeat.least ({least}) is above repeat.most ({most})")
    return Repeat(until=until, least=least, most=most)


def _check_complete(flat: dict[str, Any]) -> None:
    if "topics" not in flat and "queues" not in flat:
        raise ValueError("no destination; write topics: 1 or queues: 1")
    for name in ("producers", "consumers", "message.size"):
        if name not in flat:
            raise ValueError(f"{name} is missing here and in defaults")


def _point(scenario: str, name: str, flat: dict[str, Any], repeat: Repeat) -> Point:
    domain: Literal["topic", "queue"] = "topic" if "topics" in flat else "queue"
    point = Point(
        scenario=scenario,
        name=name,
        domain=domain,
        destinations=flat[f"{domain}s"],
        producers=flat["producers"],
        consumers=flat["consumers"],
        size=flat["message.size"],
        persistent=flat["message.persistent"],
        acknowledge=flat["session.acknowledge"],
        transaction=flat["session.transaction"],
        send=flat["send"],
        batch=automatic_batch(flat) if flat["batch"] == "auto" else flat["batch"],
        rate=flat["rate"],
        connections=flat["connections"],
        phases=Phases(warmup=flat["phases.warmup"], measure=flat["phases.measure"], drain=flat["phases.drain"]),
        repeat=repeat,
    )
    if problem := next(_problems(point), None):
        raise ValueError(f"{name}: {problem}" if name else problem)
    return point


def _problems(point: Point) -> Iterator[str]:
    for role in ("producers", "consumers"):
        if (count := getattr(point, role)) < point.destinations:
            yield (
                f"{point.destinations} {point.domain}s need at least as many {role}, not {count}"
                f" (number n uses {point.domain} n modulo {point.destinations})"
            )
    if point.transaction and point.transaction % point.batch:
        yield f"a transaction of {point.transaction} is not a whole number of batches of {point.batch}"
    if point.batch * point.size > LARGEST_BODY:
        yield (
            f"{point.batch} messages of {format_size(point.size)} do not move together;"
            f" at most {format_size(LARGEST_BODY)} do"
        )
