"""Expansion of a scenario to points: layers of parameters are merged, and lists multiply."""

from itertools import product
from math import prod
from typing import Final, Literal

from mqlab.study.language.consistency import check_complete, first_inconsistency
from mqlab.study.language.parameters import SHORT_NAMES, flatten, format_value, short_name
from mqlab.study.language.rates import RateProfile
from mqlab.study.language.units import PeakShare
from mqlab.study.language.value_types import Parameters
from mqlab.study.load.sizes import SizeMix
from mqlab.study.point import Phases, Point, Repeat

# The largest grid of the published studies has about a thousand cells; ten times that is a mistake.
MAX_POINTS: Final = 10_000

# Keys of a layer that remove the other keys of lower layers.
_ALTERNATIVES: Final = (({"topics"}, {"queues"}), ({"requesters"}, {"clients", "threads"}))


def merge(*layers: Parameters) -> Parameters:
    """Merge layers group by group; later layers win. Topics replace queues, and queues replace topics."""
    merged: Parameters = {}
    for layer in layers:
        for first, second in _ALTERNATIVES:
            dropped = (second if first & layer.keys() else set()) | (first if second & layer.keys() else set())
            merged = {key: value for key, value in merged.items() if key not in dropped or key in layer}
        for key, value in layer.items():
            if not isinstance(value, dict):
                merged[key] = value
                continue
            dropped = _replaced(value) if key == "message" else set()
            merged[key] = {**{name: kept for name, kept in merged.get(key, {}).items() if name not in dropped}, **value}
    return merged


def _replaced(message: Parameters) -> set[str]:
    """The files of a body have sizes of their own: a size replaces them, and they replace a size."""
    if "size" in message:
        return {"body"}
    return {"size"} if message.get("body") not in (None, "filler") else set()


def expand(scenario: str, parameters: Parameters, base: dict[str, str] | None = None) -> list[Point]:
    """Return all points of a scenario. Raises ValueError if its parameters are inconsistent."""
    values = flatten(parameters)
    repeat = _repeat(parameters["repeat"])
    _check_settings(parameters.get("settings", {}))
    check_complete(values)
    swept = {name: value for name, value in values.items() if isinstance(value, tuple)}
    steps = _steps(swept, parameters.get("together", ()))
    switch = float(parameters["switch"])
    if switch and not any(name.startswith("settings.") for name in swept):
        raise ValueError("switch needs a setting with several values, like settings: {trace: [off, low]}")
    if (count := prod(len(step) for step in steps)) > MAX_POINTS:
        raise ValueError(f"its lists give {count} points; at most {MAX_POINTS} are accepted")
    points = {}
    for combination in product(*steps):
        together: Parameters = {name: value for step in combination for name, value in step.items()}
        chosen = {name: together[name] for name in swept}
        name = ", ".join(f"{short_name(name)}={format_value(name, value)}" for name, value in chosen.items())
        point = _point(scenario, name, {**values, **chosen}, repeat, switch)
        if point.name in points:
            raise ValueError(f"the point {point.name} occurs twice")
        points[point.name] = point
    _check_peaks(list(points.values()))
    return _with_bases(list(points.values()), base or {}, [short_name(name) for name in swept])


def _check_peaks(points: list[Point]) -> None:
    """A share of the peak needs the peak: an earlier point of the same workload with `rate: max`."""
    peaks: set[str] = set()
    for point in points:
        if point.loop == "closed":
            peaks.add(point.workload)
        if point.peak_share is not None and point.workload not in peaks:
            raise ValueError(f"rate: {point.pace} needs the peak; write max before it, like rate: [max, 70%]")


def _check_settings(settings: Parameters) -> None:
    for key in settings:
        if key in SHORT_NAMES:
            raise ValueError(f"settings.{key}: {key} is a parameter of the study, so a setting cannot have this name")


