"""The transport of the native connection of a STOMP client, in place of a socket."""

import asyncio
from collections.abc import Iterable, Sequence
from typing import Any, Protocol

from mqlab.client.inprocess.transport import InProcessTransport
from mqlab.wire.native.frames import Frame


class Translator(Protocol):
    def frames_received(self, frames: Iterable[Frame]) -> None: ...

    def end(self) -> None: ...


class StompTransport(InProcessTransport):
    """Frames go to the translator; all other calls to the socket."""

    def __init__(self, translator: Translator, socket: asyncio.Transport) -> None:
        asyncio.Transport.__init__(self)
        self._translator = translator
        self._socket = socket

    def send(self, frames: Sequence[Frame]) -> None:
        self._translator.frames_received(frames)

    def close(self) -> None:
        self._translator.end()

    def abort(self) -> None:
        self._socket.abort()

    def is_closing(self) -> bool:
        return self._socket.is_closing()

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return self._socket.get_extra_info(name, default)

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        self._socket.set_write_buffer_limits(high, low)
