"""One run: prepare the agents, start them together, let them drain, and write what belongs to the run as a whole."""

import asyncio
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from mqlab.events.folder import RunFolder
from mqlab.events.schema import COMPLETE, DRAIN, INCOMPLETE, MEASURE, PRELOAD, WARM_UP
from mqlab.runner.agents.assignment import Assignment, dealt
from mqlab.runner.agents.group import AgentGroup, Answer, sent_to
from mqlab.runner.agents.handle import AgentLostError, AgentProcess, BrokenRunError
from mqlab.runner.broker_location import BrokerLocation, site_of
from mqlab.runner.run_records import RunOutcome, RunRecords
from mqlab.runner.sampling.sampler import Sampler
from mqlab.runner.standing_queues import StandingQueues
from mqlab.runner.timeline import Timeline
from mqlab.study import Point
from mqlab.systems import Running, System, SystemFailedError

# What a client sees first, its process may tell a moment later.
_LAST_WORDS_SECONDS: Final = 0.5
# From the word to the start: more than it takes to tell every agent.
_LEAD_SECONDS: Final = 0.02
# Producers that are held back at the end of the measure phase have the drain phase, and this, to finish.
_GRACE_SECONDS: Final = 5.0

__all__ = ["RunExecution", "RunOutcome"]


