"""One client that speaks STOMP over WebSocket: bytes of its socket in, bytes of STOMP to an ordinary connection."""

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
from mqlab.broker.server.stomp.connection import StompServerConnection
from mqlab.broker.server.websocket.handshake import HandshakeRefusedError, WebSocketHandshake
from mqlab.broker.server.websocket.transport import WebSocketTransport

# Pieces of messages that are handled before others are heard: each costs some microseconds, however small it is.
_MANY: Final = 1000


class WebSocketConnection(asyncio.Protocol):
    """The connection of STOMP is there from the start: it is counted, and has so long to log in, like any other.

    However it ends, it is STOMP that ends it, and the transport says so in the way of the moment.
    """

    def __init__(self, broker: Broker) -> None:
        self._stomp = StompServerConnection(broker)
        self._allowed, self._frame_limit = broker.settings.web_origins, broker.settings.frame_limit
        # What it is told if it ends before it is one of WebSocket.
        self._answer = error_response(
            HTTPStatus.REQUEST_TIMEOUT, f"not logged in within {limits.HELLO_SECONDS:g} seconds"
        )
        self._connection: WSConnection | None = None
        # Of the message that comes now: bytes that it had, and may have.
        self._size = self._limit = 0
        # What came of messages and is not handed on yet, and why nothing follows that.
        self._pieces: list[bytes] = []
        self._last: CloseConnection | None = None

    # From the socket

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._socket = cast(asyncio.Transport, transport)
        self._handshake = WebSocketHandshake(self._allowed, tls=transport.get_extra_info("sslcontext") is not None)
        self._transport = WebSocketTransport(self._socket, lambda: self._handshake.answered(self._answer), self._read)
        self._stomp.connection_made(self._transport)

    def data_received(self, data: bytes) -> None:
        if self._transport.is_closing():
            return
        if self._connection is None:
            data = self._opened(data)
        if self._connection is not None:
            self._connection.receive_data(data)
            self._read()

    def pause_writing(self) -> None:
        self._transport.full(True)
        self._stomp.pause_writing()

    def resume_writing(self) -> None:
        self._transport.full(False)
        self._stomp.resume_writing()

    def connection_lost(self, error: Exception | None) -> None:
        self._stomp.connection_lost(error)

    # The parts

    def _opened(self, data: bytes) -> bytes:
        """Returns what follows the request, if that is whole."""
        try:
            opened = self._handshake.received(data)
        except HandshakeRefusedError as error:
            self._answer = error.answer
            self._stomp.refuse(str(error))
            return b""
        if opened is None:
            return b""
        self._connection, response, rest = opened
        self._transport.opened(self._connection, response)
        return rest

    def _read(self) -> None:
        """What has come and was not looked at, as far as STOMP listens."""
        transport = self._transport
        if self._connection is None or transport.reading_paused or transport.is_closing():
            return
        for number, event in enumerate(self._connection.events() if self._last is None else (), 1):
            self._heard(event)
            if self._last is not None or transport.reading_paused or transport.is_closing():
                break
            if number == _MANY:
                self._socket.pause_reading()
                asyncio.get_running_loop().call_soon(self._read_on)
                break
        self._hand_on()
        if self._last is not None and not transport.reading_paused:
            self._end(self._last)

    def _read_on(self) -> None:
        if not self._transport.reading_paused and not self._socket.is_closing():
            self._socket.resume_reading()
            self._read()

    def _heard(self, event: Event) -> None:
        if isinstance(event, TextMessage):
            self._message(event.data.encode(), finished=event.message_finished, text=True)
        elif isinstance(event, BytesMessage):
            self._message(bytes(event.data), finished=event.message_finished, text=False)
        elif isinstance(event, Ping):
            self._transport.answer(event)
        elif isinstance(event, CloseConnection):
            self._last = event

    def _message(self, data: bytes, *, finished: bool, text: bool) -> None:
        if not self._size:
            self._limit = self._frame_limit if self._stomp.logged_in else limits.WEBSOCKET_BEFORE_HELLO
        self._size += len(data)
        if self._size > self._limit:
            too_big = f"a message of more than {self._limit} bytes"
            self._last = CloseConnection(CloseReason.MESSAGE_TOO_BIG, too_big)
            return
        if finished:
            self._size = 0
        self._transport.text = text
        self._pieces.append(data)
        if not self._stomp.logged_in:
            # What follows may have to wait until it is.
            self._hand_on()

    def _hand_on(self) -> None:
        """All pieces of one read at once: many small ones would each cost STOMP as much as a large one."""
        data = b"".join(self._pieces)
        self._pieces.clear()
        if data:
            self._stomp.data_received(data)

    def _end(self, last: CloseConnection) -> None:
        assert self._connection is not None
        self._transport.code = last.code
        if self._connection.state is ConnectionState.REMOTE_CLOSING:
            self._stomp.end()
        else:
            # The client wants no end: it broke the rules.
            self._stomp.refuse(last.reason or "")
