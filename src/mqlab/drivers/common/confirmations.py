"""Counts what was sent and what of it was confirmed, where confirmations come in the order of the sends."""

import asyncio

from mqlab.drivers.api import DriverError
from mqlab.drivers.common.timeouts import BLOCKED_TIMEOUT_S, with_timeout


class ConfirmationCounter:
    """All that waits raises DriverError once it was told why no more confirmations will come."""

    def __init__(self) -> None:
        self._sent = self._confirmed = 0
        self._failure = ""
        # What is waited for, by whom.
        self._waiters: list[tuple[int, asyncio.Future[None]]] = []

    async def reserve(self, messages: int, max_unconfirmed: int) -> None:
        """Returns when no more than `most` are under way, with these."""
        self._sent += messages
        if self._sent - max_unconfirmed > self._confirmed or self._failure:
            await self._wait_count(self._sent - max_unconfirmed)

    async def wait_confirmed(self, messages: int = 0) -> None:
        """Returns when everything that was sent is confirmed, or all but so many."""
        await self._wait_count(self._sent - messages)

    def confirm(self, messages: int) -> None:
        self._confirmed += messages
        if self._waiters:
            self._wake()

    def fail(self, reason: str) -> None:
        self._failure = self._failure or reason
        self._wake()

    async def _wait_count(self, count: int) -> None:
        if self._confirmed < count and not self._failure:
            reached: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._waiters.append((count, reached))
            await with_timeout(reached, BLOCKED_TIMEOUT_S)
        if self._failure:
            raise DriverError(self._failure)

    def _wake(self) -> None:
        rest = []
        for count, reached in self._waiters:
            if reached.done():
                continue
            if count <= self._confirmed or self._failure:
                reached.set_result(None)
            else:
                rest.append((count, reached))
        self._waiters = rest