def _steps(swept: dict[str, tuple[object, ...]], together: tuple[tuple[str, ...], ...]) -> list[list[Parameters]]:
    """Return the dimensions of the grid: the values of a list, or the n-th values of lists that go together."""
    remaining = dict(swept)
    names = {short_name(name): name for name in swept}
    steps: dict[str, list[Parameters]] = {}
    for words in together:
        for each in words:
            if names.get(each) not in remaining:
                free = ", ".join(short_name(name) for name in remaining) or "none"
                raise ValueError(f"together: '{each}' is not a list in this scenario, or occurs twice; lists: {free}")
        lists = {names[each]: remaining.pop(names[each]) for each in words}
        if len({len(values) for values in lists.values()}) > 1:
            lengths = ", ".join(f"{short_name(name)} {len(values)}" for name, values in lists.items())
            raise ValueError(f"lists that go together must have the same number of values, not {lengths}")
        rows = zip(*lists.values(), strict=True)
        steps[next(iter(lists))] = [dict(zip(lists, row, strict=True)) for row in rows]
    steps |= {name: [{name: value} for value in values] for name, values in remaining.items()}
    return [steps[name] for name in swept if name in steps]


def _repeat(values: Parameters) -> Repeat:
    until, least, most = values["until"], values["least"], values["most"]
    if until is None:
        least = most
    if least > most:
        raise ValueError(f"repeat.least ({least}) is above repeat.most ({most})")
    return Repeat(until=until, least=least, most=most)


def _point(scenario: str, name: str, values: Parameters, repeat: Repeat, switch: float) -> Point:
    domain: Literal["topic", "queue"] = "topic" if "topics" in values else "queue"
    request_reply = values["pattern"] == "request-reply"
    clients = int(values.get("clients", 1 if "threads" in values else 0))
    requesters = int(values.get("requesters", clients * int(values.get("threads", 1))))
    # A fixed amount of work has no warm-up and no measure time.
    absent = () if values["messages"] is None else ("phases.warmup", "phases.measure")
    texts = {short_name(each): format_value(each, value) for each, value in values.items() if each not in absent}
    seconds = {name: 0.0 if f"phases.{name}" in absent else values[f"phases.{name}"] for name in Phases.model_fields}
    if request_reply:
        texts["requesters"] = str(requesters)
    # A parameter has the name of its field, unless it is set below.
    given = {short_name(each): value for each, value in values.items() if not each.startswith("settings.")}
    rate, body = values["rate"], values.get("message.body")
    size = values["message.size"] if body is None else body
    fields = {
        **dict.fromkeys(("producers", "consumers", "responders"), 0),
        **{name: value for name, value in given.items() if name in Point.model_fields},
        "size": size if isinstance(size, int) else round(size.mean),
        "sizes": size.text if isinstance(size, SizeMix) else "",
        "body": "" if body is None else body.text,
        "contents": () if body is None else body.contents,
        "rate": None if isinstance(rate, PeakShare | RateProfile) else rate,
        "profile": rate.text if isinstance(rate, RateProfile) else "",
        "peak_share": rate.share if isinstance(rate, PeakShare) else None,
        "destinations": values[f"{domain}s"],
        "requesters": requesters,
        "clients": clients,
        "settings": {short_name(each): value for each, value in values.items() if each.startswith("settings.")},
        "switch": switch,
        "phases": Phases(**seconds),
    }
    point = Point(scenario=scenario, name=name, parameters=texts, domain=domain, repeat=repeat, **fields)
    if inconsistency := first_inconsistency(point):
        raise ValueError(f"{name}: {inconsistency}" if name else inconsistency)
    return point


def _with_bases(points: list[Point], base: dict[str, str], swept: list[str]) -> list[Point]:
    for key in base:
        if key not in swept:
            raise ValueError(f"base: {key} is not swept here; swept: {', '.join(swept) or 'nothing'}")
    if not base:
        return points
    by_values = {tuple(point.parameters[key] for key in swept): point for point in points}
    return [_with_base(point, base, by_values, swept) for point in points]


def _with_base(point: Point, base: dict[str, str], by_values: dict[tuple[str, ...], Point], swept: list[str]) -> Point:
    base_values = tuple(base.get(key, point.parameters[key]) for key in swept)
    base_point = by_values.get(base_values)
    if base_point is None:
        values = ", ".join(f"{key}={value}" for key, value in zip(swept, base_values, strict=True))
        raise ValueError(f"base: there is no point {values} to compare {point.name} with")
    return point if base_point is point else point.model_copy(update={"base": base_point.name})
