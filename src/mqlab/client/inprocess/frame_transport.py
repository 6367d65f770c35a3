"""The wire to a broker in the same process, in whatever thread: frames instead of bytes."""

import asyncio
from typing import Final

from mqlab.client.connection import Wire
from mqlab.client.inprocess.pipe import End, frames_of
from mqlab.wire.native.bodies import Buffer
from mqlab.wire.native.frames import Frame

# What is handled together is delivered together: from so many bytes on a frame is handed over by itself.
LARGE: Final = 16 * 1024


class BoundWire(Wire):
    """The wire to a broker in the same process: frames leave together at the end of this turn of the loop."""

    def __init__(self) -> None:
        super().__init__()
        self._ready: list[Frame] = []

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        assert isinstance(transport, End)
        self._end = transport

    def send(
        self, kind: int, flags: int, session: int, link: int, first: int, amount: int, payload: Buffer = b""
    ) -> None:
        if self._transport is None:
            self._must_be_open()
        if self._first:
            self._do_first()
        if type(payload) is not bytes:
            payload = _unchangeable(payload)
        self._ready.append(Frame(kind, flags, session, link, first, amount, payload))
        if len(payload) >= LARGE:
            self._hand_over_early()
        elif not (self._due or self.held):
            self._flush_soon()

    def about_to_wait(self) -> None:
        """The broker is in another thread: what was sent leaves with all that is sent in this turn of the loop."""
        if self.held:
            self.held = False
            self._flush_soon()

    def write(self, *data: Buffer) -> None:
        for frame in frames_of(data):
            self.send(*frame)

    def _flush(self) -> None:
        self._hand_over()

    def _hand_over_early(self) -> None:
        self._hand_over()

    def _hand_over(self) -> None:
        if self._first:
            self._do_first()
        ready, self._ready = self._ready, []
        if ready:
            self._end.send(ready)


def _unchangeable(payload: Buffer) -> Buffer:
    """The broker keeps it: if anybody could still write to it, a copy."""
    return payload if isinstance(payload, memoryview) and payload.readonly else bytes(payload)
