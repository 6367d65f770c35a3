"""Where a connection of STOMP writes to: what stands in place of its socket."""

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
    """Frames of STOMP become messages of WebSocket; all else goes to the socket.

    `unopened` makes the last words to a client whose connection ends before it is one of WebSocket; `read_on` is
    called when it is to be listened to again.
    """

    def __init__(self, socket: asyncio.Transport, unopened: Callable[[], bytes], read_on: Callable[[], None]) -> None:
        super().__init__()
        self._socket = socket
        self._unopened, self._read_on = unopened, read_on
        self._connection: WSConnection | None = None
        self._closing = False
        # Nothing is read for now.
        self.reading_paused = False
        # The socket takes no more for now, and what came in the meantime that wants an answer: the last is enough.
        self._full = False
        self._ping: Ping | None = None
        # How the client speaks; and what it is told of the end, if it is not the usual one.
        self.text = True
        self.code: int = CloseReason.NORMAL_CLOSURE

    # For the adapter

    def opened(self, connection: WSConnection, response: bytes) -> None:
        self._connection = connection
        self._socket.write(response)

    def answer(self, ping: Ping) -> None:
        if self._full:
            self._ping = ping
        elif self._connection is not None and self._connection.state is ConnectionState.OPEN:
            self._socket.write(self._connection.send(ping.response()))

    def full(self, full: bool) -> None:
        self._full = full
        if not full and self._ping is not None:
            ping, self._ping = self._ping, None
            self.answer(ping)

    # For STOMP

    def write(self, data: Any) -> None:
        self.writelines((data,))

    def writelines(self, list_of_data: Iterable[Any]) -> None:
        # Who has said that it ends wants to hear no more.
        if self._connection is None or self._connection.state is not ConnectionState.OPEN:
            return
        self._socket.writelines([self._message(one) for data in list_of_data for one in split_frames(data)])

    def close(self) -> None:
        """The client is told of the end, and then nothing more; what it says until it leaves is not listened to."""
        if self.is_closing():
            return
        self._closing = True
        if self._connection is None:
            self._socket.write(self._unopened())
        else:
            self._socket.write(self._connection.send(CloseConnection(self.code)))
        has_left = self._connection is not None and self._connection.state is ConnectionState.CLOSED
        if has_left or not self._socket.can_write_eof():
            self._socket.close()
            return
        # A socket that is closed while something comes would forget the last words.
        self._socket.write_eof()
        if self.reading_paused:
            self._socket.resume_reading()

    def can_write_eof(self) -> bool:
        """`close` does as much."""
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
        # Not now: STOMP is at work.
        asyncio.get_running_loop().call_soon(self._read_on)

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return self._socket.get_extra_info(name, default)

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        self._socket.set_write_buffer_limits(high, low)

    def _message(self, frame: bytes) -> bytes:
        """As text if the client writes text and it is any: older clients in browsers read nothing else rightly.

        A body can be any bytes, though, and a message of text must be UTF-8; newer clients and stomp.py take both.
        """
        assert self._connection is not None
        if self.text:
            try:
                return self._connection.send(TextMessage(frame.decode()))
            except UnicodeDecodeError:
                pass
        return self._connection.send(BytesMessage(frame))


def split_frames(data: bytes) -> Iterator[bytes]:
    """Each frame, or heart-beat, of what STOMP writes: some clients look for one in a message and no more."""
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
