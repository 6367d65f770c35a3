"""Looks at the processes of a run every so often."""

import asyncio
import time
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import psutil

from mqlab.runner.agents.handle import AgentLostError, AgentProcess
from mqlab.runner.sampling.network import NetworkLink
from mqlab.systems import Running, SystemFailedError

# Often enough for a measure phase of a second, seldom enough to cost nothing: a look takes under a millisecond.
_SELDOM: Final = 0.2
_OFTEN: Final = 0.05
# A system that cannot say how it is for so long is taken for dead: a sync of a sick disk takes less.
_SAMPLE_SECONDS: Final = 30.0


def _disk_waits() -> float | None:
    """Seconds since the start of the machine in which some process waited for a disk, if the kernel counts them."""
    try:
        some = Path("/proc/pressure/io").read_text().partition("\n")[0]
    except OSError:
        return None
    return int(some.rpartition("total=")[2]) / 1e6


class Sampler:
    """Runs beside a run; `rows` are rows of `samples` without their run. `seconds`: how long it measures, if known."""

    def __init__(
        self, brokers: Mapping[str, Running], agents: Iterable[AgentProcess], seconds: float | None = None
    ) -> None:
        self.rows: list[dict[str, Any]] = []
        self.failed: SystemFailedError | None = None
        # Of a counter two looks must fall into the measure phase.
        self._interval = _OFTEN if seconds is None else max(_OFTEN, min(_SELDOM, seconds / 4))
        self._brokers = brokers
        lines = (NetworkLink.to(broker.address, broker.line) for broker in brokers.values())
        self._line = next((line for line in lines if line is not None), None)
        self._agents: dict[str, psutil.Process] = {}
        for agent in agents:
            try:
                self._agents[f"agent-{agent.number}"] = psutil.Process(agent.pid)
            except psutil.Error as error:
                raise AgentLostError(f"agent {agent.number} has ended") from error
        self._task = asyncio.ensure_future(self._look_again_and_again())

    async def failure(self) -> None:
        """Returns when the system is gone, or answers no more."""
        await asyncio.wait((self._task,))

    async def stop(self) -> None:
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)

    async def _look_again_and_again(self) -> None:
        while True:
            try:
                async with asyncio.timeout(_SAMPLE_SECONDS):
                    for source, broker in self._brokers.items():
                        self._note(source, await broker.sample())
            except SystemFailedError as error:
                self.failed = error
                return
            except TimeoutError:
                self.failed = SystemFailedError(f"the system did not answer for {_SAMPLE_SECONDS:g} s")
                return
            for source, process in self._agents.items():
                with suppress(psutil.Error):
                    cpu, moved = process.cpu_times(), process.io_counters()
                    self._note(source, {
                        "cpu_seconds": cpu.user + cpu.system,
                        "rss": process.memory_info().rss,
                        "bytes_read": moved.read_bytes,
                        "bytes_written": moved.write_bytes,
                    })  # fmt: skip
            if (waited := _disk_waits()) is not None:
                self._note("disk", {"cpu_seconds": 0.0, "rss": 0, "sync_seconds": waited})
            if self._line is not None:
                with suppress(OSError):
                    for source, columns in self._line.sample().items():
                        self._note(source, columns)
            await asyncio.sleep(self._interval)

    def _note(self, source: str, columns: dict[str, Any]) -> None:
        # Of a system that is elsewhere nothing is known: no row is better than a wrong one.
        if columns:
            self.rows.append({"source": source, "t": time.monotonic_ns(), **columns})
