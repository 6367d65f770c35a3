"""Protocol detection: the first bytes of a new connection tell which protocol it speaks."""

import asyncio
from typing import Final, cast

from mqlab.broker import limits
from mqlab.broker.security.rights import ANYONE
from mqlab.broker.server.broker import Broker
from mqlab.broker.server.native.connection import NativeServerConnection
from mqlab.broker.server.peer_address import peer_of
from mqlab.broker.server.stomp.connection import StompServerConnection
from mqlab.broker.server.websocket.connection import WebSocketConnection
from mqlab.wire.stomp.frames import COMMANDS

# A native frame begins with its length, and HELLO is short: these bytes are zeros.
_PREFIX_BYTES: Final = 3
_STOMP_PREFIXES: Final = frozenset(command.encode()[:_PREFIX_BYTES] for command in COMMANDS)
# Bytes of empty lines that may precede the first STOMP frame.
_MOST_EMPTY_LINES: Final = 64
# A WebSocket connection begins with this HTTP request.
_GET: Final = b"GET"


def is_stomp(data: bytes) -> bool | None:
    """Return None if more bytes are needed."""
    prefix = data.lstrip(b"\r\n")[:_PREFIX_BYTES]
    if prefix in _STOMP_PREFIXES:
        return True
    return (
        None if len(data) < _MOST_EMPTY_LINES and any(known.startswith(prefix) for known in _STOMP_PREFIXES) else False
    )


def is_http(data: bytes) -> bool | None:
    """Return None if more bytes are needed."""
    return None if len(data) < len(_GET) and _GET.startswith(data) else data.startswith(_GET)


class ProtocolDetection(asyncio.Protocol):
    """A connection whose protocol is unknown. It counts as a connection, and has the same time to log in."""

    # It has not logged in.
    client_id, user = "", ANYONE

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
            # There are too many connections: the native protocol sends the reason.
            self._switch_to(NativeServerConnection(self._broker))
            return
        self._broker.connections.add(self)
        self._deadline = asyncio.get_running_loop().call_later(limits.HELLO_SECONDS, self._login_timed_out)

    def data_received(self, data: bytes) -> None:
        self._data += data
        stomp, http = is_stomp(self._data), is_http(self._data)
        if stomp or http:
            protocol = StompServerConnection(self._broker) if stomp else WebSocketConnection(self._broker)
            self._switch_to(protocol)
            protocol.data_received(self._data)
        elif stomp is http is False:
            self._switch_to(connection := NativeServerConnection(self._broker))
            connection.bytes_received(self._data)

    def connection_lost(self, error: Exception | None) -> None:  # noqa: ARG002 - gone is gone
        self._release()

    def drop(self) -> None:
        if self._transport is not None:
            self._transport.abort()
        self._release()

    def _login_timed_out(self) -> None:
        self._switch_to(connection := NativeServerConnection(self._broker))
        connection.fail("protocol", f"not logged in within {limits.HELLO_SECONDS:g} seconds")

    def _switch_to(self, protocol: NativeServerConnection | StompServerConnection | WebSocketConnection) -> None:
        """Hand the connection over to the protocol, which counts it from now on."""
        transport = self._transport
        assert transport is not None
        self._release()
        transport.set_protocol(protocol)
        protocol.connection_made(transport)

    def _release(self) -> None:
        self._transport = None
        if self._deadline is not None:
            self._deadline.cancel()
        if self in self._broker.connections:
            self._broker.connections.discard(self)
            self._broker.guard.release(self._peer)
