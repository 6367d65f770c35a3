"""One STOMP connection. Each link of the driver has one of its own: to STOMP, a connection is what a session is."""

import asyncio
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final, cast

from mqlab.drivers.api import DriverError
from mqlab.drivers.common.timeouts import BLOCKED_TIMEOUT_S, next_message, with_timeout
from mqlab.drivers.stomp.flavours import StompFlavour, flavour_of
from mqlab.wire.address import Address, BadAddressError
from mqlab.wire.stomp import FrameRun, Limits, StompError, StompFrame, StompFrameDecoder, encode
from mqlab.wire.tls import client_context

_VERSION: Final = "1.2"
_NO_HEADERS: Final[Mapping[str, str]] = MappingProxyType({})
# Written ahead of what the socket takes: enough for a batch, little to be lost.
_WRITE_BUFFER_BYTES: Final = 1024 * 1024
_DEFAULT_CAPACITY: Final = 1_000_000
_CONNECT_TIMEOUT_S: Final = 10.0
# A broker is trusted with larger messages than a client of ours would be.
_LIMITS: Final = Limits(body=256 * 1024 * 1024)
# Of the messages of one subscription these differ from one to the next; anything else is the same for most of them.
_VARYING: Final = frozenset(
    ("message-id", "ack", "timestamp", "correlation-id", "receipt-id", "seq", "producer", "JMSXDeliveryCount")
)


