"""The conductor: plays every point of a study on every system, and repeats it as often as rounds.py asks for."""

import asyncio
import shutil
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from statistics import fmean

from mqlab import __version__
from mqlab.events.folder import RunFolder
from mqlab.events.schema import COMPLETE, INCOMPLETE
from mqlab.json_values import JsonObject
from mqlab.runner.agents.handle import AgentLostError, AgentProcess
from mqlab.runner.capability import Capabilities, describe_system, setting_error
from mqlab.runner.checks.calibration import calibrate, combinations
from mqlab.runner.checks.preparation import SystemPreparation
from mqlab.runner.extension import Extensions, extended
from mqlab.runner.machine import describe_machine, package_versions, raise_file_limit
from mqlab.runner.noise import MAX_TAKEN_SHARE, machine_state
from mqlab.runner.resume import DATA_PREFIX, KeptRun
from mqlab.runner.rounds import Budget, Rounds, RunSeries, SeriesKey
from mqlab.runner.run import RunExecution, RunOutcome
from mqlab.runner.running_systems import RunningSystems
from mqlab.runner.study_files import check_files, resolve_files
from mqlab.study import Point, Study, estimate
from mqlab.study.capacity.search import RunRequest
from mqlab.study.rounds.interleaving import interleaved_groups
from mqlab.systems import System, SystemFailedError

# After an incomplete run, an agent that does not answer within this time is replaced.
_ALIVE_SECONDS = 10.0
# How often a disturbed run is repeated: not at once, since what disturbs it mostly goes on for a while. And all repeats
# as a share of the runs, so that a machine that is never quiet does not double the time.
_MOST_REPEATS = 2
_REPEATED_SHARE = 1 / 3


@dataclass(frozen=True)
class Progress:
    runs_done: int
    # All runs up to the next look, which may ask for more.
    runs_expected: int
    label: str
    phase: str
    phase_seconds: float
    # The rate of the run before; None before the first.
    rate: float | None = None
    # Until the budget is spent, or until the expected runs are over at the present speed; None if nothing is known yet.
    seconds_left: float | None = None


@dataclass(frozen=True)
class RunPlan:
    """The points to play, the systems to play them on, and with how many agents.

    Raises SystemSettingError if no system accepts the settings of a point, and StudyError if a point names a file that
    its study may not read.
    """

    study: Study
    scale: str
    points: Sequence[Point]
    systems: Sequence[System]
    agents: int = 2
    command: str = ""
    # False: the noise of the machine is not recorded, and no run is repeated because it is disturbed or not steady.
    watch_noise: bool = True
    # None: each point is repeated until its repetition rule is met.
    budget: Budget | None = None
    # Whether every repetition begins with systems that were started anew, so that it contains the luck of a start.
    restart: bool = False
    # The command that runs the same points on the same systems, without a budget; "": there is none.
    again: str = ""
    # The command needs them to go on after an interruption; meta.json keeps them. {}: it cannot go on.
    options: JsonObject = field(default_factory=dict)
    # The runs that were played before an interruption; None: the run folder is new.
    kept: Sequence[KeptRun] | None = None
    # Asked, in a thread, when all points are played: further runs, of points that it may make up; none: it is over.
    search: Callable[[], Sequence[RunRequest]] | None = None

    @property
    def looks(self) -> int:
        """How often the lab looks at the means, to decide whether they need more runs."""
        by_means = self.budget is not None and self.budget.find_open is not None
        return max((point.repeat.looks for point in self.points), default=1) if by_means else 1

    def __post_init__(self) -> None:
        for point in self.points:
            for system in self.systems:
                check_files(self.study, system, point.settings)
            errors = [error for system in self.systems if (error := setting_error(system, point))]
            if errors and len(errors) == len(self.systems):
                raise errors[0]


