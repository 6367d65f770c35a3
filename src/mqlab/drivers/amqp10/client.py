"""An AMQP 1.0 connection: Proton's engine, which has no socket of its own, on an asyncio transport."""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import Final, Protocol, cast

from cproton import isnull, pn_collector_peek, pn_event_delivery, pn_event_type
from proton import (
    Collector,
    Condition,
    Connection,
    Delivery,
    Endpoint,
    Event,
    Link,
    ProtonException,
    Session,
    Transport,
)

from mqlab.drivers.api import DriverError
from mqlab.drivers.common.timeouts import ANSWER_TIMEOUT_S, BLOCKED_TIMEOUT_S, with_timeout
from mqlab.drivers.common.waiting_protocol import WaitingProtocol
from mqlab.wire.address import Address, BadAddressError
from mqlab.wire.tls import client_context

_CONNECT_TIMEOUT_S: Final = 10.0
# How often Proton may send an empty frame, which keeps an idle connection alive.
_TICK_INTERVAL_S: Final = 5.0
_MAX_FRAME_BYTES: Final = 64 * 1024
# After a read of at least so many bytes more may be waiting, and Proton takes tens of microseconds for each message.
_FULL_READ_BYTES: Final = 64 * 1024
# The events that are handled. Proton's classes take microseconds to wrap one, and most are of other kinds.
_DELIVERY: Final = Event.DELIVERY.number
_HANDLED: Final = frozenset(
    kind.number
    for kind in (
        Event.LINK_REMOTE_DETACH, Event.LINK_REMOTE_CLOSE, Event.SESSION_REMOTE_CLOSE, Event.CONNECTION_REMOTE_CLOSE,
        Event.TRANSPORT_ERROR,
    )
)  # fmt: skip


class LinkHandler(Protocol):
    """The context of a Proton link: it handles the link's events."""

    # Whether the broker or this driver has detached the link. Some brokers detach instead of closing.
    detached: bool

    def handle_delivery(self, delivery: Delivery) -> None:
        """Handle a delivery that arrived, or the new state of one that was sent."""


