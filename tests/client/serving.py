"""A real broker in a thread of its own: the plain API blocks, so it cannot share the test's thread."""

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import uvloop

from mqlab.broker.server.broker import Broker
from mqlab.broker.server.listen import running
from mqlab.broker.settings import Settings


class Served:
    """Where it listens, and a way to end it before the test does."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._ready = threading.Event()
        self._thread = threading.Thread(target=lambda: uvloop.run(self._serve()), daemon=True)
        self._thread.start()
        assert self._ready.wait(10)

    async def _serve(self) -> None:
        self._loop, self._stop = asyncio.get_running_loop(), asyncio.Event()
        async with running(self._settings) as (self.broker, (address,)):
            self.address = str(address)
            self._ready.set()
            await self._stop.wait()

    broker: Broker
    address: str

    def stop(self) -> None:
        if self._thread.is_alive():
            self._loop.call_soon_threadsafe(self._stop.set)
            self._thread.join(10)
            assert not self._thread.is_alive()


@contextmanager
def serving(settings: Settings) -> Iterator[Served]:
    served = Served(settings)
    try:
        yield served
    finally:
        served.stop()
