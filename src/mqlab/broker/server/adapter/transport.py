"""The transport of the native connection inside a protocol connection."""

import asyncio
from collections.abc import Iterable, Sequence
from typing import Protocol

from mqlab.client.inprocess.transport import InProcessTransport
from mqlab.wire.native.frames import Frame


class FrameReceiver(Protocol):
    """The protocol connection, as its native connection sees it."""

    def frames_received(self, frames: Iterable[Frame]) -> None: ...

    def end(self) -> None: ...


class AdapterTransport(InProcessTransport):
    """Frames go to the protocol connection, all other calls to its socket."""

    def __init__(self, connection: FrameReceiver, socket: asyncio.Transport) -> None:
        asyncio.Transport.__init__(self)
        self._connection = connection
        self._socket: asyncio.Transport | None = socket

    def release(self) -> None:
        """The socket is closed: nothing of it waits until this connection is collected."""
        self._socket = None

    def send(self, frames: Sequence[Frame]) -> None:
        self._connection.frames_received(frames)

    def close(self) -> None:
        self._connection.end()

    def abort(self) -> None:
        if self._socket is not None:
            self._socket.abort()

    def is_closing(self) -> bool:
        return self._socket is None or self._socket.is_closing()

    def get_extra_info(self, name: str, default: object = None) -> object:
        return default if self._socket is None else self._socket.get_extra_info(name, default)

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        assert self._socket is not None
        self._socket.set_write_buffer_limits(high, low)
