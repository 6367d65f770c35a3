"""An AMQP 1.0 connection: Proton's engine, which knows no socket, between an asyncio transport and the links."""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final, Protocol, cast

from proton import Collector, Connection, Endpoint, Event, ProtonException, Transport

from mqlab.drivers.api import DriverError
from mqlab.drivers.common.timeouts import ANSWER_TIMEOUT_S, BLOCKED_TIMEOUT_S, with_timeout
from mqlab.wire.address import Address, BadAddressError
from mqlab.wire.tls import client_context

_CONNECT_SECONDS: Final = 10.0
_HIGH_MARK: Final = 1024 * 1024
# The broker is told that somebody is there well before it gives up.
_TICK_SECONDS: Final = 5.0
_MOST_FRAME: Final = 64 * 1024


class Linked(Protocol):
    """What a link of the engine has as its context."""

    # Whether the broker has let go of it, some without a word that it is closed; or it was left from here.
    gone: bool

    def delivered(self, delivery: Any) -> None:
        """Something has come, or was said of something that was sent."""


class Engine(asyncio.Protocol):
    """All that can fail raises DriverError."""

    def __init__(self, container: str, host: str) -> None:
        self._collector = Collector()
        self.connection = Connection()
        self.connection.container = container
        self.connection.hostname = host
        self.connection.collect(self._collector)
        self._engine = Transport()
        self._transport: asyncio.Transport | None = None
        self._paused = False
        self._failed = ""
        self._waiters: list[asyncio.Future[None]] = []
        self._ticking: asyncio.TimerHandle | None = None

    @classmethod
    async def open(cls, address: str, container: str, user: str = "", password: str = "") -> "Engine":
        try:
            where = Address.parse(address)
        except BadAddressError as error:
            raise DriverError(str(error)) from error
        engine = cls(container, where.host)
        engine.login(user, password)
        try:
            async with asyncio.timeout(_CONNECT_SECONDS):
                loop, tls = asyncio.get_running_loop(), client_context() if where.tls else None
                await loop.create_connection(lambda: engine, where.host, where.port, ssl=tls)
                engine.pump()
                await engine.until(lambda: bool(engine.connection.state & Connection.REMOTE_ACTIVE))
        except TimeoutError as error:
            engine.abort()
            raise DriverError(f"{address} did not answer within {_CONNECT_SECONDS:g} s") from error
        except OSError as error:
            raise DriverError(f"{address}: {error}") from error
        except BaseException:
            engine.abort()
            raise
        return engine

    def login(self, user: str, password: str) -> None:
        if user:
            self.connection.user, self.connection.password = user, password
        sasl = self._engine.sasl()
        sasl.allow_insecure_mechs = True
        sasl.allowed_mechs("PLAIN" if user else "ANONYMOUS")
        self._engine.max_frame_size = _MOST_FRAME
        self._engine.bind(self.connection)
        self.connection.open()

    # What links use.

    def pump(self) -> None:
        """Deals with what the engine has to say, and writes what it has to send."""
        self._events()
        while not self._paused and (size := self._engine.pending()) > 0:
            if self._transport is None:
                break
            self._transport.write(self._engine.peek(size))
            self._engine.pop(size)
            self._events()
        self.wake()

    def check(self) -> None:
        if self._failed:
            raise DriverError(self._failed)

    async def until(self, happened: Callable[[], bool], seconds: float = ANSWER_TIMEOUT_S) -> None:
        if not happened():
            await with_timeout(self.whenever(happened), seconds, "the broker did not answer")

    async def whenever(self, happened: Callable[[], bool]) -> None:
        """As `until`, for what nobody owes, such as the next message: whoever waits for it knows how long."""
        while not happened():
            self.check()
            waiter = asyncio.get_running_loop().create_future()
            self._waiters.append(waiter)
            await waiter

    async def writable(self) -> None:
        """When there is room for more to be written."""
        if self._paused or self._failed:
            await self.until(lambda: not self._paused, BLOCKED_TIMEOUT_S)

    def wake(self) -> None:
        waiters, self._waiters = self._waiters, []
        for waiter in waiters:
            if not waiter.done():
                waiter.set_result(None)

    async def close(self) -> None:
        if self._transport is None:
            return
        try:
            self.check()
            self.connection.close()
            self.pump()
            await self.until(lambda: bool(self.connection.state & Connection.REMOTE_CLOSED))
        finally:
            self.abort()

    def abort(self) -> None:
        if self._ticking is not None:
            self._ticking.cancel()
        if self._transport is not None:
            self._transport.abort()
            self._transport = None

    # What the event loop calls.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._transport.set_write_buffer_limits(_HIGH_MARK)
        self._tick()

    def connection_lost(self, error: Exception | None) -> None:
        self._fail(f"the broker closed the connection{f' ({error})' if error else ''}")

    def pause_writing(self) -> None:
        self._paused = True

    def resume_writing(self) -> None:
        self._paused = False
        self.pump()

    def data_received(self, data: bytes) -> None:
        view = memoryview(data)
        try:
            while view:
                capacity = self._engine.capacity()
                if capacity <= 0:
                    break
                self._engine.push(bytes(view[:capacity]))
                view = view[capacity:]
                self._events()
        except ProtonException as error:
            self._fail(f"the broker sent something that is not AMQP 1.0: {error}")
        except DriverError as error:
            self._fail(str(error))
        self.pump()

    def _tick(self) -> None:
        loop = asyncio.get_running_loop()
        with suppress(ProtonException):
            self._engine.tick(loop.time())
        self.pump()
        self._ticking = loop.call_later(_TICK_SECONDS, self._tick)

    def _fail(self, why: str) -> None:
        self._failed = self._failed or why
        self.wake()

    def _events(self) -> None:
        collector = self._collector
        while (event := collector.peek()) is not None:
            kind = event.type
            if kind == Event.DELIVERY:
                delivery = event.delivery
                cast(Linked, delivery.link.context).delivered(delivery)
            elif kind == Event.LINK_REMOTE_DETACH:
                linked = cast(Linked, event.link.context)
                if not linked.gone:
                    linked.gone = True
                    self._ended(event.link, "a link")
            elif kind == Event.TRANSPORT_ERROR:
                self._fail(f"the broker says: {_said(self._engine.condition) or 'nothing'}")
            elif kind == Event.CONNECTION_REMOTE_CLOSE:
                said = _said(self.connection.remote_condition)
                self._fail(f"the broker says: {said}" if said else "the broker closed the connection")
            elif kind == Event.LINK_REMOTE_CLOSE:
                self._ended(event.link, "a link")
            elif kind == Event.SESSION_REMOTE_CLOSE:
                self._ended(event.session, "a session")
            collector.pop()

    def _ended(self, endpoint: Any, what: str) -> None:
        """By the broker; whoever waits on something that was not closed here would wait for ever."""
        if said := _said(endpoint.remote_condition):
            self._fail(f"the broker says: {said}")
        elif endpoint.state & Endpoint.LOCAL_ACTIVE:
            self._fail(f"the broker closed {what}")


def _said(condition: Any) -> str:
    if condition is None:
        return ""
    return ": ".join(filter(None, (condition.name, condition.description)))