class Amqp10Client(WaitingProtocol):
    """All methods raise DriverError."""

    def __init__(self, container: str, host: str) -> None:
        super().__init__()
        self._collector = Collector()
        self.connection = Connection()
        self.connection.container = container
        self.connection.hostname = host
        self.connection.collect(self._collector)
        self._proton = Transport()
        self._tick_timer: asyncio.TimerHandle | None = None
        self._process_is_due = False

    @classmethod
    async def open(cls, address: str, container: str, user: str = "", password: str = "") -> "Amqp10Client":
        try:
            parsed = Address.parse(address)
        except BadAddressError as error:
            raise DriverError(str(error)) from error
        client = cls(container, parsed.host)
        client.login(user, password)
        try:
            async with asyncio.timeout(_CONNECT_TIMEOUT_S):
                loop, tls = asyncio.get_running_loop(), client_context() if parsed.tls else None
                await loop.create_connection(lambda: client, parsed.host, parsed.port, ssl=tls)
                client.process()
                await client.wait_until(lambda: bool(client.connection.state & Connection.REMOTE_ACTIVE))
        except TimeoutError as error:
            client.abort()
            raise DriverError(f"{address} did not answer within {_CONNECT_TIMEOUT_S:g} s") from error
        except OSError as error:
            raise DriverError(f"{address}: {error}") from error
        except BaseException:
            client.abort()
            raise
        return client

    def login(self, user: str, password: str) -> None:
        if user:
            self.connection.user, self.connection.password = user, password
        sasl = self._proton.sasl()
        sasl.allow_insecure_mechs = True
        sasl.allowed_mechs("PLAIN" if user else "ANONYMOUS")
        self._proton.max_frame_size = _MAX_FRAME_BYTES
        self._proton.bind(self.connection)
        self.connection.open()

    # For the links.

    def process(self) -> None:
        """Handle Proton's events, and write its output to the socket."""
        self._handle_events()
        while not self._paused and (size := self._proton.pending()) > 0:
            if self._transport is None:
                break
            self._transport.write(self._proton.peek(size) or b"")
            self._proton.pop(size)
            self._handle_events()
        self._wake()

    def process_soon(self) -> None:
        """`process` in the next turn of the loop: once for all links that have something to send in this one."""
        if not self._process_is_due:
            self._process_is_due = True
            asyncio.get_running_loop().call_soon(self._process_due)

    def _process_due(self) -> None:
        self._process_is_due = False
        try:
            self.process()
        except DriverError as error:
            self._fail(str(error))

    async def wait_until(self, condition: Callable[[], bool], timeout_s: float = ANSWER_TIMEOUT_S) -> None:
        while not condition():
            await with_timeout(self._next_event(condition), timeout_s, "the broker did not answer")

    async def wait_for(self, condition: Callable[[], bool]) -> None:
        """Wait for the condition without a time limit, as for the next message."""
        while not condition():
            await self._next_event(condition)

    async def wait_writable(self) -> None:
        """Return when the write buffer has space again."""
        if self._paused or self._failed:
            await self.wait_until(lambda: not self._paused, BLOCKED_TIMEOUT_S)

    async def close(self) -> None:
        if self._transport is None:
            return
        try:
            self.check()
            self.connection.close()
            self.process()
            await self.wait_until(lambda: bool(self.connection.state & Connection.REMOTE_CLOSED))
        finally:
            self.abort()

    def abort(self) -> None:
        if self._tick_timer is not None:
            self._tick_timer.cancel()
        super().abort()

    # Callbacks of the event loop.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self._tick()

    def resume_writing(self) -> None:
        self._paused = False
        self.process()

    def data_received(self, data: bytes) -> None:
        view = memoryview(data)
        try:
            while view:
                capacity = self._proton.capacity()
                if capacity <= 0:
                    break
                self._proton.push(bytes(view[:capacity]))
                view = view[capacity:]
                self._handle_events()
        except ProtonException as error:
            self._fail(f"the broker sent something that is not AMQP 1.0: {error}")
        except DriverError as error:
            self._fail(str(error))
        self.process()
        if len(data) >= _FULL_READ_BYTES and self._transport is not None:
            # The event loop would read up to 32 times before it runs the tasks that receive: seconds of messages.
            self._transport.pause_reading()
            asyncio.get_running_loop().call_soon(self._read_on)

    def _read_on(self) -> None:
        if self._transport is not None and not self._transport.is_closing():
            self._transport.resume_reading()

    def _tick(self) -> None:
        loop = asyncio.get_running_loop()
        with suppress(ProtonException):
            self._proton.tick(loop.time())
        self.process()
        self._tick_timer = loop.call_later(_TICK_INTERVAL_S, self._tick)

    def _handle_events(self) -> None:
        collector = self._collector
        while not isnull(bare := pn_collector_peek(collector._impl)):
            number = pn_event_type(bare)
            if number == _DELIVERY:
                # Its event would wrap the link, the session, the connection and the transport too.
                delivery = Delivery(pn_event_delivery(bare))  # type: ignore[no-untyped-call] # Proton has few types
                cast(LinkHandler, delivery.link.context).handle_delivery(delivery)
                collector.pop()
                continue
            if number not in _HANDLED:
                collector.pop()
                continue
            event = collector.peek()
            assert event is not None
            kind = event.type
            if kind == Event.LINK_REMOTE_DETACH:
                assert event.link is not None
                handler = cast(LinkHandler, event.link.context)
                if not handler.detached:
                    handler.detached = True
                    self._handle_remote_close(event.link, "a link")
            elif kind == Event.TRANSPORT_ERROR:
                self._fail(f"the broker reports an error: {_describe(self._proton.condition) or 'no reason'}")
            elif kind == Event.CONNECTION_REMOTE_CLOSE:
                description = _describe(self.connection.remote_condition)
                self._fail(
                    f"the broker reports an error: {description}" if description else "the broker closed the connection"
                )
            elif kind == Event.LINK_REMOTE_CLOSE:
                self._handle_remote_close(event.link, "a link")
            elif kind == Event.SESSION_REMOTE_CLOSE:
                self._handle_remote_close(event.session, "a session")
            collector.pop()

    def _handle_remote_close(self, endpoint: Link | Session | None, kind: str) -> None:
        """Fail if the broker closes a link or session that the driver still uses."""
        assert endpoint is not None
        if description := _describe(endpoint.remote_condition):
            self._fail(f"the broker reports an error: {description}")
        elif endpoint.state & Endpoint.LOCAL_ACTIVE:
            self._fail(f"the broker closed {kind}")


def _describe(condition: Condition | None) -> str:
    if condition is None:
        return ""
    return ": ".join(filter(None, (condition.name, condition.description)))
