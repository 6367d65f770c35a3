"""A STOMP connection. Each link has one of its own, since a connection is also the session in STOMP."""

import asyncio
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final

from mqlab.drivers.api import DriverError
from mqlab.drivers.common.timeouts import BLOCKED_TIMEOUT_S, with_timeout
from mqlab.drivers.common.waiting_protocol import WaitingProtocol
from mqlab.drivers.stomp.flavours import StompFlavour, flavour_of
from mqlab.wire.address import Address, BadAddressError
from mqlab.wire.stomp.decoder import Limits, StompFrameDecoder
from mqlab.wire.stomp.frames import StompError, StompFrame, encode
from mqlab.wire.stomp.runs import FrameRun
from mqlab.wire.tls import client_context

_VERSION: Final = "1.2"
_NO_HEADERS: Final[Mapping[str, str]] = MappingProxyType({})
_DEFAULT_CAPACITY: Final = 1_000_000
_CONNECT_TIMEOUT_S: Final = 10.0
# Larger than what the embedded broker accepts from a client: the driver trusts the broker.
_LIMITS: Final = Limits(body=256 * 1024 * 1024)
# Headers that differ from message to message of a subscription; the others are equal for most of them.
_VARYING: Final = frozenset(
    ("message-id", "ack", "timestamp", "correlation-id", "receipt-id", "seq", "producer", "JMSXDeliveryCount")
)


class StompClient(WaitingProtocol):
    """Writes frames, and collects messages and receipts. All methods raise DriverError."""

    flavour: StompFlavour

    def __init__(self) -> None:
        super().__init__()
        # Messages that no link has received yet. With `capacity` messages here the client stops reading.
        self.inbox: list[StompFrame | FrameRun] = []
        self.capacity = _DEFAULT_CAPACITY
        self._reading_paused = False
        self._decoder = StompFrameDecoder(_LIMITS, "", _VARYING)
        self._connected: StompFrame | None = None
        self._receipts_requested = self._receipts_received = 0

    @classmethod
    async def open(
        cls, address: str, options: Mapping[str, str], extra_headers: Mapping[str, str] = _NO_HEADERS
    ) -> "StompClient":
        """Connect; `extra_headers` go into the CONNECT frame."""
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

    # For the links.

    @property
    def closed(self) -> bool:
        return self._transport is None

    def write(self, data: bytes) -> None:
        if self._failed or self._transport is None:
            raise DriverError(self._failed or "the connection is closed")
        self._transport.write(data)

    @property
    def is_write_paused(self) -> bool:
        return self._paused

    async def wait_writable(self) -> None:
        """Return when the write buffer has space again."""
        if self._paused or self._failed:
            await self._wait_until(lambda: not self._paused)

    def reserve_receipts(self, count: int = 1) -> int:
        """Count `count` receipts as requested, and return the number of the first."""
        self._receipts_requested += count
        return self._receipts_requested - count

    async def wait_receipts(self, max_missing: int = 0) -> None:
        """Return when at most `max_missing` of the requested receipts are missing."""
        target = self._receipts_requested - max_missing
        if self._receipts_received < target:
            self._resume_reading()
            await self._wait_until(lambda: self._receipts_received >= target)

    async def wait_message(self) -> None:
        while not self.inbox:
            await self._next_event()

    def resume_when_drained(self) -> None:
        """Resume reading if a link has taken enough messages from the inbox."""
        if self._reading_paused and sum(map(_rows, self.inbox)) < self.capacity:
            self._resume_reading()

    async def command(self, frame: StompFrame) -> None:
        """Send a frame and return when its receipt has come."""
        headers = {**frame.headers, "receipt": str(self.reserve_receipts())}
        self.write(encode(StompFrame(frame.command, headers), _VERSION))
        await self.wait_receipts()

    async def close(self, last: bytes = b"") -> None:
        """Write the frames `last` and disconnect; return when the broker has processed all frames before."""
        if self._transport is None:
            return
        if last:
            self.write(last)
        try:
            await self.command(StompFrame("DISCONNECT"))
        finally:
            self.abort()

    async def _wait_until(self, condition: Callable[[], bool]) -> None:
        """Wait for the condition as long as the broker sends anything within `BLOCKED_TIMEOUT_S`."""
        while not condition():
            await with_timeout(self._next_event(), BLOCKED_TIMEOUT_S, "the broker did not answer")

    def data_received(self, data: bytes) -> None:
        try:
            for frame in self._decoder.feed_runs(data):
                self._handle_frame(frame)
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

    def _handle_frame(self, frame: StompFrame | FrameRun) -> None:
        command = frame.command
        if command == "MESSAGE":
            self.inbox.append(frame)
        elif command == "RECEIPT":
            self._receipts_received += _rows(frame)
        elif command == "CONNECTED" and isinstance(frame, StompFrame):
            self._connected = frame
            self._decoder.version = frame.headers.get("version", "1.0")
            if self._decoder.version != _VERSION:
                self._fail(f"the broker speaks STOMP {self._decoder.version}, not {_VERSION}")
        else:
            body = frame.body if isinstance(frame, StompFrame) else b""
            first, *_ = body.decode(errors="replace").splitlines() or [""]
            texts = dict.fromkeys(filter(None, (frame.headers.get("message", command), first.strip())))
            self._fail(f"the broker reports an error: {': '.join(texts)}")


def _rows(frame: StompFrame | FrameRun) -> int:
    return frame.rows if isinstance(frame, FrameRun) else 1


async def _connect(client: StompClient, address: Address) -> None:
    loop = asyncio.get_running_loop()
    if address.path:
        await loop.create_unix_connection(lambda: client, address.path)
    elif address.host:
        tls = client_context() if address.tls else None
        await loop.create_connection(lambda: client, address.host, address.port, ssl=tls)
    else:
        raise DriverError(f"{address}: STOMP needs a tcp:, tls: or unix: address")
