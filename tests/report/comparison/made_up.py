"""Runs made up for a comparison: the values of each system, scenario and metric, round by round, in memory."""

import random
from collections.abc import Mapping, Sequence
from functools import cache
from math import exp
from pathlib import Path

from mqlab.events.folder import RunFolder
from mqlab.report.claims.counted import CountedRates
from mqlab.report.data.run_results import RunResults
from mqlab.study import Study, load_study

BASE, NEW = "base", "new"
METRICS = ("rate.work", "latency.p99", "cpu.message")
# The values of a metric, by round; by scenario and metric.
Values = Mapping[str, Mapping[str, Sequence[float]]]


@cache
def study() -> Study:
    return load_study("jms-four-brokers")


def results_of(base: Values, new: Values) -> RunResults:
    """The tables that the pipeline would make of these runs. All metrics of a scenario have the same rounds.

    A metric that a scenario does not have is 0 in the agents' counts, and so in no table.
    """
    sides = {BASE: base, NEW: new}
    metrics = list(dict.fromkeys(metric for side in sides.values() for values in side.values() for metric in values))
    rates = {
        (system, scenario, ""): {
            number: {metric: values[metric][number] if metric in values else 0.0 for metric in metrics}
            for number in range(len(next(iter(values.values()))))
        }
        for system, side in sides.items()
        for scenario, values in side.items()
    }
    points = [point for point in study().points("quick") if point.scenario in {*base, *new}]
    systems = [{"name": name, "version": "1", "settings": {}, "stamps": []} for name in sides]
    meta = {"id": "made-up", "scale": "quick", "status": "complete", "systems": systems}
    run = RunResults(RunFolder(Path("made-up")), meta, study())
    return CountedRates(study(), points, rates, 1, metrics).results(run)


def at_a(base: Sequence[float], new: Sequence[float], metric: str = "rate.work") -> RunResults:
    """One metric of scenario A."""
    return results_of({"A": {metric: base}}, {"A": {metric: new}})


def equal_systems(chance: random.Random, scenarios: str = "ADG", rounds: int = 12) -> RunResults:
    """Half of the noise of a run is that of its round, in which the two took turns."""
    return results_of(*drawn(chance, 1.0, scenarios, rounds))


def drawn(chance: random.Random, ratio: float, scenarios: str = "ADG", rounds: int = 12) -> tuple[Values, Values]:
    """Runs that scatter by 4 % (latencies by 15 %); the new system has `ratio` times the true rate of the base."""
    sides: tuple[dict[str, dict[str, list[float]]], ...] = ({}, {})
    for scenario in scenarios:
        for metric in METRICS:
            deviation = 0.15 if metric == "latency.p99" else 0.04
            shared = [chance.gauss() for _ in range(rounds)]
            for side, factor in zip(sides, (1.0, ratio if metric == "rate.work" else 1.0), strict=True):
                noise = [deviation * (one + chance.gauss()) / 2**0.5 for one in shared]
                side.setdefault(scenario, {})[metric] = [1000 * factor * exp(one) for one in noise]
    return sides[0], sides[1]
