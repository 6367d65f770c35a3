"""A peer in the test's own event loop, in place of a broker."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import numpy as np
import uvloop

from mqlab.drivers import DRIVERS, DriverConnection
from mqlab.drivers.api import Matrix
from mqlab.drivers.null_server.api import NullServer


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
