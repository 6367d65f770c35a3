"""The running systems. They stay up from run to run; the least recently used one stops when memory gets scarce."""

import asyncio
from collections.abc import Iterable
from pathlib import Path
from typing import Final

import psutil

from mqlab.study.language.faults import FaultTarget
from mqlab.systems import Running, System, SystemFailedError
from mqlab.systems.disk.mounted_disk import MountedDisk

# A restarted system is cold, a JVM for many seconds: all systems of a comparison stay up if possible. An idle one takes
# 0.1 to 0.5 % of a core (Kafka 3 %, the embedded broker 0.06 %) from the one that is measured. The lab does not suspend
# them (SIGSTOP): a system that checks its own clock may take the gap for a fault.
MAX_RUNNING: Final = 24
# Memory for a system that starts, and for the page cache of the one that is measured.
_MIN_FREE_BYTES: Final = 2 << 30
# Systems that are started concurrently: a start keeps about one core busy.
_CONCURRENT: Final = 2
# Two systems with the same settings may be ready for different faults.
_Key = tuple[str, frozenset[FaultTarget]]


class RunningSystems:
    """Starts systems with their data under `data`, and stops them."""

    def __init__(self, data: Path) -> None:
        self._data = data
        self._starts = 0
        # Least recently used first.
        self._running: dict[_Key, Running] = {}
        # Failures of `start_ahead` that `get` has not raised yet.
        self._failed: dict[_Key, SystemFailedError] = {}

    async def get(self, system: System) -> Running:
        """The system, running and empty. Raises SystemFailedError."""
        key = _key(system)
        if key in self._failed:
            raise self._failed.pop(key)
        running = self._running.pop(key, None)
        if running is not None and not await running.empty():
            await _stop(running)
            running = None
        if running is None:
            while self._running and (len(self._running) >= MAX_RUNNING or _free_bytes() < _MIN_FREE_BYTES):
                await _stop(self._running.pop(next(iter(self._running))))
            return await self._start(system)
        self._running[key] = running
        return running

    async def start_ahead(self, systems: Iterable[System]) -> None:
        """Start systems that are not running, some concurrently, while there is memory for them.

        `get` raises the error of a system that failed to start.
        """
        missing = [*{_key(system): system for system in systems if _key(system) not in self._running}.values()]
        while len(missing) >= _CONCURRENT and self._has_memory():
            batch, missing = missing[:_CONCURRENT], missing[_CONCURRENT:]
            started = await asyncio.gather(*map(self._start, batch), return_exceptions=True)
            for system, result in zip(batch, started, strict=True):
                if isinstance(result, SystemFailedError):
                    self._failed[_key(system)] = result
                elif isinstance(result, BaseException):
                    raise result

    async def stop(self, system: System) -> None:
        running = self._running.pop(_key(system), None)
        if running is not None:
            await _stop(running)

    async def stop_all(self) -> None:
        stopping = [_stop(running) for running in self._running.values()]
        self._running.clear()
        for result in await asyncio.gather(*stopping, return_exceptions=True):
            if isinstance(result, BaseException):
                raise result

    async def _start(self, system: System) -> Running:
        self._starts += 1
        folder = self._data / f"{self._starts}-{system.name}"
        if "disk" in system.ready_for:
            running = await _start_on_own_disk(system, folder)
        else:
            running = await system.start(folder)
        self._running[_key(system)] = running
        return running

    def _has_memory(self) -> bool:
        return len(self._running) + _CONCURRENT <= MAX_RUNNING and _free_bytes() >= _CONCURRENT * _MIN_FREE_BYTES


async def _start_on_own_disk(system: System, folder: Path) -> Running:
    disk = await MountedDisk.make(folder)
    try:
        running = await system.start(folder / "data")
    except BaseException:
        await asyncio.shield(disk.remove())
        raise
    running.disk = disk
    return running


async def _stop(running: Running) -> None:
    try:
        await running.stop()
    finally:
        if running.disk is not None:
            await running.disk.remove()


def _key(system: System) -> _Key:
    return system.key, system.ready_for


def _free_bytes() -> int:
    return psutil.virtual_memory().available
