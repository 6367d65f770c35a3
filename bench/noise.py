"""Whether the lab sees other work on the machine, and whether it sees differences where there are none.

found  share of the runs beside a process that takes half a core in bursts which are marked as disturbed
false  share of the runs without it that are marked
aa     share of comparisons of a system with itself whose 95 % interval excludes 1, of undisturbed runs

Runs in which the host took processor time (above 1 %) say nothing about the first two, and are only counted.
"""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import product
from math import sqrt

from _common import arguments, finish, level, ratio, say
from _lab import Lab, scenario

# Half of one core, ten times a second.
_BURSTS = """
import time
while True:
    end = time.monotonic() + 0.05
    while time.monotonic() < end:
        pass
    time.sleep(0.05)
"""
_QUIET_STEAL_SHARE = 0.01
# Rounds of each comparison of the system with itself.
_AA_ROUNDS = 6


@contextmanager
def bursts(active: bool) -> Iterator[None]:
    """A busy process that is not a child of this one: the lab takes its own descendants for a part of itself."""
    if not active:
        yield
        return
    command = [sys.executable, "-c", _BURSTS]
    start = ["sh", "-c", '"$@" >/dev/null 2>&1 & echo $!', "sh", *command]
    shell = subprocess.run(start, capture_output=True, check=True)
    try:
        yield
    finally:
        os.kill(int(shell.stdout), signal.SIGKILL)


def main() -> None:
    chosen = arguments(__doc__ or "")
    seconds = 0.2 if chosen.smoke else 1.0
    point = scenario("D", measure=seconds, warmup=0.1 if chosen.smoke else 0.3)
    marked: dict[bool, list[float]] = {True: [], False: []}
    rates: list[float] = []
    by_host = 0
    rounds = chosen.rounds or (16 if chosen.quick else 120)
    with Lab() as lab:
        lab.rate(point)
        for number in range(rounds):
            # Twice alone for each run beside the bursts: the former are compared with each other.
            for busy in (True, False, False) if number % 2 else (False, False, True):
                with bursts(busy):
                    rate = lab.rate(point)
                noise = lab.noise
                assert noise is not None
                if noise.steal_seconds > _QUIET_STEAL_SHARE * noise.seconds * noise.cores:
                    by_host += 1
                else:
                    marked[busy].append(float(bool(noise.disturbed)))
                if not busy and not noise.disturbed:
                    rates.append(rate)
                where = "beside bursts" if busy else "alone"
                say(f"round {number + 1} of {rounds}: {where}: {noise.disturbed or 'undisturbed'}")
    finish(
        found=_share(marked[True]), false=_share(marked[False]), aa=_false_differences(rates),
        disturbed_by_the_host=by_host,
    )  # fmt: skip


def _share(marks: list[float]) -> dict[str, float | int | None]:
    """With Wilson's interval, which holds for shares near 0 and 1."""
    runs = len(marks)
    if not runs:
        return {"value": None, "low": None, "high": None, "rounds": 0}
    share, z = sum(marks) / runs, 1.96
    middle, scale = share + z * z / (2 * runs), 1 + z * z / runs
    half = z * sqrt(share * (1 - share) / runs + z * z / (4 * runs * runs))
    low, high = (middle - half) / scale, (middle + half) / scale
    return {"value": round(share, 4), "low": round(low, 4), "high": round(high, 4), "rounds": runs}


def _false_differences(rates: list[float]) -> dict[str, float | int | None]:
    """Of each window of rounds every assignment of the two runs of a round to the two sides, up to the names."""
    pairs = [*zip(rates[::2], rates[1::2], strict=False)]
    shares = []
    for start in range(0, len(pairs) - _AA_ROUNDS + 1, _AA_ROUNDS):
        window = pairs[start : start + _AA_ROUNDS]
        differences = [_differs(window, (False, *swaps)) for swaps in product((False, True), repeat=_AA_ROUNDS - 1)]
        shares.append(sum(differences) / len(differences))
    return level(shares) if shares else {"value": None, "low": None, "high": None, "rounds": 0}


def _differs(window: list[tuple[float, float]], swapped: tuple[bool, ...]) -> bool:
    sides = [(b, a) if swap else (a, b) for (a, b), swap in zip(window, swapped, strict=True)]
    found = ratio([a for a, _ in sides], [b for _, b in sides])
    return found["low"] is not None and found["high"] is not None and not found["low"] <= 1 <= found["high"]


if __name__ == "__main__":
    main()
