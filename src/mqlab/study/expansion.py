"""Layers to points: what is written nearer to the run goes over what is written farther away, and lists multiply."""

from collections.abc import Iterator
from itertools import product
from math import prod
from typing import Any, Final, Literal

from mqlab.study.language.consistency import check_complete, first_problem
from mqlab.study.language.parameters import WORDS, flat, shown, word
from mqlab.study.point import Phases, Point, Repeat

# The largest grid of the published studies has about a thousand cells; ten times that is a slip of the pen.
MOST_POINTS: Final = 10_000

# What a batch costs by itself is little beside its messages from here on, and more would only add latency.
_BATCH_BYTES: Final = 1024 * 1024
_BATCH_MESSAGES: Final = 32768
# With a fixed rate a batch must not wait to be full: it holds what one producer owes within this time.
_BATCH_SECONDS: Final = 0.001
# What takes the place of each other when layers are laid over each other.
_INSTEAD: Final = (({"topics"}, {"queues"}), ({"requesters"}, {"clients", "threads"}))

# One combination of values, by the full names of the parameters.
Values = dict[str, Any]


def merge(*layers: dict[str, Any]) -> dict[str, Any]:
    """Later layers over earlier ones, group by group. Topics take the place of queues, and the other way round."""
    merged: dict[str, Any] = {}
    for layer in layers:
        for one, other in _INSTEAD:
            dropped = (other if one & layer.keys() else set()) | (one if other & layer.keys() else set())
            merged = {key: value for key, value in merged.items() if key not in dropped or key in layer}
        for key, value in layer.items():
            merged[key] = {**merged.get(key, {}), **value} if isinstance(value, dict) else value
    return merged


def expand(scenario: str, parameters: dict[str, Any], base: dict[str, str] | None = None) -> list[Point]:
    """All points of one scenario. Raises ValueError where its parameters do not fit together."""
    values = flat(parameters)
    repeat = _repeat(parameters["repeat"])
    _check_settings(parameters.get("settings", {}))
    check_complete(values)
    swept = {name: each for name, each in values.items() if isinstance(each, tuple)}
    steps = _steps(swept, parameters.get("together", ()))
    if (count := prod(len(step) for step in steps)) > MOST_POINTS:
        raise ValueError(f"its lists give {count} points; at most {MOST_POINTS} are accepted")
    points = {}
    for combination in product(*steps):
        together: Values = {name: value for step in combination for name, value in step.items()}
        chosen = {name: together[name] for name in swept}
        point = _point(scenario, _label(chosen), {**values, **chosen}, repeat)
        if point.name in points:
            raise ValueError(f"the point {point.name} comes twice")
        points[point.name] = point
    return _with_bases(list(points.values()), base or {}, [word(name) for name in swept])


