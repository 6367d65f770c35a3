"""Listeners of the brokers in this process, by name: `connect("bindings:NAME")` finds its broker here.

In the broker's own event loop it handles frames before their sender waits, as if the broker were a library. A client in
any other thread gets a transport between the two event loops.
"""

import asyncio
import threading
from collections.abc import Callable

from mqlab.client.connection import NativeClientConnection
from mqlab.client.inprocess.direct_connection import DirectConnection
from mqlab.client.inprocess.endpoint import DirectEndpoint, Endpoint
from mqlab.client.inprocess.frame_connection import FrameConnection
from mqlab.client.inprocess.transport import CrossThreadTransport, InProcessTransport, SerialDispatcher

_listeners: "dict[str, InProcessListener]" = {}
_lock = threading.Lock()


class InProcessListener:
    """Created in the broker's event loop. `accept` returns the broker's endpoint of a new connection."""

    def __init__(self, name: str, accept: Callable[[], Endpoint]) -> None:
        self.name = name
        self.loop = asyncio.get_running_loop()
        self._accept = accept
        self._dispatcher = SerialDispatcher()

    def open(self) -> None:
        """Raises ValueError if another broker of this process has that name."""
        with _lock:
            if _listeners.setdefault(self.name, self) is not self:
                raise ValueError(f"there is a broker called {self.name!r} in this process already")

    def close(self) -> None:
        """Accept no new connection. Existing ones stay."""
        with _lock:
            if _listeners.get(self.name) is self:
                del _listeners[self.name]

    def connect(self) -> NativeClientConnection:
        """Connect a client in the running event loop, which may be the broker's."""
        loop, broker = asyncio.get_running_loop(), self._accept()
        if loop is self.loop:
            direct = DirectConnection(broker if isinstance(broker, DirectEndpoint) else None)
            transport = InProcessTransport(direct, loop, SerialDispatcher())
            transport.peer = InProcessTransport(broker, loop, self._dispatcher)
            transport.peer.peer = transport
            direct.connection_made(transport)
            broker.connection_made(transport.peer)
            return direct
        connection = FrameConnection()
        to_broker = CrossThreadTransport(connection, loop)
        to_broker.peer = CrossThreadTransport(broker, self.loop)
        to_broker.peer.peer = to_broker
        connection.connection_made(to_broker)
        self.loop.call_soon_threadsafe(broker.connection_made, to_broker.peer)
        return connection


def find_listener(name: str) -> InProcessListener:
    """Raises ConnectionRefusedError if no broker of this process has that name."""
    with _lock:
        listener = _listeners.get(name)
    if listener is None:
        raise ConnectionRefusedError(f"no broker in this process is called {name!r}")
    return listener
