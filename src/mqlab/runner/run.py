"""One run: prepare the agents, start them together, let the system drain, and record the run as a whole."""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final, TypeVar

import pyarrow as pa

from mqlab.events import schema  # fmt: skip
from mqlab.events.folder import RunFolder, run_name
from mqlab.events.recorder import event_table
from mqlab.json_values import JsonObject
from mqlab.runner.agents.assignment import Assignment, assign_roles
from mqlab.runner.agents.group import AgentGroup, sent_by_destination
from mqlab.runner.agents.handle import AgentLostError, AgentProcess, BrokenRunError
from mqlab.runner.agents.pacing import AHEAD_SECONDS
from mqlab.runner.broker_location import BrokerLocation, locate_brokers
from mqlab.runner.faults.injector import FaultInjector, has_line_faults
from mqlab.runner.faults.line import ControlledLine, open_line
from mqlab.runner.noise import MachineWatch
from mqlab.runner.sampler import Sampler
from mqlab.runner.standing_queues import StandingQueues
from mqlab.runner.timeline import Timeline
from mqlab.study import Point
from mqlab.study.steadiness import MAX_GAP, is_judged
from mqlab.systems import Running, System, SystemFailedError

Row = TypeVar("Row", bound=schema.EventRow)
# The reason of a run that the end of the lab ended.
INTERRUPTED: Final = "interrupted"


@dataclass(frozen=True)
class RunOutcome:
    """`counted_*` are the agents' own counts over the measure phase, which took `seconds`.

    `copies`: arrivals for each message sent. `disturbed`, `unsteady`: why a complete run decides nothing, or "".
    """

    status: str
    reason: str = ""
    counted_sent: int = 0
    counted_received: int = 0
    counted_round_trips: int = 0
    seconds: float = 0.0
    copies: float = 1.0
    disturbed: str = ""
    unsteady: str = ""

    def rate(self, point: Point) -> float:
        """The rate that the repetition rule of the point looks at."""
        return self.rates(point)["rate.work"]

    def rates(self, point: Point) -> dict[str, float]:
        """All rates by metric."""
        counted = {
            "rate.sent": self.counted_sent, "rate.received": self.counted_received,
            "rate.round_trips": self.counted_round_trips,
        }  # fmt: skip
        return {name: count / self.seconds for name, count in (*counted.items(), ("rate.work", counted[point.work]))}


def why_unsteady(point: Point, outcome: RunOutcome, drained_s: float) -> str:
    """An early judgement from the agents' counts; the pipeline makes the final one. "" if nothing speaks against it.

    `drained_s`: from the last send to the last receipt. The last message took at least that long.
    """
    if not is_judged(point):
        return ""
    if drained_s > point.phases.warmup:
        return f"a latency of {drained_s:.3g} s was longer than the warm-up"
    expected = outcome.copies * outcome.counted_sent
    gap = abs(outcome.counted_received - expected)
    # Messages that a sender sends at once may be counted before the edge of a phase, and arrive behind it.
    senders = point.producers + point.requesters
    at_once = max(1, point.transaction, min(point.batch, expected / outcome.seconds * AHEAD_SECONDS / 2 / senders))
    is_gap = gap > max(MAX_GAP * expected, outcome.copies * at_once * senders)
    if not is_gap:
        return ""
    return f"arrivals differ from sends by {gap / expected:.0%}" if expected else "nothing was sent while messages came"


class RunRecords:
    """Writes events of one run, each table at most once."""

    def __init__(self, folder: RunFolder, run: int) -> None:
        self._folder = folder
        self._run = run
        self._name = run_name(run)

    def write(self, table: type[Row], rows: Sequence[Row]) -> None:
        complete = event_table(table.table, ({"run": self._run, **vars(row)} for row in rows))
        self._folder.write_events(table.table, self._name, complete)

    def write_travel(self, rows: Sequence[JsonObject]) -> None:
        """Write the travel of all roles, as the agents report it."""
        table = event_table("travel", ({"run": self._run, **row} for row in rows))
        self._folder.write_events("travel", self._name, table)

    def write_operations(self, traces: Sequence[pa.Table]) -> None:
        """Write the activity traces of the systems; a system without a trace gets no file."""
        if traces:
            names = [name for name in schema.TABLES["operations"].names if name != "run"]
            operations = pa.concat_tables([trace.select(names) for trace in traces])
            runs = pa.repeat(pa.scalar(self._run, pa.int32()), len(operations))
            self._folder.write_events("operations", self._name, operations.add_column(0, "run", runs))


