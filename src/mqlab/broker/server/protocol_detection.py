"""Protocol detection: the first bytes of a new connection tell which protocol it speaks."""

import asyncio
from typing import Final, cast

from mqlab.broker import limits
from mqlab.broker.security.rights import ANYONE
from mqlab.broker.server.amqp.connection import AmqpServerConnection
from mqlab.broker.server.broker import Broker
from mqlab.broker.server.mqtt.connection import MqttServerConnection
from mqlab.broker.server.native.connection import NativeServerConnection
from mqlab.broker.server.peer_address import peer_of
from mqlab.broker.server.stomp.connection import StompServerConnection
from mqlab.broker.server.websocket.connection import WebSocketConnection
from mqlab.wire.stomp.frames import COMMANDS

ServerConnection = (
    NativeServerConnection | StompServerConnection | MqttServerConnection | AmqpServerConnection | WebSocketConnection
)

# A native frame begins with its length, and HELLO is short: these bytes are zeros.
_PREFIX_BYTES: Final = 3
_STOMP_PREFIXES: Final = frozenset(command.encode()[:_PREFIX_BYTES] for command in COMMANDS)
# Bytes of empty lines that may precede the first STOMP frame.
_MOST_EMPTY_LINES: Final = 64
# The protocol header of AMQP begins with its name.
_AMQP: Final = b"AMQP"
# CONNECT of MQTT.
_MQTT: Final = b"\x10"
# The length of a native frame.
_LENGTH_BYTES: Final = 4
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


def is_amqp(data: bytes) -> bool | None:
    """Return None if more bytes are needed."""
    return None if len(data) < len(_AMQP) and _AMQP.startswith(data) else data.startswith(_AMQP)


def is_mqtt(data: bytes) -> bool | None:
    """Return None if more bytes are needed.

    The length of a native HELLO may begin with the same byte. Then the third and fourth byte are zeros; in CONNECT they
    are the rest of its length, or the length of the name of the protocol.
    """
    if not data.startswith(_MQTT):
        return False
    return None if len(data) < _LENGTH_BYTES else data[2:_LENGTH_BYTES] != bytes(2)


def protocol_of(broker: Broker, data: bytes) -> ServerConnection | None:
    """The connection for the first bytes of a client. None: more bytes are needed."""
    stomp, http, amqp, mqtt = is_stomp(data), is_http(data), is_amqp(data), is_mqtt(data)
    if mqtt:
        return MqttServerConnection(broker)
    if stomp:
        return StompServerConnection(broker)
    if http:
        return WebSocketConnection(broker)
    if amqp:
        return AmqpServerConnection(broker)
    return NativeServerConnection(broker) if stomp is http is amqp is mqtt is False else None


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
        protocol = protocol_of(self._broker, self._data)
        if protocol is None:
            return
        self._switch_to(protocol)
        if isinstance(protocol, NativeServerConnection):
            protocol.bytes_received(self._data)
        else:
            protocol.data_received(self._data)

    def connection_lost(self, error: Exception | None) -> None:  # noqa: ARG002 - gone is gone
        self._release()

    def describe(self) -> None:
        """Nothing: nobody has logged in."""

    def drop(self, *, taken_over: bool = False) -> None:  # noqa: ARG002 - it has no client id yet
        if self._transport is not None:
            self._transport.abort()
        self._release()

    def _login_timed_out(self) -> None:
        self._switch_to(connection := NativeServerConnection(self._broker))
        connection.fail("protocol", f"not logged in within {limits.HELLO_SECONDS:g} seconds")

    def _switch_to(self, protocol: ServerConnection) -> None:
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
