"""The transport of a STOMP or MQTT connection over WebSocket, in place of a socket."""

import asyncio
import re
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final

from wsproto import WSConnection
from wsproto.connection import ConnectionState
from wsproto.events import BytesMessage, CloseConnection, Ping, TextMessage
from wsproto.frame_protocol import CloseReason

_CONTENT_LENGTH: Final = re.compile(rb"\ncontent-length:([0-9]+)\n")


class WebSocketTransport(asyncio.Transport):
    """Frames of the protocol become WebSocket messages; all other calls go to the socket.

    `http_response` makes the response to a client whose connection ends before the handshake is done; `read` is called
    when the protocol resumes reading.
    """

    def __init__(self, socket: asyncio.Transport, http_response: Callable[[], bytes], read: Callable[[], None]) -> None:
        super().__init__()
        self._socket = socket
        self._http_response, self._read = http_response, read
        self._connection: WSConnection | None = None
        self._closing = False
        # The protocol has paused reading.
        self.reading_paused = False
        # The write buffer of the socket is full; the last ping that came meanwhile: one answer is enough.
        self._write_paused = False
        self._ping: Ping | None = None
        # Whether the client sends text messages; the code of the close frame.
        self.text = True
        # Splits what the protocol writes into messages.
        self.split: Callable[[bytes], Iterable[bytes]] = split_frames
        self.close_code: int = CloseReason.NORMAL_CLOSURE

    # For the WebSocket connection

    def handshake_done(self, connection: WSConnection, response: bytes) -> None:
        self._connection = connection
        self._socket.write(response)

    def pong(self, ping: Ping) -> None:
        if self._write_paused:
            self._ping = ping
        elif self._connection is not None and self._connection.state is ConnectionState.OPEN:
            self._socket.write(self._connection.send(ping.response()))

    def set_write_paused(self, paused: bool) -> None:
        self._write_paused = paused
        if not paused and self._ping is not None:
            ping, self._ping = self._ping, None
            self.pong(ping)

    def release(self) -> None:
        """Forget the connection when its socket is lost: otherwise both wait for the garbage collector."""
        self._http_response, self._read = bytes, lambda: None

    # For the protocol. Any: `asyncio.Transport` must take every buffer, and the protocols write only bytes.

    def write(self, data: Any) -> None:
        self.writelines((data,))

    def writelines(self, list_of_data: Iterable[Any]) -> None:
        # The client has sent a close frame, or the handshake is not done.
        if self._connection is None or self._connection.state is not ConnectionState.OPEN:
            return
        self._socket.writelines([self._message(frame) for data in list_of_data for frame in self.split(data)])

    def close(self) -> None:
        """Send a close frame, and discard what the client still sends."""
        if self.is_closing():
            return
        self._closing = True
        if self._connection is None:
            self._socket.write(self._http_response())
        else:
            self._socket.write(self._connection.send(CloseConnection(self.close_code)))
        is_closed = self._connection is not None and self._connection.state is ConnectionState.CLOSED
        if is_closed or not self._socket.can_write_eof():
            self._socket.close()
            return
        # Closing the socket while data arrives would discard the close frame.
        self._socket.write_eof()
        if self.reading_paused:
            self._socket.resume_reading()

    def can_write_eof(self) -> bool:
        """`close` does that."""
        return False

    def abort(self) -> None:
        self._socket.abort()

    def is_closing(self) -> bool:
        return self._closing or self._socket.is_closing()

    def pause_reading(self) -> None:
        self.reading_paused = True
        self._socket.pause_reading()

    def resume_reading(self) -> None:
        self.reading_paused = False
        self._socket.resume_reading()
        # Not now: the protocol is running.
        asyncio.get_running_loop().call_soon(self._read)

    def get_extra_info(self, name: str, default: object = None) -> object:
        return self._socket.get_extra_info(name, default)

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        self._socket.set_write_buffer_limits(high, low)

    def _message(self, frame: bytes) -> bytes:
        """A text message if the client sends text and the frame is UTF-8: older clients in browsers need text.

        Other frames become binary messages; newer clients and stomp.py accept both.
        """
        assert self._connection is not None
        if self.text:
            try:
                return self._connection.send(TextMessage(frame.decode()))
            except UnicodeDecodeError:
                pass
        return self._connection.send(BytesMessage(frame))


def split_frames(data: bytes) -> Iterator[bytes]:
    """Split bytes into frames and heart-beats: some clients expect one frame in a message."""
    begin, size = 0, len(data)
    while begin < size:
        head = data.find(b"\n\n", begin)
        if head < 0:
            yield data[begin:]
            return
        length = _CONTENT_LENGTH.search(data, begin, head + 1)
        end = head + 2 + int(length[1]) if length else data.index(b"\0", head)
        yield data[begin : end + 1]
        begin = end + 1
