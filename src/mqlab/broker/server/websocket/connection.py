"""The connection of a client that speaks STOMP or MQTT over WebSocket: it unwraps messages for its protocol."""

import asyncio
from http import HTTPStatus
from typing import Final, cast

from wsproto import WSConnection
from wsproto.connection import ConnectionState
from wsproto.events import BytesMessage, CloseConnection, Event, Ping, TextMessage
from wsproto.frame_protocol import CloseReason

from mqlab.broker import limits
from mqlab.broker.server.broker import Broker
from mqlab.broker.server.http.responses import error_response
from mqlab.broker.server.mqtt.connection import MqttServerConnection
from mqlab.broker.server.stomp.connection import StompServerConnection
from mqlab.broker.server.websocket.handshake import MQTT, HandshakeRefusedError, WebSocketHandshake
from mqlab.broker.server.websocket.transport import WebSocketTransport

# Events that one turn handles: each costs some microseconds, however small it is.
_MOST_EVENTS: Final = 1000


class WebSocketConnection(asyncio.Protocol):
    """A STOMP connection exists from the start: it counts as a connection, and limits the time to log in.

    With the subprotocol `mqtt` an MQTT connection takes its place. Only that connection ends it; the transport sends
    the end as an HTTP response or as a WebSocket frame.
    """

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._protocol: StompServerConnection | MqttServerConnection = StompServerConnection(broker)
        self._allowed, self._frame_limit = broker.settings.web_origins, broker.settings.frame_limit
        # The HTTP response if the connection ends before the handshake is done.
        self._response = error_response(
            HTTPStatus.REQUEST_TIMEOUT, f"not logged in within {limits.HELLO_SECONDS:g} seconds"
        )
        self._connection: WSConnection | None = None
        # Size and limit of the current message.
        self._size = self._limit = 0
        # Received data that the protocol does not have yet, and the close event after it.
        self._pieces: list[bytes] = []
        self._close_event: CloseConnection | None = None

    # From the socket

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._socket = cast(asyncio.Transport, transport)
        self._handshake = WebSocketHandshake(self._allowed, tls=transport.get_extra_info("sslcontext") is not None)
        self._transport = WebSocketTransport(self._socket, lambda: self._handshake.encode(self._response), self._read)
        self._protocol.connection_made(self._transport)

    def data_received(self, data: bytes) -> None:
        if self._transport.is_closing():
            return
        if self._connection is None:
            data = self._handshake_received(data)
        if self._connection is not None:
            self._connection.receive_data(data)
            self._read()

    def pause_writing(self) -> None:
        self._transport.set_write_paused(True)
        self._protocol.pause_writing()

    def resume_writing(self) -> None:
        self._transport.set_write_paused(False)
        self._protocol.resume_writing()

    def connection_lost(self, error: Exception | None) -> None:
        self._protocol.connection_lost(error)
        self._transport.release()

    # Details

    def _handshake_received(self, data: bytes) -> bytes:
        """Return the bytes after the handshake; none while it is not complete."""
        try:
            accepted = self._handshake.received(data)
        except HandshakeRefusedError as error:
            self._response = error.response
            self._protocol.refuse(str(error))
            return b""
        if accepted is None:
            return b""
        self._connection, response, rest, subprotocol = accepted
        self._transport.handshake_done(self._connection, response)
        if subprotocol == MQTT:
            self._protocol.connection_lost(None)
            self._transport.split = lambda data: (data,)
            self._protocol = MqttServerConnection(self._broker)
            self._protocol.connection_made(self._transport)
        return rest

    def _read(self) -> None:
        """Handle the received events, unless reading is paused."""
        transport = self._transport
        if self._connection is None or transport.reading_paused or transport.is_closing():
            return
        for number, event in enumerate(self._connection.events() if self._close_event is None else (), 1):
            self._handle_event(event)
            if self._close_event is not None or transport.reading_paused or transport.is_closing():
                break
            if number == _MOST_EVENTS:
                self._socket.pause_reading()
                asyncio.get_running_loop().call_soon(self._resume_reading)
                break
        self._pass_on()
        if self._close_event is not None and not transport.reading_paused:
            self._end(self._close_event)

    def _resume_reading(self) -> None:
        if not self._transport.reading_paused and not self._socket.is_closing():
            self._socket.resume_reading()
            self._read()

    def _handle_event(self, event: Event) -> None:
        if isinstance(event, TextMessage):
            self._message(event.data.encode(), finished=event.message_finished, text=True)
        elif isinstance(event, BytesMessage):
            self._message(bytes(event.data), finished=event.message_finished, text=False)
        elif isinstance(event, Ping):
            self._transport.pong(event)
        elif isinstance(event, CloseConnection):
            self._close_event = event

    def _message(self, data: bytes, *, finished: bool, text: bool) -> None:
        if not self._size:
            self._limit = self._frame_limit if self._protocol.logged_in else limits.WEBSOCKET_BEFORE_HELLO
        self._size += len(data)
        if self._size > self._limit:
            too_big = f"a message of more than {self._limit} bytes"
            self._close_event = CloseConnection(CloseReason.MESSAGE_TOO_BIG, too_big)
            return
        if finished:
            self._size = 0
        self._transport.text = text
        self._pieces.append(data)
        if not self._protocol.logged_in:
            # Later data may have to wait for the login.
            self._pass_on()

    def _pass_on(self) -> None:
        """Pass all data of one read at once: many small pieces would each cost the protocol as much as a large one."""
        data = b"".join(self._pieces)
        self._pieces.clear()
        if data:
            self._protocol.data_received(data)

    def _end(self, event: CloseConnection) -> None:
        assert self._connection is not None
        self._transport.close_code = event.code
        if self._connection.state is ConnectionState.REMOTE_CLOSING:
            self._protocol.end()
        else:
            # The client has not closed the connection: it has broken the protocol.
            self._protocol.refuse(event.reason or "")
