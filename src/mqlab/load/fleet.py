"""The systems that are up. They stay up from run to run; beyond a few, the one that was not used for longest goes."""

from pathlib import Path
from typing import Final

from mqlab.systems import Running, System

# Each is a process that does nothing while another one is measured, but takes memory.
MOST_UP: Final = 6


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
            while len(self._running) >= MOST_UP:
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
        while self._running:
            await self._running.pop(next(iter(self._running))).stop()