class StompClient(asyncio.Protocol):
    """Bytes out, messages and receipts in. All that can fail raises DriverError."""

    flavour: StompFlavour

    def __init__(self) -> None:
        # What was received and not taken yet; beyond so many messages no more is read, whatever the broker sends.
        self.inbox: list[StompFrame | FrameRun] = []
        self.capacity = _DEFAULT_CAPACITY
        self._reading_paused = False
        self._splitter = StompFrameDecoder(_LIMITS, "", _VARYING)
        self._transport: asyncio.Transport | None = None
        self._failed = ""
        self._connected: StompFrame | None = None
        self._receipts_requested = self._receipts_received = 0
        self._paused = False
        self._waiters: list[asyncio.Future[None]] = []

    @classmethod
    async def open(
        cls, address: str, options: Mapping[str, str], extra_headers: Mapping[str, str] = _NO_HEADERS
    ) -> "StompClient":
        """`more` are further headers of its CONNECT."""
        client = cls()
        try:
            async with asyncio.timeout(_CONNECT_TIMEOUT_S):
                await _connect(client, Address.parse(address))
                headers = {"accept-version": _VERSION, "host": options.get("host", "/"), "heart-beat": "0,0"}
                if "user" in options:
                    headers |= {"login": options["user"], "passcode": options.get("password", "")}
                client.write(encode(StompFrame("CONNECT", {**headers, **extra_headers}), _VERSION))
                await client._wait_until(lambda: client._connected is not None)
        except TimeoutError as error:
            client.abort()
            raise DriverError(f"{address} did not answer within {_CONNECT_TIMEOUT_S:g} s") from error
        except (OSError, BadAddressError) as error:
            raise DriverError(f"{address}: {error}") from error
        except BaseException:
            client.abort()
            raise
        assert client._connected is not None
        client.flavour = flavour_of(options.get("flavour", ""), client._connected.headers.get("server", ""))
        return client

    # What links use.

    @property
    def closed(self) -> bool:
        return self._transport is None

    def write(self, data: bytes) -> None:
        if self._failed or self._transport is None:
            raise DriverError(self._failed or "the connection is closed")
        self._transport.write(data)

    async def wait_writable(self) -> None:
        """When there is room for more to be written."""
        if self._paused or self._failed:
            await self._wait_until(lambda: not self._paused)

    def reserve_receipts(self, count: int = 1) -> int:
        """The number of the first of so many receipts that will now be asked for."""
        self._receipts_requested += count
        return self._receipts_requested - count

    async def wait_receipts(self, max_missing: int = 0) -> None:
        """When all receipts that were asked for have come, or all but so many."""
        target = self._receipts_requested - max_missing
        if self._receipts_received < target:
            self._resume_reading()
            await self._wait_until(lambda: self._receipts_received >= target)

    async def wait_message(self, *, is_reply: bool = False) -> None:
        """When there is something in the inbox."""
        while not self.inbox:
            await next_message(self._next_event(), is_reply=is_reply)

    def resume_when_drained(self) -> None:
        """Some of the inbox was: there is room again."""
        if self._reading_paused and sum(map(_rows, self.inbox)) < self.capacity:
            self._resume_reading()

    async def command(self, frame: StompFrame) -> None:
        """A frame that is waited for."""
        self.write(
            encode(StompFrame(frame.command, {**frame.headers, "receipt": str(self.reserve_receipts())}), _VERSION)
        )
        await self.wait_receipts()

    async def close(self) -> None:
        """Returns when the broker has taken everything that was written before."""
        if self._transport is None:
            return
        try:
            await self.command(StompFrame("DISCONNECT"))
        finally:
            self.abort()

    def abort(self) -> None:
        if self._transport is not None:
            self._transport.abort()
            self._transport = None

    async def _wait_until(self, condition: Callable[[], bool]) -> None:
        """A broker that is slow, but says something, is waited for."""
        while not condition():
            await with_timeout(self._next_event(), BLOCKED_TIMEOUT_S, "the broker did not answer")

    def _next_event(self) -> "asyncio.Future[None]":
        """Whatever happens next."""
        if self._failed:
            raise DriverError(self._failed)
        waiter = asyncio.get_running_loop().create_future()
        self._waiters.append(waiter)
        return waiter

    def _wake(self) -> None:
        waiters, self._waiters = self._waiters, []
        for waiter in waiters:
            if not waiter.done():
                waiter.set_result(None)

    def _fail(self, reason: str) -> None:
        self._failed = self._failed or reason
        self._wake()

    # What the event loop calls.

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

    def data_received(self, data: bytes) -> None:
        try:
            for found in self._splitter.feed_runs(data):
                self._handle_frame(found)
        except StompError as error:
            self._fail(f"the broker sent something that is not STOMP: {error}")
            if self._transport is not None:
                self._transport.abort()
        if self._receipts_received == self._receipts_requested and sum(map(_rows, self.inbox)) >= self.capacity:
            self._pause_reading()
        self._wake()

    def _pause_reading(self) -> None:
        if not self._reading_paused and self._transport is not None:
            self._reading_paused = True
            self._transport.pause_reading()

    def _resume_reading(self) -> None:
        if self._reading_paused and self._transport is not None:
            self._reading_paused = False
            self._transport.resume_reading()

    def _handle_frame(self, found: StompFrame | FrameRun) -> None:
        command = found.command
        if command == "MESSAGE":
            self.inbox.append(found)
        elif command == "RECEIPT":
            self._receipts_received += _rows(found)
        elif command == "CONNECTED" and isinstance(found, StompFrame):
            self._connected = found
            self._splitter.version = found.headers.get("version", "1.0")
            if self._splitter.version != _VERSION:
                self._fail(f"the broker speaks STOMP {self._splitter.version}, not {_VERSION}")
        else:
            first, *_ = (
                found.body.decode(errors="replace").splitlines() or [""] if isinstance(found, StompFrame) else [""]
            )
            said = dict.fromkeys(filter(None, (found.headers.get("message", command), first.strip())))
            self._fail(f"the broker says: {': '.join(said)}")


def _rows(found: StompFrame | FrameRun) -> int:
    return found.rows if isinstance(found, FrameRun) else 1


async def _connect(client: StompClient, address: Address) -> None:
    loop = asyncio.get_running_loop()
    if address.path:
        await loop.create_unix_connection(lambda: client, address.path)
    elif address.host:
        tls = client_context() if address.tls else None
        await loop.create_connection(lambda: client, address.host, address.port, ssl=tls)
    else:
        raise DriverError(f"{address}: STOMP needs a socket")
