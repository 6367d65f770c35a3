"""Warm-up of systems with a just-in-time compiler: short runs that do not count, until the rate no longer rises.

A Java virtual machine interprets new code and compiles what it executes often. For seconds after its start, and after
each new kind of workload, its rate depends more on the compiler than on the system.
"""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final
from weakref import WeakKeyDictionary

from mqlab.events.folder import RunFolder
from mqlab.events.schema import COMPLETE
from mqlab.runner.agents.handle import AgentHandle
from mqlab.runner.run import RunExecution
from mqlab.study import Phases, Point
from mqlab.systems import Running, System

_MEASURE_SECONDS: Final = 1.0
_MAX_RUNS: Final = 10
# The warm-up ends after two runs in a row that are not faster than the fastest before by this factor.
_FASTER: Final = 1.1
# Above the number of every run, so that destinations of warm-up runs have their own names.
_FIRST_NUMBER: Final = 1_000_000

# Workloads of different kinds use different code of the system.
_Kind = tuple[str, str, bool, bool]


class Warmup:
    """Plays the warm-up runs. `played` is their number, by the label of the system."""

    def __init__(self, data: Path) -> None:
        self.played: dict[str, int] = {}
        self._data = data
        self._warm: WeakKeyDictionary[Running, set[_Kind]] = WeakKeyDictionary()
        self._number = _FIRST_NUMBER

    def is_due(self, point: Point, system: System, running: Running) -> bool:
        return system.compiles and _kind(point) not in self._warm.get(running, ())

    async def play(
        self, point: Point, system: System, running: Running, agents: Sequence[AgentHandle],
        watch: Callable[[str, float], None],
    ) -> None:  # fmt: skip
        """It raises nothing but cancellation: the run that follows reports what is wrong with the system."""
        self._warm.setdefault(running, set()).add(_kind(point))
        folder = RunFolder.create(self._data, "warm-up")
        rates: list[float] = []
        while len(rates) < _MAX_RUNS and not _is_warm(rates):
            self._number += 1
            run = RunExecution(
                number=self._number, study="", point=_shorten(point), system=system, repetition=1, folder=folder,
                agents=agents, watch=watch, record=False, watch_noise=False,
            )  # fmt: skip
            try:
                outcome = await run.play(running)
            except OSError:
                # The disk is full.
                return
            if outcome.status != COMPLETE:
                return
            rates.append(outcome.rate(run.point))
            self.played[system.label] = self.played.get(system.label, 0) + 1


def _kind(point: Point) -> _Kind:
    return point.pattern, point.domain, point.persistent, point.transaction > 0


def _shorten(point: Point) -> Point:
    """The point as a run of one second at the highest rate."""
    phases = Phases(warmup=0, measure=_MEASURE_SECONDS, drain=point.phases.drain)
    work = {
        "load": "both",
        "messages": None,
        "preload": 0,
        "rate": None,
        "profile": "",
        "think": 0.0,
        "consume_rate": None,
        "faults": "",
    }
    return point.model_copy(update={**work, "phases": phases})


def _is_warm(rates: Sequence[float]) -> bool:
    before, last = rates[:-2], rates[-2:]
    return bool(before) and max(last) <= _FASTER * max(before)
