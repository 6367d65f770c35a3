"""The broker's side of a connection without a socket: frames in, frames out, and all rules of the native protocol."""

import asyncio
from itertools import chain

from mqlab.broker import limits
from mqlab.broker.server.broker import Broker
from mqlab.broker.server.native import Connection
from mqlab.client.pipe import End, frames_of
from mqlab.wire import native
from mqlab.wire.bodies import Buffer, Payload
from mqlab.wire.native import Frame, ProtocolError


class BoundConnection(Connection):
    """A client in the broker's process. What it is given is the broker's own memory, so it can only read it."""

    def __init__(self, broker: Broker) -> None:
        super().__init__(broker)
        self._ready: list[Frame] = []

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, End)
        self._end = transport
        super().connection_made(transport)

    def flush(self) -> None:
        ready, self._ready = self._ready, []
        if self.caller is not None:
            self.caller.left([*chain.from_iterable((native.packed(frame), frame.payload) for frame in ready)])
        self._end.send(ready)

    def _send(self, frame: Frame) -> Payload:
        if len(frame.payload) > limits.FRAME:
            raise ProtocolError(f"a frame of {len(frame.payload)} bytes; the limit is {limits.FRAME}")
        return super()._send(frame)

    def _put(self, frame: Frame) -> None:
        if not self._ready:
            self._broker.unsent.append(self)
        if isinstance(frame.payload, memoryview):
            frame = frame._replace(payload=frame.payload.toreadonly())
        self._ready.append(frame)

    def _write(self, data: Buffer) -> None:
        for frame in frames_of((data,)):
            self._put(frame)
