"""The conductor: every point of a study on every system, repeated until it is known, interleaved where compared."""

import shutil
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from mqlab import __version__
from mqlab.events.folder import RunFolder
from mqlab.events.schema import COMPLETE, INCOMPLETE
from mqlab.runner.agents.handle import AgentLostError, AgentProcess
from mqlab.runner.agents.send_ahead import AHEAD_SECONDS
from mqlab.runner.capability import Capabilities
from mqlab.runner.checks.calibration import calibrated, wanted, why_not
from mqlab.runner.checks.sync_check_run import witnessed
from mqlab.runner.checks.warmup import Warmup
from mqlab.runner.file_limit import raise_file_limit
from mqlab.runner.interleaving import groups
from mqlab.runner.machine import machine, packages
from mqlab.runner.run import RunExecution, RunOutcome
from mqlab.runner.running_systems import RunningSystems
from mqlab.runner.study_files import check_files, with_files
from mqlab.runner.unsupported import driver_of
from mqlab.study import Point, Study
from mqlab.systems import Running, System, SystemFailedError, SystemSettingError

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
class RunPlan:
    """What was asked for. Raises SystemSettingError if no system has the settings that a point wants.

    Raises StudyError if a point names a file that its study may not have read.
    """

    study: Study
    scale: str
    points: Sequence[Point]
    systems: Sequence[System]
    agents: int = 2
    command: str = ""

    def __post_init__(self) -> None:
        for point in self.points:
            for system in self.systems:
                check_files(self.study, system, point.settings)
            refused = [error for system in self.systems if (error := _refused(system, point))]
            if refused and len(refused) == len(self.systems):
                raise refused[0]


@dataclass
class _Series:
    """One point on one system: who takes turns with others."""

    point: Point
    system: System
    rates: list[float] = field(default_factory=list)

    def known(self, repetition: int) -> bool:
        repeat = self.point.repeat
        if repetition <= repeat.least:
            return False
        return repetition > repeat.most or (repeat.until is not None and repeat.until.is_met(self.rates))


