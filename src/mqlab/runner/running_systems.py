"""The running systems. They stay up from run to run; the least recently used one stops when memory gets scarce."""

import asyncio
from collections.abc import Iterable
from pathlib import Path
from typing import Final

import psutil

from mqlab.systems import Running, System, SystemFailedError

# A restarted system is cold, a JVM for many seconds: all systems of a comparison stay up if possible. An idle one takes
# 0.1 to 0.5 % of a core (Kafka 3 %, the embedded broker 0.06 %) from the one that is measured. The lab does not suspend
# them (SIGSTOP): a system that checks its own clock may take the gap for a fault.
MAX_RUNNING: Final = 24
# Memory for a system that starts, and for the page cache of the one that is measured.
_MIN_FREE_BYTES: Final = 2 << 30
# Systems that are started concurrently: a start keeps about one core busy.
_CONCURRENT: Final = 2


class RunningSystems:
    """Starts systems with their data under `data`, and stops them."""

    def __init__(self, data: Path) -> None:
        self._data = data
        self._starts = 0
        # Least recently used first.
        self._running: dict[str, Running] = {}
        # Failures of `start_ahead` that `get` has not raised yet.
        self._failed: dict[str, SystemFailedError] = {}

    async def get(self, system: System) -> Running:
        """The system, running and empty. Raises SystemFailedError."""
        if system.key in self._failed:
            raise self._failed.pop(system.key)
        running = self._running.pop(system.key, None)
        if running is not None and not await running.empty():
            await running.stop()
            running = None
        if running is None:
            while self._running and (len(self._running) >= MAX_RUNNING or _free_bytes() < _MIN_FREE_BYTES):
                await self._running.pop(next(iter(self._running))).stop()
            return await self._start(system)
        self._running[system.key] = running
        return running

    async def start_ahead(self, systems: Iterable[System]) -> None:
        """Start systems that are not running, some concurrently, while there is memory for them.

        `get` raises the error of a system that failed to start.
        """
        missing = [*{system.key: system for system in systems if system.key not in self._running}.values()]
        while len(missing) >= _CONCURRENT and self._has_memory():
            batch, missing = missing[:_CONCURRENT], missing[_CONCURRENT:]
            started = await asyncio.gather(*map(self._start, batch), return_exceptions=True)
            for system, result in zip(batch, started, strict=True):
                if isinstance(result, SystemFailedError):
                    self._failed[system.key] = result
                elif isinstance(result, BaseException):
                    raise result

    async def stop(self, system: System) -> None:
        running = self._running.pop(system.key, None)
        if running is not None:
            await running.stop()

    async def stop_all(self) -> None:
        stopping = [running.stop() for running in self._running.values()]
        self._running.clear()
        for result in await asyncio.gather(*stopping, return_exceptions=True):
            if isinstance(result, BaseException):
                raise result

    async def _start(self, system: System) -> Running:
        self._starts += 1
        running = await system.start(self._data / f"{self._starts}-{system.name}")
        self._running[system.key] = running
        return running

    def _has_memory(self) -> bool:
        return len(self._running) + _CONCURRENT <= MAX_RUNNING and _free_bytes() >= _CONCURRENT * _MIN_FREE_BYTES


def _free_bytes() -> int:
    return psutil.virtual_memory().available
