"""The conductor: plays every point of a study on every system, and repeats it as often as rounds.py asks for."""

import asyncio
import shutil
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from itertools import groupby
from pathlib import Path
from statistics import fmean

from mqlab import __version__
from mqlab.events.folder import RunFolder
from mqlab.events.schema import COMPLETE, INCOMPLETE, SampleRow
from mqlab.json_values import JsonObject
from mqlab.runner.broker_location import check_reachable
from mqlab.runner.capability import Capabilities, describe_system
from mqlab.runner.checks.calibration import calibrate, combinations
from mqlab.runner.checks.preparation import SystemPreparation
from mqlab.runner.extension import Extensions, extended
from mqlab.runner.machine import describe_machine, package_versions, raise_file_limit
from mqlab.runner.noise import LIMITS, machine_state
from mqlab.runner.plan import RunPlan
from mqlab.runner.results.outcome import RunOutcome
from mqlab.runner.results.progress import FinishedRun, Progress
from mqlab.runner.resume import DATA_PREFIX
from mqlab.runner.rounds import Rounds, RunSeries, SeriesKey
from mqlab.runner.run import RunExecution
from mqlab.runner.running_systems import RunningSystems
from mqlab.runner.study_files import resolve_files
from mqlab.runner.switching.common_runs import CommonRuns, sharing_runs, slowest, switched_scenarios
from mqlab.study import Point, estimate
from mqlab.study.repetition import INTERVAL
from mqlab.study.rounds.interleaving import interleaved_groups
from mqlab.study.rounds.switching import common_point
from mqlab.systems import System, SystemFailedError

__all__ = ["Conductor", "Progress", "RunPlan"]

# How often a disturbed run is repeated: not at once, since what disturbs it mostly goes on for a while. And all repeats
# as a share of the runs, so that a machine that is never quiet does not double the time.
_MOST_REPEATS = 2
_REPEATED_SHARE = 1 / 3


