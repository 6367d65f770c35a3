"""Counts what was sent and what of it was confirmed, where confirmations come in the order of the sends."""

import asyncio

from mqlab.drivers.api import DriverError
from mqlab.drivers.common.timeouts import BLOCKED_TIMEOUT_S, with_timeout


class Confirming:
    """All that waits raises DriverError once it was told why no more confirmations will come."""

    def __init__(self) -> None:
        self._sent = self._done = 0
        self._why = ""
        # What is waited for, by whom.
        self._waiting: list[tuple[int, asyncio.Future[None]]] = []

    async def sending(self, messages: int, most: int) -> None:
        """Returns when no more than `most` are under way, with these."""
        self._sent += messages
        if self._sent - most > self._done or self._why:
            await self._reach(self._sent - most)

    async def all_but(self, messages: int = 0) -> None:
        """Returns when everything that was sent is confirmed, or all but so many."""
        await self._reach(self._sent - messages)

    def confirm(self, messages: int) -> None:
        self._done += messages
        if self._waiting:
            self._wake()

    def fail(self, why: str) -> None:
        self._why = self._why or why
        self._wake()

    async def _reach(self, count: int) -> None:
        if self._done < count and not self._why:
            reached: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._waiting.append((count, reached))
            await with_timeout(reached, BLOCKED_TIMEOUT_S)
        if self._why:
            raise DriverError(self._why)

    def _wake(self) -> None:
        rest = []
        for count, reached in self._waiting:
            if reached.done():
                continue
            if count <= self._done or self._why:
                reached.set_result(None)
            else:
                rest.append((count, reached))
        self._waiting = rest
