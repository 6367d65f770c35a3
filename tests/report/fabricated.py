"""Synthetic measures for every point of any study: plausible, reproducible and consistent with each other."""

import json
from collections.abc import Callable, Sequence
from itertools import permutations

from mqlab.study import METRICS, Point, Study

from .synthetic_runs import SyntheticRuns

Rate = Callable[[Point, str], float]


def plausible(point: Point, system: str) -> float:
    """More roles do more up to a point, large bodies less; tracing, syncing and scanning cost."""
    roles = point.requesters or point.producers
    rate: float = 40_000.0 * min(roles, 8) ** 0.6 / (1 + point.size / 16_384) / (1 + max(0, roles - 8) / 200)
    rate *= {"low": 0.7, "medium": 0.45, "high": 0.4}.get(point.parameters.get("trace", ""), 1.0)
    rate *= 0.12 if point.persistent else 1.0
    if "scan" in system or system == "second":
        rate /= 1.5 + point.preload / 40
    return rate


def fabricated(
    study: Study, scale: str = "quick", systems: Sequence[str] = (), rate: Rate = plausible
) -> SyntheticRuns:
    """A run of the study on its stand-ins (or on `systems`): two clean runs a point, known within 2 %."""
    names = list(systems) or list(dict.fromkeys(study.stand_ins.values())) or ["embedded"]
    made = SyntheticRuns(study)
    made.meta |= {"study": study.id, "scale": scale, "id": f"20260101-120000-{study.id}"}
    made.meta["systems"] = [{"name": name, "version": "1", "settings": {}, "stamps": []} for name in names]
    points = study.points(scale)
    for point in points:
        for name in names:
            measure_point(made, point, name, rate(point, name))
            for repetition in (1, 2):
                made.run(point.scenario, repetition, point=point.name, system=name, rate=rate(point, name))
    for name in names:
        add_impacts(made, points, name)
        add_peaks(made, points, name)
    add_comparisons(made, points, names)
    return made


def measure_point(made: SyntheticRuns, point: Point, system: str, rate: float) -> None:
    copies = point.consumers if point.domain == "topic" and point.consumers else 1
    figures = {"rate.work": rate, "cpu.broker": 60.0 + min(40.0, rate / 2000), "cpu.agents": 80.0}
    if point.pattern == "request-reply":
        figures |= {"rate.round_trips": rate, "bytes.round_trips": rate * point.size}
        figures |= {f"response.{rank}": value / rate for rank, value in (("mean", 1.0), ("p50", 0.9), ("p99", 4.0))}
    if point.pattern == "one-way" and point.load != "send":
        figures |= {"rate.received": rate, "latency.p50": 0.001, "latency.p99": 0.004}
    if point.pattern == "one-way" and point.load != "receive":
        figures |= {"rate.sent": rate / copies, "copies": copies}
    if "queue_limit" in point.parameters:
        figures |= {"onset": 1.25, "holds": 40.0}
    for metric, value in figures.items():
        margin = 0.0 if metric == "copies" else value * 0.02
        made.measure(point.scenario, metric, value, margin, system, point=point.name, runs=2)


def value_of(made: SyntheticRuns, point: Point, system: str, metric: str) -> float | None:
    return made.values.get((point.scenario, point.name, system, metric))


def add_impacts(made: SyntheticRuns, points: Sequence[Point], system: str) -> None:
    by_name = {(point.scenario, point.name): point for point in points}
    for point in points:
        base = by_name.get((point.scenario, point.base or "")) if point.base is not None else None
        for metric in METRICS if base is not None else ():
            assert base is not None
            ours, theirs = value_of(made, point, system, metric), value_of(made, base, system, metric)
            if ours and theirs:
                made.impact(point, system, metric, 100 * (ours / theirs - 1), 3.0)


def add_peaks(made: SyntheticRuns, points: Sequence[Point], system: str) -> None:
    wanted = {(f.metric, f.over) for exhibit in made.study.exhibits for f in exhibit.views if f.over}
    for metric, over in sorted(wanted):
        best: dict[tuple[str, str], tuple[float, Point]] = {}
        for point in points:
            value = value_of(made, point, system, metric)
            if value is None or not set(over) <= point.parameters.keys():
                continue
            place = (point.scenario, rest(point, over))
            if place not in best or value > best[place][0]:
                best[place] = value, point
        for (_, parameters), (value, point) in best.items():
            made.peak(point, system, metric, over, parameters, value)


def add_comparisons(made: SyntheticRuns, points: Sequence[Point], names: Sequence[str]) -> None:
    wanted = {(f.metric, f.over) for e in made.study.exhibits for f in e.views if f.kind in ("ratio", "faster")}
    for metric, over in sorted(wanted):
        for first, second in permutations(names, 2):
            if over:
                compare_peaks(made, metric, over, first, second)
                continue
            for point in points:
                one, two = value_of(made, point, first, metric), value_of(made, point, second, metric)
                if one and two:
                    made.comparison(point.scenario, point.name, first, second, metric, one / two)


def compare_peaks(made: SyntheticRuns, metric: str, over: Sequence[str], first: str, second: str) -> None:
    found = [peak for peak in made.rows["peaks"] if (peak["metric"], peak["over"]) == (metric, ", ".join(over))]
    by_place = {(peak["scenario"], peak["parameters"], peak["system"]): peak["value"] for peak in found}
    for (scenario, parameters, system), value in by_place.items():
        other = by_place.get((scenario, parameters, second))
        if system == first and other:
            made.comparison(scenario, "", first, second, metric, value / other, over, parameters)


def rest(point: Point, over: Sequence[str]) -> str:
    """The swept parameters that are not in `over`, as the pipeline writes them."""
    swept = dict(part.split("=", 1) for part in point.name.split(", ") if part)
    return json.dumps({k: swept[k] for k in sorted(swept) if k not in over}, separators=(",", ":"))
