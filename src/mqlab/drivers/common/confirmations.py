"""Counter of sent and confirmed messages, for protocols that confirm in the order of the sends."""

import asyncio

from mqlab.drivers.api import DriverError
from mqlab.drivers.common.timeouts import BLOCKED_TIMEOUT_S, with_timeout


class ConfirmationCounter:
    """After `fail`, all waits raise DriverError."""

    def __init__(self) -> None:
        self._sent = self._confirmed = 0
        self._failure = ""
        # The count that each waiter waits for.
        self._waiters: list[tuple[int, asyncio.Future[None]]] = []

    @property
    def unconfirmed(self) -> int:
        return self._sent - self._confirmed

    def count_sent(self, messages: int) -> None:
        """Count these messages as sent, however many are unconfirmed. Raise DriverError after `fail`."""
        if self._failure:
            raise DriverError(self._failure)
        self._sent += messages

    async def reserve(self, messages: int, max_unconfirmed: int) -> None:
        """Count these messages as sent; return when at most `max_unconfirmed` are unconfirmed."""
        self._sent += messages
        if self._sent - max_unconfirmed > self._confirmed or self._failure:
            await self._wait_count(self._sent - max_unconfirmed)

    async def wait_confirmed(self, max_unconfirmed: int = 0) -> None:
        """Return when at most `max_unconfirmed` of the sent messages are unconfirmed."""
        await self._wait_count(self._sent - max_unconfirmed)

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
