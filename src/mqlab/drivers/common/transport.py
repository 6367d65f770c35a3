"""Socket transport: reads into one large buffer, which is parsed in place, and writes under flow control."""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import Final, cast

import numpy as np

from mqlab.drivers.api import DriverError
from mqlab.drivers.common.timeouts import BLOCKED_TIMEOUT_S, with_timeout
from mqlab.wire.address import Address, BadAddressError
from mqlab.wire.native.payload import Bytes

_READ_BYTES: Final = 1 << 20
# The transport moves an incomplete frame to the start of the buffer if less free space than this is left.
_MIN_FREE_BYTES: Final = 1 << 18
# A sender waits while more unwritten bytes than this are buffered.
_WRITE_BUFFER_BYTES: Final = 1 << 20
_CLOSE_TIMEOUT_S: Final = 5.0

# Parses received bytes; returns how many it consumed, and how many must be there before it is called again.
Parse = Callable[[Bytes], tuple[int, int]]


class SocketTransport(asyncio.BufferedProtocol):
    """`parse` must copy what it keeps. `on_lost` is called once with the reason, or with "" after `close`."""

    def __init__(self, name: str, parse: Parse, on_lost: Callable[[str], None]) -> None:
        self._name = name
        self._parse = parse
        self._on_lost = on_lost
        self._buffer = np.empty(_READ_BYTES, dtype=np.uint8)
        self._begin = self._end = 0
        # Bytes that must be there before `parse` is called again.
        self._needed = 0
        self._transport: asyncio.Transport | None = None
        self._failure = ""
        self._closing = False
        self._closed = asyncio.get_running_loop().create_future()
        self._writable: asyncio.Future[None] | None = None
        self._paused_by: set[object] = set()
        # Bytes that are written while a read is parsed. They leave together.
        self._unsent: list[bytes] | None = None

    async def open(self, address: str) -> None:
        loop = asyncio.get_running_loop()
        try:
            parsed = Address.parse(address)
            if parsed.path:
                await loop.create_unix_connection(lambda: self, parsed.path)
            elif parsed.host and not parsed.tls:
                await with_timeout(
                    loop.create_connection(lambda: self, parsed.host, parsed.port), failure=f"{address} did not answer"
                )
            else:
                raise DriverError(f"{address}: {self._name} needs a tcp: or unix: address")
        except (OSError, BadAddressError) as error:
            raise DriverError(f"cannot connect to {address}: {error}") from error

    def write(self, data: bytes) -> None:
        """Raise DriverError if the connection is closed or lost."""
        if self._transport is None or self._closing:
            raise DriverError(self._failure or "the connection is closed")
        if self._unsent is None:
            self._transport.write(data)
        else:
            self._unsent.append(data)

    async def wait_writable(self) -> None:
        """Return when the write buffer has space again."""
        while self._writable is not None:
            await with_timeout(asyncio.shield(self._writable), BLOCKED_TIMEOUT_S)
            if self._failure:
                raise DriverError(self._failure)

    @property
    def is_write_paused(self) -> bool:
        return self._writable is not None

    def pause_reading(self, owner: object) -> None:
        """Stop reading until every owner that paused has resumed."""
        if not self._paused_by and self._transport is not None and not self._closing:
            self._transport.pause_reading()
        self._paused_by.add(owner)

    def resume_reading(self, owner: object) -> None:
        if owner in self._paused_by:
            self._paused_by.discard(owner)
            if not self._paused_by and self._transport is not None and not self._closing:
                self._transport.resume_reading()

    def fail(self, reason: str) -> None:
        """Abort the connection for this reason."""
        self._failure = self._failure or reason
        if self._transport is not None:
            self._transport.abort()

    async def close(self) -> None:
        """Flush the write buffer and close; abort if the system does not read it within `_CLOSE_TIMEOUT_S`."""
        if self._transport is None:
            return
        self._closing = True
        # A connection that is not read does not notice that the peer closes it.
        if self._paused_by and not self._closed.done():
            self._transport.resume_reading()
        self._transport.close()
        with suppress(TimeoutError):
            await asyncio.wait_for(asyncio.shield(self._closed), _CLOSE_TIMEOUT_S)
        if not self._closed.done():
            self._transport.abort()

    # Callbacks of the event loop.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._transport.set_write_buffer_limits(high=_WRITE_BUFFER_BYTES)

    def get_buffer(self, _: int) -> memoryview:
        return self._buffer[self._end :].data

    def buffer_updated(self, size: int) -> None:
        self._end += size
        if self._closing:
            self._begin = self._end = 0
            return
        if self._end - self._begin < self._needed:
            self._compact()
            return
        self._unsent = []
        try:
            done, self._needed = self._parse(self._buffer[self._begin : self._end])
        except ValueError as error:
            self.fail(f"{self._name}: {error}")
            return
        finally:
            unsent, self._unsent = self._unsent, None
            if unsent and self._transport is not None:
                self._transport.write(unsent[0] if len(unsent) == 1 else b"".join(unsent))
        self._begin += done
        self._compact()

    def eof_received(self) -> None:
        self._failure = self._failure or f"the {self._name} server closed the connection"

    def pause_writing(self) -> None:
        self._writable = asyncio.get_running_loop().create_future()

    def resume_writing(self) -> None:
        self._set_writable()

    def connection_lost(self, error: Exception | None) -> None:
        if self._closing:
            self._failure = ""
        elif not self._failure:
            self._failure = f"the connection to the {self._name} server is lost" + (f": {error}" if error else "")
        self._closing = True
        self._set_writable()
        if not self._closed.done():
            self._closed.set_result(None)
        self._on_lost(self._failure)

    def _set_writable(self) -> None:
        if self._writable is not None and not self._writable.done():
            self._writable.set_result(None)
        self._writable = None

    def _compact(self) -> None:
        rest = self._end - self._begin
        if rest == 0:
            self._begin = self._end = 0
            if len(self._buffer) > _READ_BYTES:
                self._buffer = np.empty(_READ_BYTES, dtype=np.uint8)
        elif self._needed > len(self._buffer) - self._begin or len(self._buffer) - self._end < _MIN_FREE_BYTES:
            size = max(len(self._buffer), self._needed + _MIN_FREE_BYTES, 2 * rest)
            before = self._buffer[self._begin : self._end]
            target = np.empty(size, dtype=np.uint8) if size > len(self._buffer) else self._buffer
            # Within one buffer the two ranges may overlap.
            target[:rest] = before.copy() if target is self._buffer else before
            self._buffer, self._begin, self._end = target, 0, rest
