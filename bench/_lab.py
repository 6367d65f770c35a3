"""The lab for benchmarks: running systems and agents, and the rate of a run by the agents' own counters.

The pipeline audits every run when all is measured, so that it takes no processor time from a measurement: a benchmark
whose runs are not exact has no result.
"""

import asyncio
import shutil
import tempfile
from collections.abc import Callable, Coroutine
from pathlib import Path
from types import TracebackType
from typing import TypeVar

import uvloop

from mqlab.events.folder import RunFolder
from mqlab.events.schema import COMPLETE, MachineRow, SampleRow
from mqlab.pipeline.measure import audit
from mqlab.pipeline.schema import CLEAN
from mqlab.pipeline.session import spark_session
from mqlab.runner.agents.launcher import start_agent
from mqlab.runner.run import RunExecution
from mqlab.study import Phases, Point, load_study
from mqlab.systems import Running, System, system

T = TypeVar("T")


def scenario(name: str, *, measure: float, warmup: float = 0.3, **changes: object) -> Point:
    """A scenario of jms-four-brokers with phases of these lengths, and other fields changed."""
    (point,) = load_study("jms-four-brokers").points("quick", [name])
    phases = Phases(warmup=warmup, measure=measure, drain=30)
    return point.model_copy(update={"phases": phases, **changes})


class Lab:
    """A context manager: it stops everything that it started, and audits all runs unless an error ended it."""

    def __init__(self, agents: int = 2) -> None:
        self._loop = uvloop.new_event_loop()
        self._temporary = Path(tempfile.mkdtemp(prefix="mqlab-bench-"))
        self.folder = RunFolder.create(self._temporary, "bench")
        self.folder.write_meta({"study": "bench"})
        self._agents = [self._do(start_agent(number)) for number in range(1, agents + 1)]
        self._systems: dict[str, tuple[System, Running]] = {}
        self._runs = 0
        # Called with each phase of a run and its length.
        self.watch: Callable[[str, float], None] = lambda *_: None
        # Called with each sample of a run.
        self.observe: Callable[[SampleRow], None] | None = None
        # Of the last run.
        self.noise: MachineRow | None = None

    def __enter__(self) -> "Lab":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        for _, running in self._systems.values():
            self._do(running.stop())
        for agent in self._agents:
            self._do(agent.stop())
        self._loop.close()
        asyncio.set_event_loop(None)
        try:
            if kind is None:
                check_audit(self.folder)
        finally:
            shutil.rmtree(self._temporary)

    def rate(self, point: Point, on: str = "embedded", *, record: bool = True) -> float:
        """Messages/s at the consumers, or round trips/s."""
        return self.run(point, on, record=record)[0]

    def run(self, point: Point, on: str = "embedded", *, record: bool = True) -> tuple[float, int]:
        """The rate, and the number of the run in the events."""
        running = self.running(on)
        under_test, _ = self._systems[on]
        self._runs += 1
        run = RunExecution(
            number=self._runs, study="bench", point=point, system=under_test, repetition=1, folder=self.folder,
            agents=self._agents, watch=self.watch, record=record, observe=self.observe,
        )  # fmt: skip
        outcome = self._do(run.play(running))
        self.noise = run.noise
        is_request_reply = point.pattern == "request-reply"
        counted = outcome.counted_round_trips if is_request_reply else outcome.counted_received
        if not record or outcome.status != COMPLETE or not counted:
            # Its messages were not recorded, or it gives no rate.
            self.folder.remove_events(self._runs)
        if outcome.status != COMPLETE:
            raise SystemExit(f"{point.label} on {on}: {outcome.reason}")
        return counted / point.phases.measure, self._runs

    def running(self, on: str = "embedded") -> Running:
        """The running system; it is started if it is not."""
        if on not in self._systems:
            started = system(on)
            self._systems[on] = started, self._do(started.start(self._temporary / f"system-{len(self._systems)}"))
        return self._systems[on][1]

    def _do(self, work: Coroutine[object, None, T]) -> T:
        asyncio.set_event_loop(self._loop)
        result: T = self._loop.run_until_complete(work)
        return result


def check_audit(folder: RunFolder) -> None:
    """Raise SystemExit unless the pipeline's audit finds every run of the folder exact."""
    if not folder.event_files("runs"):
        return
    for run in audit(spark_session(), folder):
        if run["status"] != CLEAN:
            point = f"{run['scenario']} {run['point']}".strip()
            raise SystemExit(f"{point} on {run['system']}: the audit of run {run['run']} found: {run['reason']}")
