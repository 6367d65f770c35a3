"""A client's connection to a broker in the same process: it writes frames in place of bytes."""

import asyncio
from typing import Final

from mqlab.client.connection import NativeClientConnection
from mqlab.client.inprocess.transport import InProcessTransport, read_frames
from mqlab.wire.native.bodies import Buffer
from mqlab.wire.native.frames import Frame

# Frames that are written together are delivered together; a frame of so many bytes or more is written by itself.
LARGE_BYTES: Final = 16 * 1024


class FrameConnection(NativeClientConnection):
    """For a broker in another thread. Frames leave together at the end of this turn of the loop."""

    def __init__(self) -> None:
        super().__init__()
        self._unsent_frames: list[Frame] = []

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        assert isinstance(transport, InProcessTransport)
        self._frame_transport = transport

    def send_frame(
        self, kind: int, flags: int, session: int, link: int, first: int, amount: int, payload: Buffer = b""
    ) -> None:
        if self._transport is None:
            self._check_open()
        if self._before_send:
            self._run_before_send()
        if type(payload) is not bytes:
            payload = _immutable(payload)
        self._unsent_frames.append(Frame(kind, flags, session, link, first, amount, payload))
        if len(payload) >= LARGE_BYTES:
            self._write_large()
        elif not (self._flush_scheduled or self.hold_flush):
            self._schedule_flush()

    def flush_before_wait(self) -> None:
        """The broker is in another thread: frames leave with all others of this turn of the loop."""
        if self.hold_flush:
            self.hold_flush = False
            self._schedule_flush()

    def write(self, *data: Buffer) -> None:
        for frame in read_frames(data):
            self.send_frame(*frame)

    def _write_large(self) -> None:
        self._flush()

    def _write_unsent(self) -> None:
        frames, self._unsent_frames = self._unsent_frames, []
        if frames:
            self._frame_transport.send(frames)


def _immutable(payload: Buffer) -> Buffer:
    """The broker keeps the payload: copy it if its owner could still change it."""
    return payload if isinstance(payload, memoryview) and payload.readonly else bytes(payload)