class Conductor:
    """Keeps agents and systems running from the first point to the last; `conduct` ends them in any case."""

    def __init__(self, plan: RunPlan, folder: RunFolder, watch: Callable[[Progress], None]) -> None:
        self._plan = plan
        self._folder = folder
        self._watch = watch
        self._agents: list[AgentProcess] = []
        # The data of the systems, on the same disk as the events. `conduct` removes it.
        self._data = Path(tempfile.mkdtemp(prefix=DATA_PREFIX, dir=folder.path))
        self._systems = RunningSystems(self._data)
        self._preparation = SystemPreparation(self._data)
        self._capabilities = Capabilities(plan.systems, plan.points)
        self._runs = self._completed = self._repeats = 0
        self._run_started = 0.0
        # The least number of runs that each system still has to do; and all expected runs, done or not.
        self._remaining = {
            system.label: sum(point.repeat.least for point in self._capabilities.points_of(system))
            for system in plan.systems
        }
        self._expected = sum(self._remaining.values())
        self._started = time.monotonic()
        self._rounds = Rounds([], plan.budget, self._started)
        self._last_rate: float | None = None
        seconds = sum(estimate(self._capabilities.points_of(system)).least_seconds for system in plan.systems)
        # The rates that the producers of a system reached in a closed loop, by workload.
        self._peaks: dict[tuple[str, str], float] = {}
        # Half of a budget is for more than the least number of runs.
        self._extensions = Extensions(
            max(seconds, plan.budget.seconds / 2 if plan.budget else 0.0), unsteady=plan.watch_noise
        )
        self._meta: JsonObject = {}

    async def conduct(self) -> None:
        """Play all runs. Raises SystemFailedError if no system can be started. After cancellation, the records stay."""
        self._write_first_meta()
        self._preparation.entries = {entry["name"]: entry for entry in self._meta["systems"]}
        self._capabilities.check()
        raise_file_limit()
        # Each of two brokers needs an agent that hosts it.
        has_two_brokers = any(point.topology == "distributed" for point in self._plan.points)
        try:
            for number in range(1, max(self._plan.agents, 2 if has_two_brokers else 1) + 1):
                self._agents.append(await AgentProcess.start(number))
            await self._calibrate()
            await self._play_rounds()
            if not self._completed and self._capabilities.last_failure:
                raise SystemFailedError(self._capabilities.last_failure)
            self._meta["status"] = COMPLETE
        finally:
            try:
                self._meta["finished"] = _now()
                self._meta["absences"] = self._capabilities.absences()
                self._folder.write_meta(self._meta)
            finally:
                # Even if the disk is full.
                await self._systems.stop_all()
                for agent in self._agents:
                    await agent.stop()
                shutil.rmtree(self._data, ignore_errors=True)

    def _write_first_meta(self) -> None:
        plan = self._plan
        if plan.kept is not None:
            before = self._folder.meta()
            resumed = [*before.get("resumed", ()), _now()]
            self._meta = {**before, "status": INCOMPLETE, "finished": None, "resumed": resumed}
            self._folder.write_meta(self._meta)
            return
        plan.study.copy(self._folder.study)
        self._meta = {
            "id": self._folder.path.name,
            "study": plan.study.id,
            "title": plan.study.title,
            "scale": plan.scale,
            "status": INCOMPLETE,
            "started": _now(),
            "finished": None,
            "command": plan.command,
            "again": plan.again,
            "options": plan.options,
            "mqlab": __version__,
            "systems": [describe_system(system, self._capabilities.points_of(system)) for system in plan.systems],
            "absences": self._capabilities.absences(),
            "extended": [],
            "looks": plan.looks,
            "minutes": plan.budget and plan.budget.seconds / 60,
            "machine": describe_machine(self._data),
            "noise": {"max_taken_share": MAX_TAKEN_SHARE, **machine_state()} if plan.watch_noise else None,
            "packages": package_versions(),
        }
        self._folder.write_meta(self._meta)

    async def _calibrate(self) -> None:
        """Measure the lab's own work, so that the report does not take its limit for the limit of a system."""
        points = combinations(self._plan.points)
        if len(self._meta.get("calibrations") or ()) == len(points):
            return  # before an interruption
        calibrations = self._meta["calibrations"] = []
        for point in points:
            self._report(self._plan.points[0], "calibrate", 0)
            calibrations.append((await calibrate(point)).to_json())

    async def _play_rounds(self) -> None:
        groups = [
            [RunSeries(point, system) for point in group for system in self._plan.systems]
            for group in interleaved_groups(self._plan.points)
        ]
        all_series = [series for group in groups for series in group]
        self._rounds = Rounds(all_series, self._plan.budget, self._started)
        searched = self._restore({series.key: series for series in all_series})
        least: dict[SeriesKey, int | None] = {series.key: None for series in all_series}
        while any(self._is_due(series, least) for series in all_series):
            for group in groups:
                await self._interleave(group, least, repeats=0)
        for targets in self._rounds.looks():
            await self._play_targets(groups, targets)
        await self._play_search(searched)

    def _restore(self, declared: Mapping[SeriesKey, RunSeries]) -> dict[SeriesKey, RunSeries]:
        """Count the runs that were played before an interruption. Returns the series of points that a search added."""
        points = (Point.model_validate(point) for point in self._meta.get("searched") or ())
        added = [RunSeries(point, system) for point in points for system in self._plan.systems]
        searched = {series.key: series for series in added}
        for run in self._plan.kept or ():
            key = (run.system, run.point.scenario, run.point.name)
            series = declared.get(key) or searched[key]
            if run.point.phases != series.point.phases:
                longer = series.point.model_copy(update={"phases": run.point.phases})
                self._extensions.restore(key, longer)
            self._runs = run.number
            self._begin_run(series)
            self._end_run(series, run.repetition, run.outcome, run.seconds)
        return {key: series for key, series in searched.items() if series.attempts}

    async def _play_search(self, series: dict[SeriesKey, RunSeries]) -> None:
        """Play what the search asks for, step by step. meta.json names its points, which the study does not declare."""
        systems = {system.label: system for system in self._plan.systems}
        while self._plan.search and (requests := await asyncio.to_thread(self._plan.search)):
            targets: dict[SeriesKey, int | None] = {}
            for request in requests:
                asked = RunSeries(request.point, systems[request.system])
                asked = series.setdefault(asked.key, asked)
                targets[asked.key] = asked.played + request.runs
                self._expected += request.runs
            points = {one.point.label: one.point for one in series.values()}
            self._meta["searched"] = [point.model_dump(mode="json") for point in points.values()]
            self._folder.write_meta(self._meta)
            before = self._runs
            await self._interleave([series[key] for key in targets], targets, _MOST_REPEATS)
            if self._runs == before:
                return  # the system cannot be played any more

    async def _play_targets(self, groups: Sequence[Sequence[RunSeries]], targets: Mapping[SeriesKey, int]) -> None:
        """Play the chosen series, until it is time for another look; the group that was chosen first comes first."""
        order = {key: place for place, key in enumerate(targets)}
        chosen = [[series for series in group if series.key in targets and self._plays(series)] for group in groups]
        for group in sorted(filter(None, chosen), key=lambda group: min(order[series.key] for series in group)):
            self._expected += sum(targets[series.key] - series.played for series in group)
            await self._interleave(group, targets, _MOST_REPEATS)
            self._expected -= sum(targets[series.key] - series.played for series in group)
            if self._rounds.is_look_due:
                return

    async def _interleave(
        self, group: Sequence[RunSeries], targets: Mapping[SeriesKey, int | None], repeats: int
    ) -> None:
        """Play rounds up to the target of each series (None: the least number); every second in reverse: A B B A.

        A disturbed run is repeated after its round, as the same repetition, so that runs that are compared stay pairs.
        A series with more than `repeats` of them has to wait until the other groups were played.
        """
        due = [series for series in group if self._is_due(series, targets)]
        clients = (series for series in due if series.point.topology == "client")
        await self._systems.start_ahead(self._configure(series.system, series.point) for series in clients)
        disturbed: Counter[SeriesKey] = Counter()
        while due:
            repetition = min(series.played for series in due) + 1
            if self._plan.restart and repetition > 1:
                await self._systems.stop_all()
            for series in due if repetition % 2 else reversed(due):
                if self._is_due(series, targets) and series.played < repetition:
                    await self._play_series(series)
                    disturbed[series.key] += series.played < repetition
            due = [series for series in due if self._is_due(series, targets) and disturbed[series.key] <= repeats]

    def _is_due(self, series: RunSeries, targets: Mapping[SeriesKey, int | None]) -> bool:
        """Not if its system was excluded meanwhile."""
        return self._plays(series) and self._rounds.goes_on(series, targets[series.key])

    async def _play_series(self, series: RunSeries) -> None:
        """Play the next repetition. It is not over if it was disturbed and may be repeated; the record stays."""
        repetition = self._begin_run(series)
        outcome = await self._play_extended(series.point, series.system, repetition)
        self._end_run(series, repetition, outcome, time.monotonic() - self._run_started)

    def _begin_run(self, series: RunSeries) -> int:
        """Returns its repetition."""
        repetition = series.played + 1
        self._capabilities.record_run(series.system, series.point)
        self._remaining[series.system.label] -= not series.repeats and repetition <= series.point.repeat.least
        return repetition

    def _end_run(self, series: RunSeries, repetition: int, outcome: RunOutcome, seconds: float) -> None:
        series.seconds = min(series.seconds, seconds)
        series.attempts += 1
        series.unsteady += bool(outcome.unsteady) and not outcome.disturbed
        is_repeated = bool(outcome.disturbed) and self._may_repeat(series)
        self._repeats += is_repeated
        series.repeats = series.repeats + 1 if is_repeated else 0
        series.played += not is_repeated
        if outcome.status == COMPLETE:
            self._completed += 1
            self._last_rate = outcome.rate(series.point)
            if outcome.disturbed or outcome.unsteady:
                series.flagged = outcome.rates(series.point)
            else:
                series.rates[repetition] = outcome.rates(series.point)
            if series.point.loop == "closed":
                peak = fmean(series.values or [self._last_rate]) / outcome.copies
                self._peaks[series.system.label, series.point.workload] = peak

    def _may_repeat(self, series: RunSeries) -> bool:
        """Whether a disturbed run is repeated: as far as there is time, and not too often."""
        is_often = series.repeats >= _MOST_REPEATS or self._repeats >= _REPEATED_SHARE * self._expected
        return not is_often and self._rounds.seconds_left > 0

    def _plays(self, series: RunSeries) -> bool:
        return not self._capabilities.why_not(series.system, series.point)

    def _configure(self, base: System, point: Point) -> System:
        return base.for_point(point, resolve_files(self._plan.study, base, point.settings, self._folder.files))

    async def _play_extended(self, point: Point, base: System, repetition: int) -> RunOutcome:
        """Play a run; play it again with longer phases while it shows no rate, and once if it was not steady."""
        place, extension = (base.label, point.scenario, point.name), 0
        point = self._extensions.current(place, point)
        outcome = await self._play(point, base, repetition)
        while reason := self._extensions.reason(place, point, outcome, extension):
            extension += 1
            point = extended(point)
            self._folder.remove_events(self._runs)
            entry = {"system": base.label, "scenario": point.scenario, "point": point.name, "reason": reason}
            self._meta["extended"].append({**entry, "measure": point.phases.measure})
            self._runs -= 1
            outcome = await self._play(point, base, repetition, extension)
        return outcome

    async def _play(self, point: Point, base: System, repetition: int, extension: int = 0) -> RunOutcome:
        system = self._configure(base, point)
        self._runs += 1
        peak = self._peaks.get((base.label, point.workload))
        if point.peak_share is not None and peak:
            point = point.model_copy(update={"rate": point.peak_share * peak})
        run = RunExecution(
            number=self._runs, study=self._plan.study.id, point=point, system=system, repetition=repetition,
            folder=self._folder, agents=self._agents, watch=lambda phase, seconds: self._report(point, phase, seconds),
            data=self._data, extension=extension, watch_noise=self._plan.watch_noise,
        )  # fmt: skip
        if point.peak_share is not None and not peak:
            return run.record_failure("its rate is a share of the peak, and no peak was measured")
        try:
            running = await self._systems.get(system) if point.topology == "client" else None
        except SystemFailedError as error:
            if self._capabilities.record_failed_start(base, str(error)):
                self._expected -= self._remaining[base.label]
            return run.record_failure(str(error))
        self._capabilities.record_start(base)
        if running is not None:
            warming = partial(self._report, point, "warm up")
            await self._preparation.prepare(point, system, running, self._agents, warming)
        self._run_started = time.monotonic()
        outcome = await run.play(running)
        if outcome.status != COMPLETE:
            # The next run starts the system anew.
            await self._systems.stop(system)
            await self._replace_agents()
        return outcome

    async def _replace_agents(self) -> None:
        for index, agent in enumerate(self._agents):
            try:
                await agent.ask("clock", timeout_s=_ALIVE_SECONDS)
            except AgentLostError:
                await agent.stop()
                self._agents[index] = await AgentProcess.start(agent.number)

    def _report(self, point: Point, phase: str, seconds: float) -> None:
        done = max(0, self._runs - 1 - self._repeats)
        left = self._rounds.seconds_left if self._plan.budget else None
        if left is None and done:
            left = (time.monotonic() - self._started) / done * (self._expected - done)
        self._watch(Progress(done, self._expected, point.label, phase, seconds, self._last_rate, left))


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
