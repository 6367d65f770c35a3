"""One run: prepare the agents, start them together, let them drain, and write what belongs to the run as a whole."""

import asyncio
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final

from mqlab.events.folder import RunFolder
from mqlab.events.recorder import rows_of
from mqlab.events.schema import COMPLETE, DRAIN, INCOMPLETE, MEASURE, WARM_UP
from mqlab.load.agents import AgentLostError, AgentProcess
from mqlab.load.assignment import Assignment, dealt, roles_of
from mqlab.load.roles import Timeline
from mqlab.load.sampler import Sampler
from mqlab.study import Point
from mqlab.systems import Running, System

# From the word to the start: more than it takes to tell every agent.
_LEAD_SECONDS: Final = 0.05
_POLL_SECONDS: Final = 0.01
# An agent that must stop has this long to write its events.
_FINISH_SECONDS: Final = 20.0
# Producers that are held back at the end of the measure phase have the drain phase, and this, to finish.
_GRACE_SECONDS: Final = 5.0


class BrokenRunError(Exception):
    """The run cannot be completed."""


@dataclass(frozen=True)
class Outcome:
    status: str
    reason: str = ""
    counted_sent: int = 0
    counted_received: int = 0


@dataclass
class OneRun:
    number: int
    study: str
    point: Point
    system: System
    repetition: int
    folder: RunFolder
    agents: Sequence[AgentProcess]
    watch: Callable[[str, float], None]
    # Off only to measure what recording costs.
    record: bool = True

    async def play(self, running: Running) -> Outcome:
        """Never raises but for cancellation: a run that breaks is an incomplete run, with the reason."""
        sampler: Sampler | None = None
        timeline: Timeline | None = None
        outcome = Outcome(INCOMPLETE, "interrupted")
        try:
            sampler = Sampler(running, self.agents)
            await self._prepare(running)
            start = time.monotonic_ns() + round(_LEAD_SECONDS * 1e9)
            timeline = Timeline.of(self.point, start)
            outcome = await self._play(timeline, sampler)
        except (AgentLostError, BrokenRunError) as error:
            outcome = Outcome(INCOMPLETE, str(error))
        finally:
            if sampler is not None:
                await sampler.stop()
            if outcome.status != COMPLETE:
                await self._abandon()
            self._write(timeline, sampler.rows if sampler else [], outcome)
        return outcome

    async def _prepare(self, running: Running) -> None:
        self.watch("prepare", 0)
        clocks = [await agent.clock() for agent in self.agents]
        self._table("clocks", [
            {"agent": agent.number, "offset": offset, "error": error}
            for agent, (offset, error) in zip(self.agents, clocks, strict=True)
        ])  # fmt: skip
        hands = dealt(roles_of(self.point), len(self.agents))
        self._table("roles", [
            {"agent": agent.number, **asdict(role)}
            for agent, hand in zip(self.agents, hands, strict=True) for role in hand
        ])  # fmt: skip
        assignments = [
            Assignment(
                self.number, agent.number, self.point, self.system.driver, running.address, hand,
                str(self.folder.path) if self.record else None,
            )
            for agent, hand in zip(self.agents, hands, strict=True)
        ]
        # Those with consumers first: a topic's message reaches only those who are there.
        order = sorted(zip(self.agents, assignments, strict=True), key=lambda pair: _only_produces(pair[1]))
        for agent, assignment in order:
            _check(await agent.ask("prepare", assignment=assignment.to_json()))

    async def _play(self, timeline: Timeline, sampler: Sampler) -> Outcome:
        phases = self.point.phases
        self.watch(WARM_UP, phases.warmup)
        turn = asyncio.get_running_loop().call_later(
            _LEAD_SECONDS + phases.warmup, self.watch, MEASURE, phases.measure
        )
        try:
            answers = await self._played(timeline, sampler)
        finally:
            turn.cancel()
        for answer in answers:
            _check(answer)
        expected: dict[int, int] = {}
        for answer in answers:
            for at, messages in answer["sent"].items():
                expected[int(at)] = expected.get(int(at), 0) + messages
        self.watch(DRAIN, phases.drain)
        await self._drain(expected)
        counted = [_check(answer)["counted_received"] for answer in await self._finish()]
        if sampler.failed is not None:
            raise BrokenRunError(str(sampler.failed))
        return Outcome(COMPLETE, "", sum(answer["counted_sent"] for answer in answers), sum(counted))

    async def _played(self, timeline: Timeline, sampler: Sampler) -> list[dict[str, Any]]:
        """The agents' answers, once their producers are done; sooner if an agent or the system is gone."""
        phases = self.point.phases
        seconds = (timeline.stop - time.monotonic_ns()) / 1e9 + phases.drain + _GRACE_SECONDS
        starts = [agent.ask("start", timeout=seconds, start=timeline.start) for agent in self.agents]
        playing = asyncio.ensure_future(asyncio.gather(*starts))
        trouble = [asyncio.ensure_future(agent.lost()) for agent in self.agents]
        trouble.append(asyncio.ensure_future(sampler.failure()))
        try:
            await asyncio.wait((playing, *trouble), return_when=asyncio.FIRST_COMPLETED)
            if not playing.done():
                lost = [agent.number for agent, task in zip(self.agents, trouble, strict=False) if task.done()]
                raise BrokenRunError(f"agent {lost[0]} ended in mid-run" if lost else str(sampler.failed))
            answers: list[dict[str, Any]] = playing.result()
            return answers
        finally:
            for task in (playing, *trouble):
                task.cancel()
            await asyncio.gather(playing, *trouble, return_exceptions=True)

    async def _drain(self, expected: dict[int, int]) -> None:
        """Until every subscription has what was sent to it, or the time for it is up: the audit tells which."""
        deadline = time.monotonic() + self.point.phases.drain
        while time.monotonic() < deadline:
            received: dict[tuple[int, int], int] = {}
            for agent in self.agents:
                for at, subscription, count in _check(await agent.ask("received"))["received"]:
                    received[at, subscription] = received.get((at, subscription), 0) + count
            if all(count >= expected.get(at, 0) for (at, _), count in received.items()):
                return
            await asyncio.sleep(_POLL_SECONDS)

    async def _finish(self) -> list[dict[str, Any]]:
        return list(await asyncio.gather(*(agent.ask("finish") for agent in self.agents)))

    async def _abandon(self) -> None:
        """Let the agents write what they have; one that cannot is not waited for."""
        asked = (agent.ask("finish", timeout=_FINISH_SECONDS) for agent in self.agents)
        await asyncio.gather(*asked, return_exceptions=True)

    def _write(self, timeline: Timeline | None, samples: list[dict[str, Any]], outcome: Outcome) -> None:
        if timeline is not None:
            self._table("phases", [
                {"phase": WARM_UP, "t_start": timeline.start, "t_end": timeline.measure},
                {"phase": MEASURE, "t_start": timeline.measure, "t_end": timeline.stop},
                {"phase": DRAIN, "t_start": timeline.stop, "t_end": max(timeline.stop, time.monotonic_ns())},
            ])  # fmt: skip
        self._table("samples", samples)
        self._table("runs", [{
            "study": self.study, "scenario": self.point.scenario, "point": self.point.name,
            "system": self.system.label, "repetition": self.repetition, "parameters": self.point.to_json(),
            "status": outcome.status, "reason": outcome.reason,
            "counted_sent": outcome.counted_sent, "counted_received": outcome.counted_received,
        }])  # fmt: skip

    def _table(self, table: str, rows: list[dict[str, Any]]) -> None:
        complete = rows_of(table, ({"run": self.number, **row} for row in rows))
        self.folder.write_events(table, f"run-{self.number:05d}", complete)


def _check(answer: dict[str, Any]) -> dict[str, Any]:
    if "error" in answer:
        raise BrokenRunError(answer["error"])
    return answer


def _only_produces(assignment: Assignment) -> bool:
    return all(role.role == "producer" for role in assignment.roles)
