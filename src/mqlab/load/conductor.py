"""The conductor: every point of a study on every system, repeated until it is known, systems interleaved."""

import shutil
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from mqlab import __version__
from mqlab.events.folder import RunFolder
from mqlab.events.schema import COMPLETE, INCOMPLETE
from mqlab.load.agents import AgentLostError, AgentProcess
from mqlab.load.machine import machine, packages
from mqlab.load.run import OneRun, Outcome
from mqlab.study import Point, Study
from mqlab.systems import Running, System

# After a broken run an agent that does not answer a simple question so long is replaced.
_ALIVE_SECONDS = 10.0


@dataclass(frozen=True)
class Progress:
    """Where the work stands, for whoever shows it."""

    runs_done: int
    # What is to come if no point needs more than the least number of runs.
    runs_expected: int
    label: str
    phase: str
    phase_seconds: float


@dataclass(frozen=True)
class Order:
    """What was asked for."""

    study: Study
    scale: str
    points: Sequence[Point]
    systems: Sequence[System]
    agents: int = 2
    command: str = ""


class Conductor:
    """Agents and systems stay up from the first point to the last; `conduct` ends them in any case."""

    def __init__(self, order: Order, folder: RunFolder, watch: Callable[[Progress], None]) -> None:
        self._order = order
        self._folder = folder
        self._watch = watch
        self._agents: list[AgentProcess] = []
        self._running: dict[str, Running] = {}
        # Data of the systems: on the same disk as the records, gone when the work is done.
        self._data = Path(tempfile.mkdtemp(prefix=".systems-", dir=folder.path))
        self._starts = 0
        self._runs = 0
        self._expected = sum(point.repeat.least for point in order.points) * len(order.systems)
        self._meta: dict[str, Any] = {}

    async def conduct(self) -> None:
        """Raises SystemFailedError if a system cannot be started at all. A cancelled one leaves what it has."""
        self._begin()
        try:
            for number in range(1, self._order.agents + 1):
                self._agents.append(await AgentProcess.start(number))
            for point in self._order.points:
                await self._point(point)
            self._meta["status"] = COMPLETE
        finally:
            self._meta["finished"] = _now()
            self._folder.write_meta(self._meta)
            for running in self._running.values():
                await running.stop()
            for agent in self._agents:
                await agent.stop()
            shutil.rmtree(self._data, ignore_errors=True)

    def _begin(self) -> None:
        order = self._order
        order.study.copy(self._folder.study)
        self._meta = {
            "id": self._folder.path.name,
            "study": order.study.id,
            "title": order.study.title,
            "scale": order.scale,
            "status": INCOMPLETE,
            "started": _now(),
            "finished": None,
            "command": order.command,
            "mqlab": __version__,
            "systems": [system.describe() for system in order.systems],
            "machine": machine(self._data),
            "packages": packages(),
        }
        self._folder.write_meta(self._meta)

    async def _point(self, point: Point) -> None:
        """Round after round over the systems that are not known well enough."""
        rates: dict[str, list[float]] = {system.label: [] for system in self._order.systems}
        for repetition in range(1, point.repeat.most + 1):
            unknown = [system for system in self._order.systems if not _known(point, rates[system.label], repetition)]
            if not unknown:
                return
            self._expected += len(unknown) if repetition > point.repeat.least else 0
            for system in unknown:
                outcome = await self._run(point, system, repetition)
                if outcome.status == COMPLETE:
                    rates[system.label].append(outcome.counted_received / point.phases.measure)

    async def _run(self, point: Point, system: System, repetition: int) -> Outcome:
        running = await self._up(system)
        self._runs += 1
        one = OneRun(
            number=self._runs, study=self._order.study.id, point=point, system=system, repetition=repetition,
            folder=self._folder, agents=self._agents, watch=lambda phase, seconds: self._say(point, phase, seconds),
        )  # fmt: skip
        outcome = await one.play(running)
        if outcome.status != COMPLETE:
            await self._mend(system)
        return outcome

    async def _up(self, system: System) -> Running:
        """Running and empty."""
        running = self._running.get(system.label)
        if running is not None and await running.empty():
            return running
        if running is not None:
            await running.stop()
        self._starts += 1
        folder = self._data / f"{self._starts}-{system.name}"
        self._running[system.label] = await system.start(folder)
        return self._running[system.label]

    async def _mend(self, system: System) -> None:
        """After a run that broke: a new system, and new agents for those that are gone."""
        broken = self._running.pop(system.label, None)
        if broken is not None:
            await broken.stop()
        for index, agent in enumerate(self._agents):
            try:
                await agent.ask("clock", timeout=_ALIVE_SECONDS)
            except AgentLostError:
                await agent.stop()
                self._agents[index] = await AgentProcess.start(agent.number)

    def _say(self, point: Point, phase: str, seconds: float) -> None:
        self._watch(Progress(self._runs - 1, self._expected, point.label, phase, seconds))


def _known(point: Point, rates: list[float], repetition: int) -> bool:
    repeat = point.repeat
    if repetition <= repeat.least:
        return False
    return repeat.until is not None and repeat.until.known(rates)


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
