"""One run: prepare the agents, start them together, let the system drain, and record the run as a whole."""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

from mqlab.events import schema  # fmt: skip
from mqlab.events.folder import RunFolder
from mqlab.json_values import JsonObject
from mqlab.runner.agents.assignment import Assignment, assign_roles
from mqlab.runner.agents.clock import ClockOffset
from mqlab.runner.agents.group import AgentGroup, sent_by_destination
from mqlab.runner.agents.handle import AgentHandle, AgentLostError, BrokenRunError
from mqlab.runner.broker_location import BrokerLocation, locate_brokers
from mqlab.runner.faults.injector import FaultInjector, has_line_faults
from mqlab.runner.faults.line import ControlledLine, open_line
from mqlab.runner.noise import MachineWatch
from mqlab.runner.results.cpu import CpuUse, cpu_use
from mqlab.runner.results.outcome import RunOutcome, why_unsteady
from mqlab.runner.results.records import RunRecords
from mqlab.runner.sampler import Sampler
from mqlab.runner.standing_queues import StandingQueues
from mqlab.runner.switching.slice_counts import WholePhase, count_slices
from mqlab.runner.switching.switcher import SwitchedRun, Switcher
from mqlab.runner.timeline import Timeline
from mqlab.study import Point
from mqlab.systems import Running, System, SystemFailedError