class Conductor:
    """Keeps agents and systems running from the first point to the last; `conduct` ends them in any case."""

    def __init__(
        self, plan: RunPlan, folder: RunFolder, watch: Callable[[Progress], None],
        observe: Callable[[SampleRow], None] | None = None,
    ) -> None:  # fmt: skip
        self._plan = plan
        self._folder = folder
        self._watch = watch
        self._observe = observe
        self._launcher = plan.launcher
        # The data of the systems, if not told otherwise on the same disk as the events. `conduct` removes it.
        self._data = Path(tempfile.mkdtemp(prefix=DATA_PREFIX, dir=(plan.data or folder.path).absolute()))
        self._systems = RunningSystems(self._data)
        self._preparation = SystemPreparation(self._data)
        self._capabilities = Capabilities(plan.systems, plan.points)
        # The highest number of a run; how many were played, where those that share their events count once.
        self._runs = self._played = 0
        self._completed = self._repeats = 0
        self._common = CommonRuns([])
        self._run_started = 0.0
        # The least number of runs that each system still has to do; and all expected runs, done or not.
        self._remaining = {
            system.label: estimate(self._capabilities.points_of(system), system.live_settings).least_runs
            for system in plan.systems
        }
        self._expected = sum(self._remaining.values())
        self._started = time.monotonic()
        self._rounds = Rounds([], plan.budget, self._started)
        self._last_rate: float | None = None
        # Runs of which nobody was told yet.
        self._finished: list[FinishedRun] = []
        self._system, self._incomplete, self._disturbed = "", 0, 0
        seconds = sum(
            estimate(self._capabilities.points_of(system), system.live_settings).least_seconds
            for system in plan.systems
        )
        # The rates that the producers of a system reached in a closed loop, by workload.
        self._peaks: dict[tuple[str, str], float] = {}
        # Half of a budget is for more than the least number of runs.
        self._extensions = Extensions(
            max(seconds, plan.budget.seconds / 2 if plan.budget else 0.0), unsteady=plan.watch_noise
        )
        self._meta: JsonObject = {}

    async def conduct(self) -> None:
        """Play all runs. After cancellation, the records stay.

        Raises SystemFailedError if no system can be started, and AgentStartError.
        """
        self._write_first_meta()
        self._preparation.entries = {entry["name"]: entry for entry in self._meta["systems"]}
        self._capabilities.check()
        raise_file_limit()
        # Each of two brokers needs an agent that hosts it.
        has_two_brokers = any(point.topology == "distributed" for point in self._plan.points)
        try:
            count = max(self._plan.agents, 2 if has_two_brokers else 1)
            await self._launcher.start(count, self._folder.path)
            self._meta["hosts"] = [agent.host for agent in self._launcher.agents]
            if self._plan.before_runs:
                begin = time.monotonic()
                await self._plan.before_runs()
                self._started += time.monotonic() - begin
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
                await self._launcher.stop()
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
            "switched": switched_scenarios(plan.systems, self._capabilities.points_of),
            "looks": plan.looks,
            "minutes": plan.budget and plan.budget.seconds / 60,
            "machine": describe_machine(self._data),
            "noise": {**LIMITS, **machine_state()} if plan.watch_noise else None,
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
            for group in interleaved_groups(self._plan.points, self._plan.study.claims)
        ]
        all_series = [series for group in groups for series in group]
        self._rounds = Rounds(all_series, self._plan.budget, self._started)
        self._common = CommonRuns([series for series in all_series if self._plays(series)])
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
        for _, sharing in groupby(self._plan.kept or (), key=lambda run: run.events_of):
            runs = [*sharing]
            keys = [(run.system, run.point.scenario, run.point.name) for run in runs]
            common = [declared.get(key) or searched[key] for key in keys]
            point = common_point([series.point for series in common])
            if runs[0].point.phases != point.phases:
                self._extensions.restore(keys[0], point.model_copy(update={"phases": runs[0].point.phases}))
            self._runs = runs[-1].number
            self._begin_run(common)
            self._end_run(common, runs[0].repetition, [run.outcome for run in runs], runs[0].seconds)
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
            self._expected += self._common.runs_left(group, targets)
            await self._interleave(group, targets, _MOST_REPEATS)
            self._expected -= self._common.runs_left(group, targets)
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
        clients = (common for common in self._common.of(due) if common[0].point.topology == "client")
        await self._systems.start_ahead(map(self._configure_common, clients))
        disturbed: Counter[SeriesKey] = Counter()
        while due:
            repetition = min(series.played for series in due) + 1
            if self._plan.restart and repetition > 1:
                await self._systems.stop_all()
            commons = self._common.of(due)
            for common in commons if repetition % 2 else reversed(commons):
                if any(self._is_due(series, targets) and series.played < repetition for series in common):
                    await self._play_common(common)
                    disturbed.update(series.key for series in common if series.played < repetition)
            due = [series for series in due if self._is_due(series, targets) and disturbed[series.key] <= repeats]

    def _is_due(self, series: RunSeries, targets: Mapping[SeriesKey, int | None]) -> bool:
        """Not if its system was excluded meanwhile, or if it has no target."""
        return series.key in targets and self._plays(series) and self._rounds.goes_on(series, targets[series.key])

    async def _play_common(self, common: Sequence[RunSeries]) -> None:
        """Play the next repetition. It is not over if it was disturbed and may be repeated; the record stays."""
        repetition = self._begin_run(common)
        outcomes = await self._play_extended(common, repetition)
        self._end_run(common, repetition, outcomes, (time.monotonic() - self._run_started) / len(common))

    def _begin_run(self, common: Sequence[RunSeries]) -> int:
        """Returns its repetition."""
        first, repetition = common[0], common[0].played + 1
        for series in common:
            self._capabilities.record_run(series.system, series.point)
        self._remaining[first.system.label] -= not first.repeats and repetition <= first.point.repeat.least
        self._played += 1
        return repetition

    def _end_run(
        self, common: Sequence[RunSeries], repetition: int, outcomes: Sequence[RunOutcome], seconds: float
    ) -> None:
        """`seconds`: the share of each series in the time of the run."""
        self._incomplete += outcomes[0].status != COMPLETE
        self._disturbed += bool(outcomes[0].disturbed)
        is_repeated = bool(outcomes[0].disturbed) and self._may_repeat(common[0])
        self._repeats += is_repeated
        for series, outcome in zip(common, outcomes, strict=True):
            series.add_run(repetition, outcome, seconds, is_repeated=is_repeated)
            if outcome.status == COMPLETE:
                self._completed += 1
                self._last_rate = outcome.rate(series.point)
                if not is_repeated:
                    self._finished.append(_finished(series, self._last_rate))
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
        system = base.for_point(point, resolve_files(self._plan.study, base, point.settings, self._folder.files))
        return system.made_ready_for(point.prepared_targets)

    def _configure_common(self, common: Sequence[RunSeries]) -> System:
        """The system as it is started for a run of these series."""
        system = self._configure(common[0].system, common[0].point)
        return system.for_switching() if len(common) > 1 else system

    async def _play_extended(self, common: Sequence[RunSeries], repetition: int) -> list[RunOutcome]:
        """Play a run; play it again with longer phases while it shows no rate, and once if it was not steady.

        Returns the outcome for each series.
        """
        base, place, extension = common[0].system, common[0].key, 0
        point = self._extensions.current(place, common_point([series.point for series in common]))
        outcomes = await self._play(common, point, repetition)
        while reason := self._extensions.reason(place, point, slowest(outcomes, point), extension):
            extension += 1
            point = extended(point)
            self._runs -= len(common)
            self._folder.remove_events(self._runs + 1)
            entry = {"system": base.label, "scenario": point.scenario, "point": point.name, "reason": reason}
            self._meta["extended"].append({**entry, "measure": point.phases.measure})
            outcomes = await self._play(common, point, repetition, extension)
        return outcomes

    async def _play(
        self, common: Sequence[RunSeries], point: Point, repetition: int, extension: int = 0
    ) -> list[RunOutcome]:
        """`point`: that of the first series, with the phases to play."""
        base, system, number = common[0].system, self._configure_common(common), self._runs + 1
        await self._launcher.replace_lost(self._folder.path)
        self._runs += len(common)
        self._system = base.label
        peak = self._peaks.get((base.label, point.workload))
        if point.peak_share is not None and peak:
            point = point.model_copy(update={"rate": point.peak_share * peak})
        run = RunExecution(
            number=number, study=self._plan.study.id, point=point, system=system, repetition=repetition,
            folder=self._folder, agents=self._launcher.agents, data=self._data, extension=extension,
            watch=lambda phase, seconds: self._report(point, phase, seconds), watch_noise=self._plan.watch_noise,
            observe=self._observe, switched=sharing_runs(common, point, number, self._configure),
        )  # fmt: skip
        outcome = await self._play_run(run, base)
        return run.switched_outcomes or [outcome] * len(common)

    async def _play_run(self, run: RunExecution, base: System) -> RunOutcome:
        point, system = run.point, run.system
        if point.peak_share is not None and point.rate is None:
            return run.record_failure("its rate is a share of the peak, and no peak was measured")
        try:
            running = await self._systems.get(system) if point.topology == "client" else None
            check_reachable(point, running, self._launcher.agents)
        except SystemFailedError as error:
            if self._capabilities.record_failed_start(base, str(error)):
                self._expected -= self._remaining[base.label]
            return run.record_failure(str(error))
        self._capabilities.record_start(base)
        if running is not None:
            warming = partial(self._report, point, "warm up")
            await self._preparation.prepare(point, system, running, self._launcher.agents, warming)
        self._run_started = time.monotonic()
        outcome = await run.play(running)
        self._meta["clock_error"] = max(self._meta.get("clock_error", 0.0), run.clock_error_ns / 1e9)
        if outcome.status != COMPLETE:
            # The next run starts the system anew.
            await self._systems.stop(system)
        return outcome

    def _report(self, point: Point, phase: str, seconds: float) -> None:
        done = max(0, self._played - 1 - self._repeats)
        left = self._rounds.seconds_left if self._plan.budget else None
        if left is None and done:
            left = (time.monotonic() - self._started) / done * (self._expected - done)
        finished, self._finished = self._finished, []
        self._watch(Progress(
            done, self._expected, point.label, phase, seconds, self._last_rate, left, self._system, finished,
            self._incomplete, self._disturbed,
        ))  # fmt: skip


def _finished(series: RunSeries, rate: float) -> FinishedRun:
    rule = series.point.repeat.until
    goal = rule.limit if rule and rule.kind == INTERVAL else None
    return FinishedRun(series.system.label, series.point.label, rate, goal)


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