def automatic_batch(point: Values) -> int:
    """How many messages move together when the study does not say: what the way of sending allows."""
    if transaction := int(point["session.transaction"]):
        return transaction
    if point["send"] == "confirmed" or point["pattern"] == "request-reply":
        return 1
    most = max(1, min(_BATCH_MESSAGES, _BATCH_BYTES // int(point["message.size"])))
    if point["rate"] is None:
        return most
    return max(1, min(most, int(point["rate"] / point["producers"] * _BATCH_SECONDS)))


def _label(chosen: Values) -> str:
    return ", ".join(f"{word(name)}={shown(name, value)}" for name, value in chosen.items())


def _check_settings(settings: dict[str, Any]) -> None:
    for key in settings:
        if key in WORDS:
            raise ValueError(f"settings.{key}: {key} is a parameter of the study and cannot be a setting as well")


def _steps(swept: dict[str, tuple[Any, ...]], together: tuple[tuple[str, ...], ...]) -> list[list[Values]]:
    """What is chosen at once: a value of a list, or the n-th values of the lists that go together."""
    left = dict(swept)
    names = {word(name): name for name in swept}
    steps: dict[str, list[Values]] = {}
    for words in together:
        for each in words:
            if names.get(each) not in left:
                free = ", ".join(word(name) for name in left) or "none"
                raise ValueError(f"together: '{each}' is not a list here, or goes together twice; lists: {free}")
        lists = {names[each]: left.pop(names[each]) for each in words}
        if len({len(values) for values in lists.values()}) > 1:
            lengths = ", ".join(f"{word(name)} {len(values)}" for name, values in lists.items())
            raise ValueError(f"lists that go together have as many values each, not {lengths}")
        rows = zip(*lists.values(), strict=True)
        steps[next(iter(lists))] = [dict(zip(lists, row, strict=True)) for row in rows]
    steps |= {name: [{name: value} for value in values] for name, values in left.items()}
    return [steps[name] for name in swept if name in steps]


def _repeat(written: dict[str, Any]) -> Repeat:
    until, least, most = written["until"], written["least"], written["most"]
    if until is None:
        least = most
    if least > most:
        raise ValueError(f"repeat.least ({least}) is above repeat.most ({most})")
    return Repeat(until=until, least=least, most=most)


def _point(scenario: str, name: str, values: Values, repeat: Repeat) -> Point:
    domain: Literal["topic", "queue"] = "topic" if "topics" in values else "queue"
    asking = values["pattern"] == "request-reply"
    clients = int(values.get("clients", 1 if "threads" in values else 0))
    requesters = int(values.get("requesters", clients * int(values.get("threads", 1))))
    timed = values["messages"] is None
    described = {word(each): shown(each, value) for each, value in values.items() if timed or not _is_timed(each)}
    if asking:
        described["requesters"] = str(requesters)
    point = Point(
        scenario=scenario,
        name=name,
        parameters=described,
        pattern=values["pattern"],
        domain=domain,
        destinations=values[f"{domain}s"],
        producers=values.get("producers", 0),
        consumers=values.get("consumers", 0),
        requesters=requesters,
        responders=values.get("responders", 0),
        clients=clients,
        size=values["message.size"],
        persistent=values["message.persistent"],
        acknowledge=values["session.acknowledge"],
        transaction=values["session.transaction"],
        selector=values["selector"],
        durable=values["durable"],
        prefetch=values["prefetch"],
        load=values["load"],
        messages=values["messages"],
        preload=values["preload"],
        send=values["send"],
        batch=automatic_batch(values) if values["batch"] == "auto" else values["batch"],
        rate=values["rate"],
        consume_rate=values["consume_rate"],
        connections=values["connections"],
        topology=values["topology"],
        settings={word(each): value for each, value in values.items() if each.startswith("settings.")},
        client_cpu=values["client_cpu"],
        phases=_phases(values, timed),
        repeat=repeat,
    )
    if problem := first_problem(point):
        raise ValueError(f"{name}: {problem}" if name else problem)
    return point


def _is_timed(name: str) -> bool:
    return name in ("phases.warmup", "phases.measure")


def _phases(values: Values, timed: bool) -> Phases:
    """A fixed amount of work has no warm-up, and takes as long as it takes."""
    warmup, measure = (values["phases.warmup"], values["phases.measure"]) if timed else (0.0, 0.0)
    return Phases(warmup=warmup, measure=measure, drain=values["phases.drain"])


def _with_bases(points: list[Point], base: dict[str, str], swept: list[str]) -> list[Point]:
    for key in base:
        if key not in swept:
            raise ValueError(f"base: {key} is not swept here; swept: {', '.join(swept) or 'nothing'}")
    if not base:
        return points
    by_values = {tuple(_swept_values(point, swept)): point for point in points}
    return [_with_base(point, base, by_values, swept) for point in points]


def _swept_values(point: Point, swept: list[str]) -> Iterator[str]:
    return (point.parameters[key] for key in swept)


def _with_base(point: Point, base: dict[str, str], by_values: dict[tuple[str, ...], Point], swept: list[str]) -> Point:
    wanted = tuple(base.get(key, value) for key, value in zip(swept, _swept_values(point, swept), strict=True))
    found = by_values.get(wanted)
    if found is None:
        values = ", ".join(f"{key}={value}" for key, value in zip(swept, wanted, strict=True))
        raise ValueError(f"base: there is no point {values}, which {point.name} would be compared with")
    return point if found is point else point.model_copy(update={"base": found.name})
