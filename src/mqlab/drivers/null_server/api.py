"""The base class of null servers, which writes to a client only as fast as the client reads."""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import ClassVar, Final, cast

import numpy as np

from mqlab.drivers.common.filler import ID_SIZE, filler

_READ_BYTES: Final = 1024 * 1024
_WRITE_BUFFER_BYTES: Final = 4 * 1024 * 1024


class NullServer(asyncio.BufferedProtocol, ABC):
    """One connection of a client. Every body that it delivers has `size` bytes; a frame may hold `batch` messages."""

    # Whether the protocol moves queue messages in another way than topic messages: then both are calibrated.
    domains_differ: ClassVar[bool] = False
    # Time until the client has reached its full rate, and time over which a calibration measures it.
    warm_up_s: ClassVar[float] = 0.1
    measure_s: ClassVar[float] = 0.4

    def __init__(self, size: int, batch: int) -> None:
        self.size = size
        self.batch = batch
        # Bodies like the lab's (4 bytes of producer, 8 of sequence number, filler), so that a consumer role has the
        # same work with them as with those of a real run.
        self.bodies = np.zeros((batch, size), dtype=np.uint8)
        self.bodies[:, ID_SIZE:] = filler(size)
        self.bodies[:, 4:ID_SIZE] = np.arange(batch, dtype="<u8").view(np.uint8).reshape(batch, 8)
        # The frames that every consumer gets, for protocols without credit; b"" until a client has subscribed.
        self._messages = b""
        self._buffer = memoryview(bytearray(_READ_BYTES))
        self._transport: asyncio.Transport | None = None
        self._paused = False
        # `deliver` is already scheduled.
        self._delivery_scheduled = False

    @classmethod
    def options(cls, size: int, jars: str) -> Mapping[str, str]:  # noqa: ARG003 - most drivers need none
        """Return the options for the driver. `jars` is the Java library that it uses with a real system."""
        return {}

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