@dataclass
class RunExecution:
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
    # Where brokers inside the agents have their data. None: in the run folder.
    data: Path | None = None
    _phases: list[dict[str, Any]] = field(default_factory=list)
    _samples: list[dict[str, Any]] = field(default_factory=list)
    _timeline: Timeline | None = None
    _measured_until: int = 0
    _drained: int = 0

    async def play(self, running: Running | None) -> RunOutcome:
        """On a system that is up; with None, the agents have their brokers inside.

        Never raises but for cancellation: a run that breaks is an incomplete run, with the reason.
        """
        records = RunRecords(self.folder, self.number)
        outcome = RunOutcome(INCOMPLETE, "interrupted")
        data = (self.data or self.folder.path) / f"hosted-{self.number}"
        try:
            async with site_of(self.point, self.system, running, self.agents, data) as site:
                outcome = await self._on(site, records)
        except (AgentLostError, BrokenRunError, SystemFailedError) as error:
            outcome = RunOutcome(INCOMPLETE, await _why(error, running))
        finally:
            self._write(records, outcome)
        return outcome

    def failed(self, reason: str) -> RunOutcome:
        """The record of a run that could not even begin."""
        outcome = RunOutcome(INCOMPLETE, reason)
        self._write(RunRecords(self.folder, self.number), outcome)
        return outcome

    async def _on(self, site: BrokerLocation, records: RunRecords) -> RunOutcome:
        crew, sampler, outcome = AgentGroup(self.agents), None, None
        try:
            clients = [agent for agent in self.agents if agent not in site.hosts]
            sampler = Sampler(site.brokers, clients, None if self.point.messages else self.point.phases.measure)
            assignments = await self._prepare(crew, site, records)
            outcome = await self._play(crew, site, sampler, assignments)
        finally:
            if sampler is not None:
                await sampler.stop()
                self._samples = sampler.rows
            if outcome is None:
                await crew.abandon()
        traced = [await broker.operations() for broker in site.brokers.values()]
        records.operations([table for table in traced if table is not None])
        return outcome

    async def _prepare(self, crew: AgentGroup, site: BrokerLocation, records: RunRecords) -> list[Assignment]:
        self.watch("prepare", 0)
        records.clocks(self.agents, [await agent.clock() for agent in self.agents])
        hands = dealt(self.point, len(self.agents))
        records.roles(self.agents, hands)
        folder = str(self.folder.path) if self.record else None
        assignments = [
            Assignment(
                self.number,
                agent.number,
                self.point,
                self.system.driver,
                address,
                hand,
                folder,
                site.remote,
                dict(site.near.options),
                site.near.tag,
            )
            for agent, address, hand in zip(self.agents, site.addresses, hands, strict=True)
        ]
        await crew.prepare(assignments)
        return assignments

    async def _play(
        self, crew: AgentGroup, site: BrokerLocation, sampler: Sampler, assignments: list[Assignment]
    ) -> RunOutcome:
        point = self.point
        queues = StandingQueues(self.number, point, self.system.driver, site)
        await self._preload(crew, queues, sampler, assignments)
        timeline = self._timeline = Timeline.of(point, time.monotonic_ns() + round(_LEAD_SECONDS * 1e9))
        answers = await self._started(crew, timeline, sampler)
        sent_by_queue = sent_to(answers)
        if point.messages is None:
            self.watch(DRAIN, point.phases.drain)
        await crew.drain(sent_by_queue, point.phases.drain)
        finished = await crew.finish()
        self._drained = time.monotonic_ns()
        if sampler.failed is not None:
            raise BrokenRunError(str(sampler.failed))
        self._measured_until = timeline.stop if point.messages is None else self._last(finished)
        await queues.check_left(sent_by_queue)
        counts = (sum(one[f"counted_{what}"] for one in finished) for what in ("sent", "received", "round_trips"))
        sent, received, round_trips = counts
        seconds = (self._measured_until - timeline.measure) / 1e9
        return RunOutcome(COMPLETE, "", sent, received, round_trips, seconds)

    async def _preload(
        self, crew: AgentGroup, queues: StandingQueues, sampler: Sampler, assignments: list[Assignment]
    ) -> None:
        """What must be there before the start."""
        point, begin = self.point, time.monotonic_ns()
        if not point.preload and point.load != "receive":
            return
        self.watch(PRELOAD, 0)
        if point.preload:
            await queues.preload([*self.agents])
        if point.load == "receive":
            if point.messages is None:
                raise BrokenRunError("load: receive needs messages: how many there are to receive")
            patience = point.phases.drain + _GRACE_SECONDS
            sent = sent_to(await crew.play("fill", begin, sampler, seconds=None, patience=patience))
            await queues.check_filled(sent, assignments)
        self._phase(PRELOAD, begin, time.monotonic_ns())

    async def _started(self, crew: AgentGroup, timeline: Timeline, sampler: Sampler) -> list[Answer]:
        """The agents' answers, once those that begin are done."""
        point, phases = self.point, self.point.phases
        patience = phases.drain + _GRACE_SECONDS
        if point.messages is not None:
            self.watch(MEASURE, 0)
            return await crew.play("start", timeline.start, sampler, seconds=None, patience=patience)
        self.watch(WARM_UP, phases.warmup)
        turn = asyncio.get_running_loop().call_later(_LEAD_SECONDS + phases.warmup, self.watch, MEASURE, phases.measure)
        try:
            seconds = (timeline.stop - time.monotonic_ns()) / 1e9 + patience
            return await crew.play("start", timeline.start, sampler, seconds=seconds, patience=patience)
        finally:
            turn.cancel()

    def _last(self, finished: list[Answer]) -> int:
        """Just after the last receipt or, if nobody receives, after the system had taken the last message."""
        which = "last_sent" if self.point.load == "send" else "last_received"
        return (max(one[which] for one in finished) or time.monotonic_ns()) + 1

    def _phase(self, phase: str, start: int, end: int) -> None:
        self._phases.append({"phase": phase, "t_start": start, "t_end": end})

    def _write(self, records: RunRecords, outcome: RunOutcome) -> None:
        timeline, now = self._timeline, self._drained or time.monotonic_ns()
        if timeline is not None:
            until = self._measured_until or (timeline.stop if self.point.messages is None else now)
            if timeline.measure > timeline.start:
                self._phase(WARM_UP, timeline.start, timeline.measure)
            self._phase(MEASURE, timeline.measure, until)
            self._phase(DRAIN, until, max(until, now))
        records.write("phases", self._phases)
        records.write("samples", self._samples)
        records.write("runs", [{
            "study": self.study, "scenario": self.point.scenario, "point": self.point.name,
            "system": self.system.label, "repetition": self.repetition, "parameters": self.point.to_json(),
            "status": outcome.status, "reason": outcome.reason, "counted_sent": outcome.counted_sent,
            "counted_received": outcome.counted_received, "counted_round_trips": outcome.counted_round_trips,
        }])  # fmt: skip


async def _why(error: Exception, running: Running | None) -> str:
    """The reason, with the last words of a system that is gone: a client knows only that it is not there any more."""
    said, deadline = str(error), time.monotonic() + _LAST_WORDS_SECONDS
    while running is not None and time.monotonic() < deadline:
        try:
            async with asyncio.timeout(_LAST_WORDS_SECONDS):
                await running.sample()
        except SystemFailedError as gone:
            return said if str(gone) in said else f"{said}; {gone}"
        except TimeoutError:
            break
        await asyncio.sleep(_LAST_WORDS_SECONDS / 10)
    return said
