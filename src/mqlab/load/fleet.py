"""The systems that are up. They stay up from run to run; when room gets scarce, the least recently used one goes."""

import asyncio
from pathlib import Path
from typing import Final

import psutil

from mqlab.systems import Running, System

# Who is started anew begins cold, and a JVM stays so for many seconds: all systems of a comparison stay up if they can.
# Idle they take 0.1 to 0.5 % of one core (Kafka 3 %) from the one that is measured. They are not stopped meanwhile
# (SIGSTOP): those that watch themselves by the clock may take the time they missed for a fault when they go on.
MOST_UP: Final = 12
# And memory: what one that starts may want, and the page cache of the one that is measured.
_LEAST_MEMORY: Final = 2 << 30


class Fleet:
    def __init__(self, data: Path) -> None:
        self._data = data
        self._starts = 0
        # Least recently used first.
        self._running: dict[str, Running] = {}

    async def up(self, system: System) -> Running:
        """Running and empty. Raises SystemFailedError."""
        running = self._running.pop(system.key, None)
        if running is not None and not await running.empty():
            await running.stop()
            running = None
        if running is None:
            while self._running and (len(self._running) >= MOST_UP or _memory() < _LEAST_MEMORY):
                await self._running.pop(next(iter(self._running))).stop()
            self._starts += 1
            running = await system.start(self._data / f"{self._starts}-{system.name}")
        self._running[system.key] = running
        return running

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


def _memory() -> int:
    """Bytes that can be had without driving others out."""
    return psutil.virtual_memory().available
