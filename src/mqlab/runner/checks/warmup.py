"""Before a run counts, a system that compiles as it runs is played with until it gets no quicker.

What is new to it, a Java virtual machine interprets; what it does often, it compiles. For seconds after its start, and
again with each new kind of work, a rate would tell how far it has come with that, and little of the system.
"""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final
from weakref import WeakKeyDictionary

from mqlab.events.folder import RunFolder
from mqlab.events.schema import COMPLETE
from mqlab.runner.agents.handle import AgentProcess
from mqlab.runner.run import RunExecution
from mqlab.study import Phases, Point
from mqlab.systems import Running, System

_MEASURE_SECONDS: Final = 1.0
_MOST: Final = 10
# Two in a row that are not so much quicker than those before, and it is enough.
_QUICKER: Final = 1.1
# Above the number of any run: their destinations have names of their own.
_FIRST_NUMBER: Final = 1_000_000

# What needs other parts of a system, and of its client.
_Kind = tuple[str, str, bool, bool]


class Warmup:
    """Nothing of them is recorded but how many there were, by the label of the system."""

    def __init__(self, data: Path) -> None:
        self.played: dict[str, int] = {}
        self._data = data
        self._known: WeakKeyDictionary[Running, set[_Kind]] = WeakKeyDictionary()
        self._number = _FIRST_NUMBER

    def are_due(self, point: Point, system: System, running: Running) -> bool:
        return system.compiles and _kind(point) not in self._known.get(running, ())

    async def play(
        self, point: Point, system: System, running: Running, agents: Sequence[AgentProcess],
        watch: Callable[[str, float], None],
    ) -> None:  # fmt: skip
        """Never raises but for cancellation: what is wrong with the system, the run that follows will tell."""
        self._known.setdefault(running, set()).add(_kind(point))
        folder = RunFolder.create(self._data, "rehearsals")
        rates: list[float] = []
        while len(rates) < _MOST and not _is_enough(rates):
            self._number += 1
            one = RunExecution(
                number=self._number, study="", point=_shortened(point), system=system, repetition=1, folder=folder,
                agents=agents, watch=watch, record=False,
            )  # fmt: skip
            try:
                outcome = await one.play(running)
            except OSError:
                # The system has filled the disk, and its records, which nobody wants, did not fit on it.
                return
            if outcome.status != COMPLETE:
                return
            rates.append(outcome.rate(one.point))
            self.played[system.label] = self.played.get(system.label, 0) + 1


def _kind(point: Point) -> _Kind:
    return point.pattern, point.domain, point.persistent, point.transaction > 0


def _shortened(point: Point) -> Point:
    """As much as can be done in a second, whatever the point is about."""
    phases = Phases(warmup=0, measure=_MEASURE_SECONDS, drain=point.phases.drain)
    work = {"load": "both", "messages": None, "preload": 0, "rate": None, "consume_rate": None}
    return point.model_copy(update={**work, "phases": phases})


def _is_enough(rates: Sequence[float]) -> bool:
    before, last = rates[:-2], rates[-2:]
    return bool(before) and max(last) <= _QUICKER * max(before)
