"""The base of clients whose tasks wait for events: for any, or for one after which a condition holds."""

import asyncio
from collections.abc import Callable
from typing import Final, cast

from mqlab.drivers.api import DriverError
from mqlab.drivers.common.futures import settle

# Enough for a batch.
_WRITE_BUFFER_BYTES: Final = 1024 * 1024


def _always() -> bool:
    return True


class WaitingProtocol(asyncio.Protocol):
    """All waits raise DriverError once the connection has failed."""

    def __init__(self) -> None:
        self._transport: asyncio.Transport | None = None
        self._failed = ""
        self._paused = False
        self._waiters: list[tuple[asyncio.Future[None], Callable[[], bool]]] = []
        # In place of a task that waits: called after each event.
        self.on_event: Callable[[], None] | None = None

    def check(self) -> None:
        if self._failed:
            raise DriverError(self._failed)

    def abort(self) -> None:
        if self._transport is not None:
            self._transport.abort()
            self._transport = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._transport.set_write_buffer_limits(_WRITE_BUFFER_BYTES)

    def connection_lost(self, error: Exception | None) -> None:
        self._fail(f"the broker closed the connection{f' ({error})' if error else ''}")

    def pause_writing(self) -> None:
        self._paused = True

    def resume_writing(self) -> None:
        self._paused = False
        self._wake()

    def _next_event(self, condition: Callable[[], bool] = _always) -> "asyncio.Future[None]":
        """Return a future that is done with the next event of the connection after which the condition holds."""
        self.check()
        waiter = asyncio.get_running_loop().create_future()
        self._waiters.append((waiter, condition))
        return waiter

    def _wake(self) -> None:
        """An event has happened. To wake all tasks of a connection costs far more than to ask for their conditions."""
        waiters, self._waiters = self._waiters, []
        for waiter, condition in waiters:
            if self._failed or condition():
                settle(waiter, None)
            elif not waiter.done():
                self._waiters.append((waiter, condition))
        if self.on_event is not None:
            self.on_event()

    def _fail(self, reason: str) -> None:
        self._failed = self._failed or reason
        self._wake()