# A client notices the end of a system sooner than the lab notices the end of its process.
_DIAGNOSIS_SECONDS: Final = 0.5
# From the start command to the start: more than it takes to send it to every agent.
_START_DELAY_SECONDS: Final = 0.02
# Producers that flow control blocks at the end of the measure phase have the drain phase, and this, to finish.
_GRACE_SECONDS: Final = 5.0
# In a run with faults, producers that are late have this time more: a killed system may take minutes to recover.
_RECOVERY_SECONDS: Final = 180.0


@dataclass
class RunExecution:
    """One run of a point on a system. `watch` is called with each phase and its length in seconds (0: not known)."""

    number: int
    study: str
    point: Point
    system: System
    repetition: int
    folder: RunFolder
    agents: Sequence[AgentProcess]
    watch: Callable[[str, float], None]
    # False only for measuring the cost of recording, and for the warm-up of systems.
    record: bool = True
    # The folder for the data of brokers that agents host. None: the run folder.
    data: Path | None = None
    # How often the run was played before, and discarded.
    extension: int = 0
    # False: the noise of the machine is not recorded.
    watch_noise: bool = True
    # The work of the machine; None before the end of the sends, or if the lab does not watch it.
    noise: schema.MachineRow | None = None
    _phases: list[schema.PhaseRow] = field(default_factory=list)
    _samples: list[schema.SampleRow] = field(default_factory=list)
    _travel: list[JsonObject] = field(default_factory=list)
    _injector: FaultInjector | None = None
    _timeline: Timeline | None = None
    _measure_end: int = 0
    _drain_end: int = 0

    async def play(self, running: Running | None) -> RunOutcome:
        """Play the run on a running system; with None, on brokers that the agents host.

        It raises nothing but cancellation: a run that breaks is an incomplete run with a reason.
        """
        records = RunRecords(self.folder, self.number)
        outcome = RunOutcome(schema.INCOMPLETE, INTERRUPTED)
        data = (self.data or self.folder.path) / f"hosted-{self.number}"
        try:
            async with (
                locate_brokers(self.point, self.system, running, self.agents, data) as location,
                self._lead_over_line(location) as (reached, line),
            ):
                outcome = await self._play_at(reached, line, records)
        except (AgentLostError, BrokenRunError, SystemFailedError) as error:
            outcome = RunOutcome(schema.INCOMPLETE, await _diagnose(error, running))
        finally:
            self._write(records, outcome)
        return outcome

    def record_failure(self, reason: str) -> RunOutcome:
        outcome = RunOutcome(schema.INCOMPLETE, reason)
        self._write(RunRecords(self.folder, self.number), outcome)
        return outcome

    @asynccontextmanager
    async def _lead_over_line(
        self, location: BrokerLocation
    ) -> AsyncIterator[tuple[BrokerLocation, ControlledLine | None]]:
        """The location as the agents reach it: over a line of the lab, if the point has faults of the line."""
        if not has_line_faults(self.point):
            yield location, None
            return
        async with open_line(location.first.address) as line:
            yield replace(location, addresses=[line.address] * len(self.agents)), line

    async def _play_at(self, location: BrokerLocation, line: ControlledLine | None, records: RunRecords) -> RunOutcome:
        group, sampler, outcome = AgentGroup(self.agents), None, None
        try:
            clients = [agent for agent in self.agents if agent not in location.hosts]
            sampler = Sampler(location.brokers, clients, None if self.point.messages else self.point.phases.measure)
            if self.point.faults:
                self._injector = FaultInjector(self.point, location.first, line, sampler)
            assignments = await self._prepare(group, location, records)
            outcome = await self._play_phases(group, location, sampler, assignments)
        finally:
            if sampler is not None:
                await sampler.stop()
                self._samples = sampler.rows
            if outcome is None:
                await group.abort()
        traces = [await broker.operations() for broker in location.brokers.values()]
        records.write_operations([trace for trace in traces if trace is not None])
        return outcome

    async def _prepare(self, group: AgentGroup, location: BrokerLocation, records: RunRecords) -> list[Assignment]:
        self.watch("prepare", 0)
        clocks = [(agent.number, *await agent.clock()) for agent in self.agents]
        records.write(
            schema.ClockRow,
            [schema.ClockRow(agent=agent, offset=offset, error=error) for agent, offset, error in clocks],
        )
        assigned = [*zip(self.agents, assign_roles(self.point, len(self.agents)), strict=True)]
        records.write(
            schema.RoleRow, [row for agent, roles in assigned for role in roles for row in role.rows(agent.number)]
        )
        assignments = [
            Assignment(
                run=self.number, agent=agent.number, point=self.point, driver=self.system.driver, address=address,
                roles=roles, folder=str(self.folder.path) if self.record else None, remote=location.remote,
                options=dict(location.first.options), tag=self._tag(location), packed=self.system.packed,
            )
            for (agent, roles), address in zip(assigned, location.addresses, strict=True)
        ]  # fmt: skip
        await group.prepare(assignments)
        return assignments

    def _tag(self, location: BrokerLocation) -> str:
        """Each extension has its own names too."""
        return f"{location.first.tag}{self.extension}-" if self.extension else location.first.tag

    async def _play_phases(
        self, group: AgentGroup, location: BrokerLocation, sampler: Sampler, assignments: list[Assignment]
    ) -> RunOutcome:
        point = self.point
        queues = StandingQueues(self.number, point, self.system.driver, location, self._tag(location))
        await self._preload(group, queues, sampler, assignments)
        machine = MachineWatch() if self.watch_noise else None
        timeline = self._timeline = Timeline.of(point, time.monotonic_ns() + round(_START_DELAY_SECONDS * 1e9))
        sent = sent_by_destination(await self._start(group, timeline, sampler))
        if machine is not None:
            self.noise = machine.end(system_known=location.is_known)
        if point.messages is None:
            self.watch(schema.DRAIN, point.phases.drain)
        await group.drain(sent, point.phases.drain, may_repeat=bool(point.faults))
        finished = await group.finish()
        self._drain_end = time.monotonic_ns()
        if sampler.failed is not None:
            raise BrokenRunError(str(sampler.failed))
        self._measure_end = timeline.stop if point.messages is None else self._end_of_work(finished)
        self._travel = [
            {"agent": agent.number, **row}
            for agent, answer in zip(self.agents, finished, strict=True) for row in answer["travel"]
        ]  # fmt: skip
        await queues.check_remaining(sent)
        counted = {
            name: sum(answer[name] for answer in finished)
            for name in ("counted_sent", "counted_received", "counted_round_trips")
        }
        totals = [sum(answer[name] for answer in finished) for name in ("sent", "received")]
        outcome = RunOutcome(
            schema.COMPLETE, **counted, seconds=(self._measure_end - timeline.measure) / 1e9,
            copies=totals[1] / totals[0] if all(totals) else 1.0, disturbed=self.noise.disturbed if self.noise else "",
        )  # fmt: skip
        drained_s = (max(answer["last_received"] for answer in finished) - timeline.stop) / 1e9
        return replace(outcome, unsteady=why_unsteady(point, outcome, drained_s))

    async def _preload(
        self, group: AgentGroup, queues: StandingQueues, sampler: Sampler, assignments: list[Assignment]
    ) -> None:
        """Fill the queues before the start, if the point says so."""
        point, begin = self.point, time.monotonic_ns()
        if not point.preload and point.load != "receive":
            return
        self.watch(schema.PRELOAD, 0)
        if point.preload:
            await queues.preload([*self.agents])
        if point.load == "receive":
            if point.messages is None:
                raise BrokenRunError("load: receive needs messages: how many there are to receive")
            idle_timeout_s = point.phases.drain + _GRACE_SECONDS
            answers = await group.play("fill", begin, sampler, timeout_s=None, idle_timeout_s=idle_timeout_s)
            await queues.check_filled(sent_by_destination(answers), assignments)
        self._add_phase(schema.PRELOAD, begin, time.monotonic_ns())

    async def _start(self, group: AgentGroup, timeline: Timeline, sampler: Sampler) -> list[JsonObject]:
        """The agents' answers, when their active roles are done."""
        phases = self.point.phases
        idle_timeout_s = phases.drain + _GRACE_SECONDS
        if self.point.messages is not None:
            self.watch(schema.MEASURE, 0)
            return await group.play("start", timeline.start, sampler, timeout_s=None, idle_timeout_s=idle_timeout_s)
        self.watch(schema.WARM_UP, phases.warmup)
        delay = _START_DELAY_SECONDS + phases.warmup
        timer = asyncio.get_running_loop().call_later(delay, self.watch, schema.MEASURE, phases.measure)
        try:
            timeout_s = (timeline.stop - time.monotonic_ns()) / 1e9 + idle_timeout_s
            timeout_s += _RECOVERY_SECONDS if self._injector else 0
            playing: Awaitable[list[JsonObject]] = group.play(
                "start", timeline.start, sampler, timeout_s=timeout_s, idle_timeout_s=idle_timeout_s
            )
            return await (self._injector.during(playing, timeline) if self._injector else playing)
        finally:
            timer.cancel()

    def _end_of_work(self, finished: list[JsonObject]) -> int:
        """Just after the last receipt or, without consumers, after the system had accepted the last message."""
        name = "last_sent" if self.point.load == "send" else "last_received"
        return (max(answer[name] for answer in finished) or time.monotonic_ns()) + 1

    def _add_phase(self, phase: str, start: int, end: int) -> None:
        self._phases.append(schema.PhaseRow(phase=phase, t_start=start, t_end=end))

    def _write(self, records: RunRecords, outcome: RunOutcome) -> None:
        timeline, drain_end = self._timeline, self._drain_end or time.monotonic_ns()
        if timeline is not None:
            measure_end = self._measure_end or (timeline.stop if self.point.messages is None else drain_end)
            if timeline.measure > timeline.start:
                self._add_phase(schema.WARM_UP, timeline.start, timeline.measure)
            self._add_phase(schema.MEASURE, timeline.measure, measure_end)
            self._add_phase(schema.DRAIN, measure_end, max(measure_end, drain_end))
        records.write(schema.PhaseRow, self._phases)
        if self._injector is not None:
            records.write(schema.FaultRow, self._injector.rows)
        records.write(schema.SampleRow, self._samples)
        records.write_travel(self._travel)
        records.write(schema.MachineRow, [self.noise] if self.noise else [])
        records.write(schema.RunRow, [schema.RunRow(
            study=self.study, scenario=self.point.scenario, point=self.point.name, system=self.system.label,
            repetition=self.repetition, parameters=self.point.to_json(), status=outcome.status,
            reason=outcome.reason, counted_sent=outcome.counted_sent, counted_received=outcome.counted_received,
            counted_round_trips=outcome.counted_round_trips,
        )])  # fmt: skip


async def _diagnose(error: Exception, running: Running | None) -> str:
    """The reason of the error. If the system has ended, also its own: a client only notices that it is gone."""
    reason, deadline = str(error), time.monotonic() + _DIAGNOSIS_SECONDS
    while running is not None and time.monotonic() < deadline:
        try:
            async with asyncio.timeout(_DIAGNOSIS_SECONDS):
                await running.sample()
        except SystemFailedError as failure:
            return reason if str(failure) in reason else f"{reason}; {failure}"
        except TimeoutError:
            break
        await asyncio.sleep(_DIAGNOSIS_SECONDS / 10)
    return reason
