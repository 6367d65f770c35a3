"""The systems that are up. They stay up from run to run; when room gets scarce, the least recently used one goes."""

import asyncio
from collections.abc import Iterable
from pathlib import Path
from typing import Final

import psutil

from mqlab.systems import Running, System, SystemFailedError

# Who is started anew begins cold, and a JVM stays so for many seconds: all systems of a comparison stay up if they can.
# Idle they take 0.1 to 0.5 % of one core (Kafka 3 %) from the one that is measured. They are not stopped meanwhile
# (SIGSTOP): those that watch themselves by the clock may take the time they missed for a fault when they go on.
MOST_UP: Final = 12
# And memory: what one that starts may want, and the page cache of the one that is measured.
_LEAST_MEMORY: Final = 2 << 30
# Started side by side: a start is mostly the work of one core, and hardly a machine has fewer than two.
_TOGETHER: Final = 2


class RunningSystems:
    def __init__(self, data: Path) -> None:
        self._data = data
        self._starts = 0
        # Least recently used first.
        self._running: dict[str, Running] = {}
        # Started ahead in vain, and not told yet.
        self._failed: dict[str, SystemFailedError] = {}

    async def up(self, system: System) -> Running:
        """Running and empty. Raises SystemFailedError."""
        if system.key in self._failed:
            raise self._failed.pop(system.key)
        running = self._running.pop(system.key, None)
        if running is not None and not await running.empty():
            await running.stop()
            running = None
        if running is None:
            while self._running and (len(self._running) >= MOST_UP or _memory() < _LEAST_MEMORY):
                await self._running.pop(next(iter(self._running))).stop()
            return await self._start(system)
        self._running[system.key] = running
        return running

    async def start_ahead(self, systems: Iterable[System]) -> None:
        """Some of those that are not up, side by side, while there is room for them: quicker than each in its turn.

        One that fails says so when it is wanted.
        """
        missing = [*{system.key: system for system in systems if system.key not in self._running}.values()]
        while len(missing) >= _TOGETHER and self._has_room():
            together, missing = missing[:_TOGETHER], missing[_TOGETHER:]
            started = await asyncio.gather(*map(self._start, together), return_exceptions=True)
            for system, result in zip(together, started, strict=True):
                if isinstance(result, SystemFailedError):
                    self._failed[system.key] = result
                elif isinstance(result, BaseException):
                    raise result

    async def stop(self, system: System) -> None:
        """If it is up."""
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

    def _has_room(self) -> bool:
        return len(self._running) + _TOGETHER <= MOST_UP and _memory() >= _TOGETHER * _LEAST_MEMORY


def _memory() -> int:
    """Bytes that can be had without driving others out."""
    return psutil.virtual_memory().available