class Conductor:
    """Agents and systems stay up from the first point to the last; `conduct` ends them in any case."""

    def __init__(self, order: RunPlan, folder: RunFolder, watch: Callable[[Progress], None]) -> None:
        self._order = order
        self._folder = folder
        self._watch = watch
        self._agents: list[AgentProcess] = []
        # Data of the systems: on the same disk as the records, gone when the work is done.
        self._data = Path(tempfile.mkdtemp(prefix=".systems-", dir=folder.path))
        self._fleet = RunningSystems(self._data)
        self._rehearsals = Warmup(self._data)
        self._attendance = Capabilities(order.systems, order.points)
        self._runs = self._completed = 0
        # Runs that each system must still do; and all that are expected, done or not.
        self._least = {
            one.label: sum(point.repeat.least for point in self._attendance.points_of(one)) for one in order.systems
        }
        self._expected = sum(self._least.values())
        self._meta: dict[str, Any] = {}

    async def conduct(self) -> None:
        """Raises SystemFailedError if no system can be started at all. A cancelled one leaves what it has."""
        self._begin()
        self._attendance.check()
        raise_file_limit()
        # Two brokers inside agents need two of them.
        two = any(point.topology == "distributed" for point in self._order.points)
        try:
            for number in range(1, max(self._order.agents, 2 if two else 1) + 1):
                self._agents.append(await AgentProcess.start(number))
            await self._calibrate()
            for group in groups(self._order.points):
                await self._take_turns(group)
            if not self._completed and self._attendance.failure:
                raise SystemFailedError(self._attendance.failure)
            self._meta["status"] = COMPLETE
        finally:
            try:
                self._meta["finished"] = _now()
                self._meta["absences"] = self._attendance.absences()
                self._folder.write_meta(self._meta)
            finally:
                # Also on a full disk.
                await self._fleet.stop_all()
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
            "systems": [described(system, self._attendance.points_of(system)) for system in order.systems],
            "absences": self._attendance.absences(),
            "machine": machine(self._data),
            "packages": packages(),
        }
        self._folder.write_meta(self._meta)

    async def _calibrate(self) -> None:
        """What each driver reaches at most, so that nobody takes that for what a system reaches."""
        points = self._order.points
        found = self._meta["calibrations"] = []
        drivers: dict[str, System] = {}
        for system in self._order.systems:
            if self._attendance.points_of(system):
                drivers.setdefault(system.driver, system)
        self._meta["uncalibrated"] = {driver: why for driver in drivers if (why := why_not(driver))}
        for driver, system in drivers.items():
            for one in wanted(driver, points):
                self._say(points[0], "calibrate", 0)
                known = await calibrated(driver, *one, points[0], self._agents[0], system.jars)
                found.append(known.to_json())
                if None in (known.sent, known.received):
                    await self._replace_agents()

    async def _take_turns(self, group: Sequence[Point]) -> None:
        """Round after round over those that are not known well enough, every second round backwards: A B B A."""
        turns = [_Series(point, system) for point in group for system in self._order.systems]
        clients = (turn for turn in turns if turn.point.topology == "client" and self._plays(turn))
        await self._fleet.start_ahead(self._set(turn.system, turn.point) for turn in clients)
        repetition = 0
        while True:
            repetition += 1
            unknown = [turn for turn in turns if not turn.known(repetition) and self._plays(turn)]
            if not unknown:
                return
            self._expected += sum(repetition > turn.point.repeat.least for turn in unknown)
            for turn in unknown if repetition % 2 else reversed(unknown):
                if not self._plays(turn):
                    continue  # it was given up in this very round
                outcome = await self._run(turn.point, turn.system, repetition)
                if outcome.status == COMPLETE:
                    self._completed += 1
                    turn.rates.append(outcome.rate(turn.point))

    def _plays(self, turn: _Series) -> bool:
        return not self._attendance.absence(turn.system, turn.point)

    def _set(self, named: System, point: Point) -> System:
        """The system as the point wants it."""
        return named.with_settings(with_files(self._order.study, named, point.settings, self._folder.files))

    async def _run(self, point: Point, named: System, repetition: int) -> RunOutcome:
        system = self._set(named, point)
        self._attendance.plays(named, point)
        self._runs += 1
        self._least[named.label] -= repetition <= point.repeat.least
        one = RunExecution(
            number=self._runs, study=self._order.study.id, point=point, system=system, repetition=repetition,
            folder=self._folder, agents=self._agents, watch=lambda phase, seconds: self._say(point, phase, seconds),
            data=self._data,
        )  # fmt: skip
        try:
            running = await self._fleet.up(system) if point.topology == "client" else None
        except SystemFailedError as error:
            if self._attendance.failed_to_start(named, str(error)):
                self._expected -= self._least[named.label]
            return one.failed(str(error))
        self._attendance.is_up(named)
        if running is not None:
            await self._get_ready(point, system, running)
        outcome = await one.play(running)
        if outcome.status != COMPLETE:
            await self._mend(system)
        return outcome

    async def _get_ready(self, point: Point, system: System, running: Running) -> None:
        """What is done before some runs, and is no part of them."""
        entry = next(one for one in self._meta["systems"] if one["name"] == system.label)
        if point.persistent:
            await self._look_at(system, running, entry)
        if self._rehearsals.are_due(point, system, running):
            await self._rehearsals.play(
                point, system, running, self._agents, lambda _, seconds: self._say(point, "rehearse", seconds)
            )
            entry["rehearsals"] = self._rehearsals.played.get(system.label, 0)

    async def _look_at(self, system: System, running: Running, entry: dict[str, Any]) -> None:
        """Once for each system, before its first persistent run: does it sync before it confirms?"""
        if "witnessed" not in entry:
            found = await witnessed(system, running, self._agents[0], self._data / "calls")
            entry["witnessed"] = str(found)
            if found.early and system.durability().syncs == "before confirming":
                entry["stamps"].append("confirms before it syncs, as was seen")

    async def _mend(self, system: System) -> None:
        """After a run that broke: a new system, and new agents for those that are gone."""
        await self._fleet.stop(system)
        await self._replace_agents()

    async def _replace_agents(self) -> None:
        """Those that are gone, or do not answer."""
        for index, agent in enumerate(self._agents):
            try:
                await agent.ask("clock", timeout=_ALIVE_SECONDS)
            except AgentLostError:
                await agent.stop()
                self._agents[index] = await AgentProcess.start(agent.number)

    def _say(self, point: Point, phase: str, seconds: float) -> None:
        self._watch(Progress(max(0, self._runs - 1), self._expected, point.label, phase, seconds))


def _refused(system: System, point: Point) -> SystemSettingError | None:
    try:
        system.with_settings(point.settings)
    except SystemSettingError as error:
        return error
    return None


def described(system: System, points: Sequence[Point]) -> dict[str, Any]:
    """With what must be said of it in some points only, because of their settings."""
    described = system.describe()
    stamps = dict.fromkeys(described["stamps"])
    for point in points:
        for stamp in system.with_settings(point.settings).describe()["stamps"]:
            if stamp not in described["stamps"]:
                stamps[f"{stamp} (in some points)"] = None
    return {
        **described, "driver": system.driver, "stamps": [*stamps], "durability": asdict(system.durability()),
        "ahead_seconds": _ahead(system),
    }  # fmt: skip


def _ahead(system: System) -> float | None:
    """How far free producers may be ahead of it; None: as far as it lets them."""
    try:
        return AHEAD_SECONDS if driver_of(system).reports_accepted else None
    except SystemFailedError:
        return None


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
