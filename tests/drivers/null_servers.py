"""Null servers, in the test's own event loop in place of a broker.

A null server confirms all that a driver sends, keeps nothing, and delivers one batch again and again.
"""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Final, cast

import numpy as np
import uvloop

from mqlab.drivers import DRIVERS, DriverConnection
from mqlab.drivers.api import Matrix

_READ_BYTES: Final = 1024 * 1024
_WRITE_BUFFER_BYTES: Final = 4 * 1024 * 1024


class NullServer(asyncio.BufferedProtocol, ABC):
    """One connection of a client. Every body that it delivers has `size` bytes; a frame may hold `batch` messages."""

    def __init__(self, size: int, batch: int) -> None:
        self.size = size
        self.batch = batch
        # Bodies numbered as the lab's are (4 bytes of producer, 8 of sequence number), so that a consumer role has the
        # same work with them as with those of a real run.
        self.bodies = np.zeros((batch, size), dtype=np.uint8)
        self.bodies[:, 4:12] = np.arange(batch, dtype="<u8").view(np.uint8).reshape(batch, 8)
        # The frames that every consumer gets, for protocols without credit; b"" until a client has subscribed.
        self._messages = b""
        self._buffer = memoryview(bytearray(_READ_BYTES))
        self._transport: asyncio.Transport | None = None
        self._paused = False
        # `deliver` is already scheduled.
        self._delivery_scheduled = False

    @abstractmethod
    def handle_data(self, data: memoryview) -> None:
        """Handle bytes that the client sent. The memory is reused after the return."""

    def next_messages(self) -> bytes | None:
        """Return the frames of the next messages for the consumers, or None if no consumer has credit now."""
        return self._messages or None

    def write(self, data: bytes) -> None:
        if self._transport is not None:
            self._transport.write(data)

    def abort(self) -> None:
        """Abort the connection of a client that sent a frame of an impossible length."""
        if self._transport is not None:
            self._transport.abort()

    def deliver(self) -> None:
        """Write messages while the client reads and has credit, in slices so that its own frames are read too."""
        written = 0
        while not self._paused and self._transport is not None and not self._transport.is_closing():
            data = self.next_messages()
            if data is None:
                return
            self._transport.write(data)
            written += len(data)
            if written >= _WRITE_BUFFER_BYTES:
                self._deliver_soon()
                return

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._transport.set_write_buffer_limits(high=_WRITE_BUFFER_BYTES)

    def get_buffer(self, sizehint: int) -> memoryview:  # noqa: ARG002 - always the same buffer
        return self._buffer

    def buffer_updated(self, size: int) -> None:
        self.handle_data(self._buffer[:size])
        self.deliver()

    def pause_writing(self) -> None:
        self._paused = True

    def resume_writing(self) -> None:
        self._paused = False
        # Not at once: the transport that calls this is still writing its buffer.
        self._deliver_soon()

    def _deliver_soon(self) -> None:
        if not self._delivery_scheduled:
            self._delivery_scheduled = True
            asyncio.get_running_loop().call_soon(self._deliver_scheduled)

    def _deliver_scheduled(self) -> None:
        self._delivery_scheduled = False
        self.deliver()

    def connection_lost(self, error: Exception | None) -> None:  # noqa: ARG002 - the reason does not matter
        self._transport = None


def bodies(rows: int, size: int = 12) -> Matrix:
    """Message i is filled with its number."""
    return np.repeat(np.arange(rows).astype(np.uint8), size).reshape(rows, size)


@asynccontextmanager
async def serving(make: Callable[[], NullServer]) -> AsyncIterator[str]:
    """The address at which each connection gets a peer of its own; all of them end with it."""
    server = await asyncio.get_running_loop().create_server(make, "127.0.0.1", 0)
    try:
        yield f"tcp:127.0.0.1:{server.sockets[0].getsockname()[1]}"
    finally:
        server.close()


def against(driver: str, make: Callable[[], NullServer], play: Callable[[DriverConnection], Awaitable[None]]) -> None:
    """Plays with a connection, closes it, and sees that no task is left."""

    async def main() -> None:
        async with asyncio.timeout(240), serving(make) as address:
            before = asyncio.all_tasks()
            connection = await DRIVERS[driver](address).connect("Test")
            try:
                await play(connection)
            finally:
                await connection.close()
            await asyncio.sleep(0)
            assert asyncio.all_tasks() == before

    uvloop.run(main())


async def turns(number: int = 20) -> None:
    """Lets the event loop go on, so that whatever can happen without the test does."""
    for _ in range(number):
        await asyncio.sleep(0.001)


def check_confirming(driver: str, null: type[NullServer], to: str, rows: int, size: int) -> None:
    """What is waited for is confirmed, whatever was sent before without waiting."""

    async def play(connection: DriverConnection) -> None:
        sender = await connection.sender(to, persistent=False, transacted=False)
        for wait in (True, False, True):
            await sender.send(bodies(rows, size), wait=wait)
        await sender.close()

    against(driver, lambda: null(size, rows), play)
