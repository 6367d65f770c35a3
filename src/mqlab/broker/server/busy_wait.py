"""Staying awake from one message to the next: where each waits for the one before, waking up takes the most time."""

import asyncio
from time import monotonic_ns


class BusyWait:
    """The loop looks for what comes without sleeping, until nothing has come for so many microseconds."""

    def __init__(self, loop: asyncio.AbstractEventLoop, microseconds: int) -> None:
        self._loop = loop
        self._stay = microseconds * 1000
        self._until = 0
        self._stays = False

    def stay(self) -> None:
        """Something has come."""
        self._until = monotonic_ns() + self._stay
        if not self._stays:
            self._stays = True
            self._loop.call_soon(self._turn)

    def _turn(self) -> None:
        self._stays = monotonic_ns() < self._until
        if self._stays:
            self._loop.call_soon(self._turn)
