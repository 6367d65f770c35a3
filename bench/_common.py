"""Shared by the benchmarks: options, interleaved rounds, ratios with intervals, and the JSON result.

A single time means nothing on a machine that runs other work. So each round measures every side once, in random order,
and benchmarks compare only ratios within a round. A virtual machine also loses processor time to its neighbours
("steal"): the long forms measure a turn that lost more than `QUIET_PERCENT` again, and every result shows what the
turns that count have lost.
"""

import argparse
import json
import random
import sys
from collections.abc import Callable, Mapping
from math import exp, log, sqrt
from pathlib import Path
from statistics import fmean, median, stdev
from typing import Any, Final

import psutil

from mqlab.study.statistics import t975

HERE: Final = Path(__file__).resolve().parents[1]
Side = Callable[[], float]

QUIET_PERCENT: Final = 3.0
# A turn is measured at most so often until something arrives and, in the long forms, until the machine is quiet.
_TRIES: Final = 10


class _Noise:
    """What the host took from this machine while the benchmark measured."""

    def __init__(self) -> None:
        self.allowed_percent = QUIET_PERCENT
        self.steal_percents: list[float] = []


_noise = _Noise()


def arguments(
    about: str, quick: str = "fewer and shorter rounds, within a minute", *, other_tree: bool = False, **lists: str
) -> argparse.Namespace:
    """Parse the options of every benchmark, and those of `lists` (name: help), which may be repeated.

    `other_tree`: the first argument, `old`, is the work tree to compare with; by default this one. The tests run
    `--smoke`: it takes some seconds, uses only the embedded broker, and its results have no meaning.
    """
    parser = argparse.ArgumentParser(description=about, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help=quick)
    parser.add_argument("--smoke", action="store_true", help="only check that it works: one very short round")
    parser.add_argument("--rounds", type=int, help="the number of rounds")
    if other_tree:
        parser.add_argument("old", type=Path, nargs="?", default=HERE, help="the other work tree (default: this one)")
    for name, text in lists.items():
        parser.add_argument(f"--{name}", action="append", help=f"{text}; may be repeated")
    options = parser.parse_args()
    if options.smoke or options.quick:
        _noise.allowed_percent = 100.0  # a short form takes the time that it promises
    if options.smoke:
        options.quick, options.rounds = True, options.rounds or 1
    return options


def interleaved(sides: Mapping[str, Side], rounds: int) -> dict[str, list[float]]:
    """Return the values of each side, one per round."""
    values: dict[str, list[float]] = {name: [] for name in sides}
    # Random, with a fixed seed: in a fixed order, a side would always follow the same other side.
    order = random.Random(1)
    for number in range(rounds):
        for name in order.sample([*sides], len(sides)):
            value = _measure(name, sides[name])
            values[name].append(value)
            say(f"round {number + 1} of {rounds}: {name} {value:,.0f}")
    return values


def _measure(name: str, side: Side) -> float:
    """Return what the side measured while the machine was quiet, or in the quietest of its turns.

    A turn in which nothing arrived does not count: on a busy machine a process may not run within a short turn.
    """
    turns: list[tuple[float, float]] = []
    for _ in range(_TRIES):
        before = psutil.cpu_times()
        value = side()
        if value:
            turns.append((_steal_percent(before, psutil.cpu_times()), value))
            if turns[-1][0] <= _noise.allowed_percent:
                break
    if not turns:
        raise SystemExit(f"{name}: nothing arrived in {_TRIES} turns")
    steal_percent, value = min(turns)
    _noise.steal_percents.append(steal_percent)
    return value


# Any: psutil names the fields of this tuple by the platform.
def _steal_percent(before: Any, after: Any) -> float:
    """Return the share of all processor time that the host gave to others; 0 where it does not say."""
    if not hasattr(after, "steal"):
        return 0.0
    total = sum(after) - sum(before)
    return 100 * (after.steal - before.steal) / total if total > 0 else 0.0


def ratio(over: list[float], under: list[float]) -> dict[str, float | int | None]:
    """Return the geometric mean of the ratios with its 95 % interval; None if a side has a rate of 0."""
    if not all(over) or not all(under):
        return {"value": None, "low": None, "high": None, "rounds": len(over)}
    logs = [log(a / b) for a, b in zip(over, under, strict=True)]
    half = t975(len(logs) - 1) * stdev(logs) / sqrt(len(logs)) if len(logs) > 1 else None
    middle = fmean(logs)
    return {
        "value": round(exp(middle), 4),
        "low": None if half is None else round(exp(middle - half), 4),
        "high": None if half is None else round(exp(middle + half), 4),
        "rounds": len(logs),
    }


def level(values: list[float]) -> dict[str, float | int | None]:
    """Return the mean of the rounds with its 95 % interval."""
    half = t975(len(values) - 1) * stdev(values) / sqrt(len(values)) if len(values) > 1 else None
    mean = fmean(values)
    return {
        "value": round(mean, 4),
        "low": None if half is None else round(mean - half, 4),
        "high": None if half is None else round(mean + half, 4),
        "rounds": len(values),
    }


def medians(values_by_side: Mapping[str, list[float]]) -> dict[str, float]:
    return {name: round(median(values)) for name, values in values_by_side.items()}


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def finish(**results: object) -> None:
    """Print the results as one JSON document on the last line, with the worst steal of the turns that they rest on."""
    noise = {"steal_percent_max": round(max(_noise.steal_percents), 1)} if _noise.steal_percents else {}
    print(json.dumps(results | noise))
