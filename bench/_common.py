"""What the benchmarks share: interleaved rounds, ratios with intervals, and the closing line of JSON.

A lone time means nothing on a machine that others use too. So each round measures every side once, in an order
that changes from round to round, and only ratios within a round are compared.
"""

import argparse
import json
import random
import sys
from collections.abc import Callable, Mapping
from math import exp, log, sqrt
from pathlib import Path
from statistics import fmean, median, stdev
from typing import Final

from mqlab.study.statistics import t975

HERE: Final = Path(__file__).resolve().parents[1]
Side = Callable[[], float]

_TRIES: Final = 10


def arguments(
    about: str, quick: str = "fewer and shorter rounds, within a minute", *, other_tree: bool = False, **lists: str
) -> argparse.Namespace:
    """The options that every benchmark has, and those of `lists` (name: help), each of which may be repeated.

    `other_tree`: the first argument, `old`, is the work tree to compare with; by default this one. `smoke` is the form
    that the tests run: some seconds, figures without a meaning, no system but the embedded broker.
    """
    parser = argparse.ArgumentParser(description=about, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help=quick)
    parser.add_argument("--smoke", action="store_true", help="only see that it works: one round, as short as it can be")
    parser.add_argument("--rounds", type=int, help="how many rounds")
    if other_tree:
        parser.add_argument("old", type=Path, nargs="?", default=HERE, help="the other work tree (default: this one)")
    for name, text in lists.items():
        parser.add_argument(f"--{name}", action="append", help=f"{text}; may be repeated")
    chosen = parser.parse_args()
    if chosen.smoke:
        chosen.quick, chosen.rounds = True, chosen.rounds or 1
    return chosen


def interleaved(sides: Mapping[str, Side], rounds: int) -> dict[str, list[float]]:
    """One value of each side a round."""
    found: dict[str, list[float]] = {name: [] for name in sides}
    # By chance, but the same chance each time: in a fixed order a side would always follow the same other one.
    order = random.Random(1)
    for number in range(rounds):
        for name in order.sample([*sides], len(sides)):
            value = _measured(name, sides[name])
            found[name].append(value)
            say(f"round {number + 1} of {rounds}: {name} {value:,.0f}")
    return found


def _measured(name: str, side: Side) -> float:
    """Measure again when nothing arrived: on a busy machine a short turn can pass before a process has run."""
    for _ in range(_TRIES):
        value = side()
        if value:
            return value
    raise SystemExit(f"{name}: nothing arrived in {_TRIES} turns")


def ratio(over: list[float], under: list[float]) -> dict[str, float | int | None]:
    """The geometric mean of the rounds' ratios, with its 95 % interval; none where a side has a rate of 0."""
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
    """A plain figure: the mean of the rounds, with its 95 % interval."""
    half = t975(len(values) - 1) * stdev(values) / sqrt(len(values)) if len(values) > 1 else None
    mean = fmean(values)
    return {
        "value": round(mean, 1),
        "low": None if half is None else round(mean - half, 1),
        "high": None if half is None else round(mean + half, 1),
        "rounds": len(values),
    }


def medians(found: Mapping[str, list[float]]) -> dict[str, float]:
    return {name: round(median(values)) for name, values in found.items()}


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def finish(**results: object) -> None:
    """The last line: one JSON document."""
    print(json.dumps(results))
