"""Sockets of connections that the broker has ended, while their clients may still read the last frame."""

import asyncio
from collections.abc import Hashable
from typing import Final

# Seconds for a client to read the last frame before its socket is aborted.
CLOSE_SECONDS: Final = 2.0


class ClosingSockets:
    """No socket outlives its deadline or the broker: a client that reads nothing would keep it open for ever."""

    def __init__(self) -> None:
        self._sockets: dict[Hashable, tuple[asyncio.Transport, asyncio.TimerHandle]] = {}

    def __len__(self) -> int:
        return len(self._sockets)

    def add(self, connection: Hashable, socket: asyncio.Transport) -> None:
        deadline = asyncio.get_running_loop().call_later(CLOSE_SECONDS, self._abort, connection)
        self._sockets[connection] = socket, deadline

    def discard(self, connection: Hashable) -> None:
        """The socket of the connection is closed."""
        _, deadline = self._sockets.pop(connection, (None, None))
        if deadline is not None:
            deadline.cancel()

    def abort_all(self) -> None:
        for connection in [*self._sockets]:
            self._abort(connection)

    def _abort(self, connection: Hashable) -> None:
        socket, _ = self._sockets[connection]
        self.discard(connection)
        socket.abort()
