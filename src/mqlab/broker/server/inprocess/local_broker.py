"""A broker inside a program, whose clients connect to it without a socket, as `bindings:NAME`.

async with LocalBroker(Settings(name="shop", listen=())):
    connection = await aio.connect("bindings:shop")

with LocalBroker.in_thread(Settings(name="shop", listen=())):
    connection = connect("bindings:shop")
"""

import asyncio
import threading
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import AsyncExitStack, contextmanager
from types import TracebackType

import uvloop

from mqlab.broker.server.broker import Broker
from mqlab.broker.server.inprocess.connection import InProcessConnection
from mqlab.broker.server.startup import running
from mqlab.broker.settings import SettingError, Settings
from mqlab.client.inprocess.listener import InProcessListener
from mqlab.wire.address import Address


class LocalBroker:
    """A broker in the running event loop. It also listens on the addresses of its settings, if there are any."""

    broker: Broker
    # The addresses it listens on, with the actual ports.
    addresses: list[Address]
    loop: asyncio.AbstractEventLoop

    def __init__(self, settings: Settings, broker_class: type[Broker] = Broker) -> None:
        if not settings.name:
            raise SettingError("name: a broker inside a program needs a name: its clients connect to bindings:NAME")
        self.name = settings.name
        self._settings, self._broker_class = settings, broker_class
        self._parts = AsyncExitStack()
        self._ending: asyncio.Task[None] | None = None

    @classmethod
    async def start(cls, settings: Settings) -> "LocalBroker":
        """Raises SettingError, also if a broker of that name runs in this process, and OSError."""
        return await cls(settings).__aenter__()

    async def __aenter__(self) -> "LocalBroker":
        self.loop = asyncio.get_running_loop()
        async with AsyncExitStack() as parts:
            broker, self.addresses = await parts.enter_async_context(running(self._settings, self._broker_class))
            listener = InProcessListener(self.name, lambda: InProcessConnection(broker))
            try:
                listener.open()
            except ValueError as error:
                raise SettingError(f"name: {error}") from None
            # The exit stack closes the listener first, so no client connects while the broker closes.
            parts.callback(listener.close)
            self._parts = parts.pop_all()
        self.broker = broker
        broker.failure.add_done_callback(self._failed)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Stop the broker, and close the connections of its clients."""
        await self._parts.aclose()

    def _failed(self, failure: "asyncio.Future[BaseException]") -> None:
        """The broker has failed and closed its connections: accept no others."""
        if not failure.cancelled():
            self._ending = asyncio.ensure_future(self.close())

    @classmethod
    @contextmanager
    def in_thread(cls, settings: Settings, broker_class: type[Broker] = Broker) -> Iterator["LocalBroker"]:
        """For blocking programs: the broker gets a thread and an event loop of its own."""
        local, started, stop = cls(settings, broker_class), Future[asyncio.AbstractEventLoop](), asyncio.Event()

        async def live() -> None:
            try:
                await local.__aenter__()
            except BaseException as error:
                started.set_exception(error)
                return
            started.set_result(asyncio.get_running_loop())
            await stop.wait()
            await local.close()

        thread = threading.Thread(target=lambda: uvloop.run(live()), name="mqlab-broker", daemon=True)
        thread.start()
        try:
            loop = started.result()
            try:
                yield local
            finally:
                loop.call_soon_threadsafe(stop.set)
        finally:
            thread.join()
