"""What all null peers share: one connection, written to only as fast as the client reads."""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import ClassVar, Final, cast

import numpy as np

_READ: Final = 1024 * 1024
_UNSENT: Final = 4 * 1024 * 1024


class NullServer(asyncio.BufferedProtocol, ABC):
    """One connection of a client. `size` is that of every body it delivers, `batch` how many may go in one frame."""

    # Whether the protocol moves queue messages in another way than topic messages: then both are calibrated.
    domains_differ: ClassVar[bool] = False
    # Time until the client has reached its full rate, and time over which a calibration measures it.
    warm_up_s: ClassVar[float] = 0.1
    measure_s: ClassVar[float] = 0.4

    def __init__(self, size: int, batch: int) -> None:
        self.size = size
        self.batch = batch
        # What it delivers: numbered as the lab's messages are (4 bytes of producer, 8 of sequence number), so that
        # whoever receives them has no more to do than with those.
        self.bodies = np.zeros((batch, size), dtype=np.uint8)
        self.bodies[:, 4:12] = np.arange(batch, dtype="<u8").view(np.uint8).reshape(batch, 8)
        self._room = memoryview(bytearray(_READ))
        self._transport: asyncio.Transport | None = None
        self._paused = False
        # It delivers with the next turn of the loop.
        self._due = False

    @classmethod
    def options(cls, size: int, jars: str) -> Mapping[str, str]:  # noqa: ARG003 - most drivers need none
        """For the driver, beside the address. `jars`: the library of Java that it would use with a system."""
        return {}

    @abstractmethod
    def received(self, data: memoryview) -> None:
        """Bytes of the client; the memory is used again afterwards."""

    @abstractmethod
    def more(self) -> bytes | None:
        """The next messages for its consumers, as bytes of the protocol; None: nobody has room for any now."""

    def write(self, data: bytes) -> None:
        if self._transport is not None:
            self._transport.write(data)

    def refuse(self) -> None:
        """End the connection: its client sends a frame of a length that no frame can have."""
        if self._transport is not None:
            self._transport.abort()

    def deliver(self) -> None:
        """As long as the client reads and has room. One that reads as fast as this writes must be heard, too."""
        written = 0
        while not self._paused and self._transport is not None and not self._transport.is_closing():
            data = self.more()
            if data is None:
                return
            self._transport.write(data)
            written += len(data)
            if written >= _UNSENT:
                self._deliver_soon()
                return

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._transport.set_write_buffer_limits(high=_UNSENT)

    def get_buffer(self, sizehint: int) -> memoryview:  # noqa: ARG002 - the room is always the same
        return self._room

    def buffer_updated(self, size: int) -> None:
        self.received(self._room[:size])
        self.deliver()

    def pause_writing(self) -> None:
        self._paused = True

    def resume_writing(self) -> None:
        self._paused = False
        # Not from within the transport: it is not done with its own buffer yet.
        self._deliver_soon()

    def _deliver_soon(self) -> None:
        if not self._due:
            self._due = True
            asyncio.get_running_loop().call_soon(self._deliver_due)

    def _deliver_due(self) -> None:
        self._due = False
        self.deliver()

    def connection_lost(self, error: Exception | None) -> None:  # noqa: ARG002 - gone is gone
        self._transport = None
