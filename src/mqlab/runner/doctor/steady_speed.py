"""Whether the processors are always as fast: in a virtual machine neither steal nor the frequency has to tell."""

import os
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from statistics import median, quantiles
from typing import Final

from mqlab.runner.doctor.machine_finding import MachineFinding, Weight

# All loops together take so long.
_SECONDS: Final = 1.0
# Of a machine with more processors, so many of them: each needs some repetitions.
_MOST_CORES: Final = 8
_LEAST_LOOPS: Final = 10
# Some milliseconds: shorter than a time slice, and much longer than a reading of the clock.
_ROUNDS: Final = 50_000
_LITTLE_SPREAD: Final = 0.03
_MUCH_SPREAD: Final = 0.10


def steady_speed_check() -> MachineFinding:
    return finding_of(loop_seconds())


def loop_seconds(seconds: float = _SECONDS) -> dict[int, list[float]]:
    """The processor time of each repetition of a fixed loop, by processor."""
    usable = sorted(os.sched_getaffinity(0))
    chosen = usable[:: -(-len(usable) // _MOST_CORES)]
    return {core: [*_loops(core, seconds / len(chosen))] for core in chosen}


def finding_of(timings: Mapping[int, Sequence[float]]) -> MachineFinding:
    spreads = {core: spread(seconds) for core, seconds in timings.items()}
    worst = max(spreads, key=spreads.__getitem__)
    measured = f"a fixed loop takes {spreads[worst]:.0%} more or less time on processor {worst}"
    if spreads[worst] <= _LITTLE_SPREAD:
        return MachineFinding("steady speed", "fine", measured)
    weight: Weight = "some" if spreads[worst] <= _MUCH_SPREAD else "much"
    effect = "rates scatter as much from moment to moment, and neither steal nor frequency has to show it"
    cure = "use a machine that shares no processors, or compare only what took turns (mqlab compare)"
    return MachineFinding("steady speed", weight, measured, effect, cure)


def spread(seconds: Sequence[float]) -> float:
    """From the 10th to the 90th percentile, as a share of the median: single hiccups do not count."""
    tenths = quantiles(seconds, n=10, method="inclusive")
    return (tenths[-1] - tenths[0]) / median(seconds)


def _loops(core: int, seconds: float) -> Iterator[float]:
    with _pinned(core):
        end, count = time.perf_counter() + seconds, 0
        while count < _LEAST_LOOPS or time.perf_counter() < end:
            # Processor time, since other processes of this machine are the matter of another check.
            begin = time.thread_time()
            for _ in range(_ROUNDS):
                pass
            yield time.thread_time() - begin
            count += 1


@contextmanager
def _pinned(core: int) -> Iterator[None]:
    """Let this thread run on one processor only."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {core})
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)