# The reason of a run that the end of the lab ended.
INTERRUPTED: Final = "interrupted"
# A client notices the end of a system sooner than the lab notices the end of its process.
_DIAGNOSIS_SECONDS: Final = 0.5
# From the start command to the start: more than it takes to send it to every agent of this machine; and round trips to
# the farthest agent.
_START_DELAY_SECONDS: Final = 0.02
_START_ROUND_TRIPS: Final = 3
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
    agents: Sequence[AgentHandle]
    watch: Callable[[str, float], None]
    # False only for measuring the cost of recording, and for the warm-up of systems.
    record: bool = True
    # The folder for the data of brokers that agents host. None: the run folder.
    data: Path | None = None
    # Called with each sample of the brokers, agents and the disk.
    observe: Callable[[schema.SampleRow], None] | None = None
    # How often the run was played before, and discarded.
    extension: int = 0
    # False: the noise of the machine is not recorded.
    watch_noise: bool = True
    # The runs that share the events of this one, which is the first of them; (): none does.
    switched: Sequence[SwitchedRun] = ()
    # The outcomes of these runs, once it is complete.
    switched_outcomes: list[RunOutcome] = field(default_factory=list)
    # The work of the machine; None before the end of the sends, or if the lab does not watch it.
    noise: schema.MachineRow | None = None
    _phases: list[schema.PhaseRow] = field(default_factory=list)
    _samples: list[schema.SampleRow] = field(default_factory=list)
    _travel: list[JsonObject] = field(default_factory=list)
    # The largest error of an agent's clock.
    clock_error_ns: int = 0
    # The clocks of the agents.
    _clocks: list[ClockOffset] = field(default_factory=list)
    _are_clocks_written: bool = False
    _injector: FaultInjector | None = None
    _switcher: Switcher | None = None
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
                if self._timeline is not None:
                    outcome = replace(outcome, cpu=self._cpu((self._timeline.measure, self._measure_end)))
                self._count_by_setting(outcome)
        except (AgentLostError, BrokenRunError, SystemFailedError) as error:
            outcome = RunOutcome(schema.INCOMPLETE, await _diagnose(error, running))
        finally:
            self._write(records, outcome)
        return outcome

    def _count_by_setting(self, outcome: RunOutcome) -> None:
        """Count what belongs to each setting, if there are several. Raises BrokenRunError."""
        if self._switcher is not None and self._timeline is not None:
            whole = WholePhase(self._timeline.measure, self._timeline.stop, outcome.counts)
            clocks = zip(self.agents, self._clocks, strict=True)
            offsets = {agent.number: clock.offset_ns for agent, clock in clocks}
            edges = self._switcher.edges(self._timeline)
            counts = count_slices(self.folder, self.number, offsets, edges, whole)
            self.switched_outcomes = [
                replace(outcome, **counts[run.number]._asdict(), cpu=self._cpu(edges[run.number]))
                for run in self.switched
            ]

    def _cpu(self, edges: Sequence[int]) -> CpuUse:
        return cpu_use([vars(row) for row in self._samples], edges)

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
            # At least two samples must fall into the measure phase, or into what counts of a slice.
            shortest = self.point.switch / 2 if self.switched else self.point.phases.measure
            sampler = Sampler(location.brokers, clients, None if self.point.messages else shortest, self.observe)
            if self.switched:
                self._switcher = Switcher(self.switched, self.point, location.brokers.values(), self.repetition)
                await self._switcher.prepare()
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
        self._clocks = await self._measure_clocks()
        if not any(clock.error_ns for clock in self._clocks):
            # Clocks that drift are written at the end, when the drift is known.
            self._write_clocks(records)
        assigned = [*zip(self.agents, assign_roles(self.point, len(self.agents)), strict=True)]
        records.write(
            schema.RoleRow, [row for agent, roles in assigned for role in roles for row in role.rows(agent.number)]
        )
        assignments = [
            Assignment(
                run=self.number, agent=agent.number, point=self.point, driver=self.system.driver, address=address,
                roles=roles, folder=str(self.folder.path.absolute()) if self.record else None, remote=location.remote,
                options=dict(location.first.options), tag=self._tag(location), packed=self.system.packed,
            )
            for (agent, roles), address in zip(assigned, location.addresses, strict=True)
        ]  # fmt: skip
        await group.prepare(assignments)
        return assignments

    async def _measure_clocks(self) -> list[ClockOffset]:
        return [*await asyncio.gather(*(agent.measure_clock() for agent in self.agents))]

    def _write_clocks(self, records: RunRecords) -> None:
        self._are_clocks_written = True
        self.clock_error_ns = max(clock.error_ns for clock in self._clocks)
        records.write(schema.ClockRow, [
            schema.ClockRow(agent=agent.number, offset=clock.offset_ns, error=clock.error_ns)
            for agent, clock in zip(self.agents, self._clocks, strict=True)
        ])  # fmt: skip

    def _tag(self, location: BrokerLocation) -> str:
        """Each extension has its own names too."""
        return f"{location.first.tag}{self.extension}-" if self.extension else location.first.tag

    async def _play_phases(
        self, group: AgentGroup, location: BrokerLocation, sampler: Sampler, assignments: list[Assignment]
    ) -> RunOutcome:
        point = self.point
        queues = StandingQueues(self.number, point, self.system.driver, location, self._tag(location))
        await self._preload(group, queues, sampler, assignments)
        machine = None
        if self.watch_noise:
            machine = MachineWatch(agents=[agent.pid for agent in self.agents if agent.is_here])
        timeline = self._timeline = Timeline.of(point, time.monotonic_ns() + self._start_delay_ns())
        sent = sent_by_destination(await self._start(group, timeline, sampler))
        if machine is not None:
            self.noise = machine.end(system_known=location.is_known, is_persistent=point.persistent)
        if point.messages is None:
            self.watch(schema.DRAIN, point.phases.drain)
        await group.drain(sent, point.phases.drain, may_repeat=bool(point.faults))
        finished = await group.finish()
        if not self._are_clocks_written:
            later = await self._measure_clocks()
            self._clocks = [before.joined(after) for before, after in zip(self._clocks, later, strict=True)]
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
        drained_s = (self._last(finished, "last_received") - timeline.stop) / 1e9
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
        delay = (timeline.measure - time.monotonic_ns()) / 1e9
        timer = asyncio.get_running_loop().call_later(delay, self.watch, schema.MEASURE, phases.measure)
        try:
            timeout_s = (timeline.stop - time.monotonic_ns()) / 1e9 + idle_timeout_s
            timeout_s += _RECOVERY_SECONDS if self._injector else 0
            playing: Awaitable[list[JsonObject]] = group.play(
                "start", timeline.start, sampler, timeout_s=timeout_s, idle_timeout_s=idle_timeout_s
            )
            alongside = self._injector or self._switcher
            return await (alongside.during(playing, timeline) if alongside else playing)
        finally:
            timer.cancel()

    def _end_of_work(self, finished: list[JsonObject]) -> int:
        """Just after the last receipt or, without consumers, after the system had accepted the last message."""
        name = "last_sent" if self.point.load == "send" else "last_received"
        return (self._last(finished, name) or time.monotonic_ns()) + 1

    def _last(self, finished: list[JsonObject], name: str) -> int:
        """The last moment that the agents answered, by the conductor's clock; 0 if none did."""
        answers = zip(self.agents, finished, strict=True)
        return max((agent.clock.to_conductor(answer[name]) for agent, answer in answers if answer[name]), default=0)

    def _start_delay_ns(self) -> int:
        """From the start command to the start: every agent has read the command before that."""
        return round(_START_DELAY_SECONDS * 1e9) + _START_ROUND_TRIPS * 2 * max(
            agent.clock.error_ns for agent in self.agents
        )

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
        if self._clocks and not self._are_clocks_written:
            self._write_clocks(records)
        records.write(schema.PhaseRow, self._phases)
        if self._injector is not None:
            records.write(schema.FaultRow, self._injector.rows)
        if self._switcher is not None:
            records.write(schema.SwitchRow, self._switcher.rows)
        records.write(schema.SampleRow, self._samples)
        records.write_travel(self._travel)
        records.write(schema.MachineRow, [self.noise] if self.noise else [])
        if not self.switched:
            records.write(schema.RunRow, [self._run_row(self.point, outcome)])
            return
        outcomes = self.switched_outcomes or [outcome] * len(self.switched)
        records.write_runs({
            run.number: self._run_row(run.point, each, events_of=self.number)
            for run, each in zip(self.switched, outcomes, strict=True)
        })  # fmt: skip

    def _run_row(self, point: Point, outcome: RunOutcome, events_of: int | None = None) -> schema.RunRow:
        return schema.RunRow(
            study=self.study, scenario=point.scenario, point=point.name, system=self.system.label,
            repetition=self.repetition, parameters=point.to_json(), status=outcome.status, reason=outcome.reason,
            counted_sent=outcome.counted_sent, counted_received=outcome.counted_received,
            counted_round_trips=outcome.counted_round_trips, events_of=events_of,
        )  # fmt: skip


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
