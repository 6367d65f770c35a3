"""Real brokers for tests, over TCP or over bindings; for the blocking API in a thread of their own."""

import asyncio
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import replace
from itertools import count
from zlib import crc32

import uvloop

from mqlab.broker.server import startup
from mqlab.broker.server.broker import Broker
from mqlab.broker.server.inprocess.local_broker import LocalBroker
from mqlab.broker.settings import Settings
from mqlab.wire.address import Address

WAYS = ("tcp", "bindings")
# Which of them the running test uses.
chosen = ["tcp"]
_names = count(1)


@asynccontextmanager
async def running(settings: Settings) -> AsyncIterator[tuple[Broker, list[Address]]]:
    """A broker in this event loop, and where its clients find it."""
    if chosen[0] == "tcp":
        async with startup.running(settings) as found:
            yield found
        return
    # After a restart it has the name it had before.
    name = settings.name or (f"at-{crc32(bytes(settings.data))}" if settings.data else f"broker-{next(_names)}")
    async with LocalBroker(replace(settings, name=name, listen=())) as local:
        assert local.addresses == []
        yield local.broker, [Address.parse(f"bindings:{name}")]


class Served:
    """Where it listens, and a way to end it before the test does."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._ready = threading.Event()
        self._thread = threading.Thread(target=lambda: uvloop.run(self._serve()), daemon=True)
        self._thread.start()
        assert self._ready.wait(240)

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
            # Somebody else may have stopped it a moment ago.
            with suppress(RuntimeError):
                self._loop.call_soon_threadsafe(self._stop.set)
            self._thread.join(240)
            assert not self._thread.is_alive()


@contextmanager
def serving(settings: Settings) -> Iterator[Served]:
    served = Served(settings)
    try:
        yield served
    finally:
        served.stop()
