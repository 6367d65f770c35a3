"""A new connection, until its first bytes tell which protocol it speaks."""

from __future__ import annotations

import asyncio
from typing import Final, cast

from mqlab.broker import limits
from mqlab.broker.server.broker import Broker
from mqlab.broker.server.native.connection import NativeServerConnection
from mqlab.broker.server.peer_address import peer_of
from mqlab.broker.server.stomp.connection import StompServerConnection
from mqlab.broker.server.websocket.connection import WebSocketConnection
from mqlab.wire.stomp.frames import COMMANDS

# A native frame has zeros there: the first one is short, and begins with its length.
_LOOKED_AT: Final = 3
_BEGINNINGS: Final = frozenset(command.encode()[:_LOOKED_AT] for command in COMMANDS)
# Empty lines before the first frame of STOMP.
_MOST: Final = 64
# The only request of HTTP with which a WebSocket connection begins.
_GET: Final = b"GET"


def speaks_stomp(data: bytes) -> bool | None:
    """None: more must be seen."""
    said = data.lstrip(b"\r\n")[:_LOOKED_AT]
    if said in _BEGINNINGS:
        return True
    return None if len(data) < _MOST and any(one.startswith(said) for one in _BEGINNINGS) else False


def speaks_http(data: bytes) -> bool | None:
    """None: more must be seen."""
    return None if len(data) < len(_GET) and _GET.startswith(data) else data.startswith(_GET)


class ProtocolDetection(asyncio.Protocol):
    """It is counted like any other, and has as much time to say something."""

    # Nobody yet.
    client_id = ""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._peer = ""
        self._data = b""
        self._transport: asyncio.Transport | None = None
        self._deadline: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._peer = peer_of(transport)
        if self._broker.guard.admit(self._peer) is not None:
            # One too many: it is told so.
            self._become(NativeServerConnection(self._broker))
            return
        self._broker.connections.add(self)
        self._deadline = asyncio.get_running_loop().call_later(limits.HELLO_SECONDS, self._too_late)

    def data_received(self, data: bytes) -> None:
        self._data += data
        stomp, http = speaks_stomp(self._data), speaks_http(self._data)
        if stomp or http:
            protocol = StompServerConnection(self._broker) if stomp else WebSocketConnection(self._broker)
            self._become(protocol)
            protocol.data_received(self._data)
        elif stomp is http is False:
            self._become(connection := NativeServerConnection(self._broker))
            connection.bytes_received(self._data)

    def connection_lost(self, error: Exception | None) -> None:  # noqa: ARG002 - gone is gone
        self._let_go()

    def drop(self) -> None:
        if self._transport is not None:
            self._transport.abort()
        self._let_go()

    def _too_late(self) -> None:
        self._become(connection := NativeServerConnection(self._broker))
        connection.fail("protocol", f"not logged in within {limits.HELLO_SECONDS:g} seconds")

    def _become(self, protocol: NativeServerConnection | StompServerConnection | WebSocketConnection) -> None:
        """It takes the place of this one, and is counted instead."""
        transport = self._transport
        assert transport is not None
        self._let_go()
        transport.set_protocol(protocol)
        protocol.connection_made(transport)

    def _let_go(self) -> None:
        self._transport = None
        if self._deadline is not None:
            self._deadline.cancel()
        if self in self._broker.connections:
            self._broker.connections.discard(self)
            self._broker.guard.release(self._peer)
