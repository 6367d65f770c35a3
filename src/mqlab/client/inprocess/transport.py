"""The transports of an in-process connection, in place of a socket.

They pass frames on as they are: no frame is packed, copied or parsed.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final

from mqlab.client.inprocess.endpoint import Endpoint
from mqlab.wire.native.bodies import Buffer
from mqlab.wire.native.frames import HEADER, HEADER_SIZE, Frame

# Default limits for bytes in transit to another thread: above the high one the writer is asked to pause, at the low one
# to resume.
_HIGH_BYTES: Final = 1024 * 1024
_LOW_BYTES: Final = 256 * 1024


def read_frames(buffers: Iterable[Buffer]) -> Iterator[Frame]:
    """Frames from encoded ones: the payload of a header is in the same buffer or in the next one."""
    rest = iter(buffers)
    for head in rest:
        length, kind, flags, session, link, first, amount = HEADER.unpack_from(head)
        payload = b"" if not length else next(rest) if len(head) == HEADER_SIZE else head[HEADER_SIZE:]
        yield Frame(kind, flags, session, link, first, amount, payload)


class SerialDispatcher:
    """Hands frames to endpoints one sequence at a time: frames that a handler writes are dispatched after it returns.

    This keeps the order, and replies to replies do not grow the stack.
    """

    def __init__(self) -> None:
        self._waiting: deque[tuple[InProcessTransport, Iterable[Frame]]] = deque()
        self._running = False

    def dispatch(self, transport: "InProcessTransport", frames: Iterable[Frame]) -> None:
        if self._running:
            self._waiting.append((transport, frames))
            return
        self._running = True
        try:
            transport.receive(frames)
            while self._waiting:
                transport, frames = self._waiting.popleft()
                transport.receive(frames)
        finally:
            self._running = False


class InProcessTransport(asyncio.Transport):
    """The transport of one endpoint. Both endpoints are in one event loop: the peer gets frames at once."""

    peer: "InProcessTransport"

    def __init__(self, endpoint: Endpoint, loop: asyncio.AbstractEventLoop, dispatcher: SerialDispatcher) -> None:
        super().__init__()
        self._endpoint = endpoint
        self._loop = loop
        self._dispatcher = dispatcher
        self._closing = False

    def send(self, frames: Sequence[Frame]) -> None:
        """The peer may keep the payloads, and does not change them."""
        if not self._closing:
            peer = self.peer
            peer._dispatcher.dispatch(peer, frames)

    def writelines(self, list_of_data: Iterable[Buffer]) -> None:
        self.send([*read_frames(list_of_data)])

    def close(self) -> None:
        """The peer has all that was written. The loop then calls `connection_lost` of both endpoints."""
        if not self._closing:
            self.end()
            self.peer.end()

    def abort(self) -> None:
        self.close()

    def is_closing(self) -> bool:
        return self._closing

    def get_extra_info(self, name: str, default: object = None) -> object:  # noqa: ARG002 - there is no socket
        return default

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        """Nothing is ever in transit."""

    # Called by the peer

    def end(self) -> None:
        if not self._closing:
            self._closing = True
            self._loop.call_soon(self._endpoint.connection_lost, None)

    def receive(self, frames: Iterable[Frame]) -> None:
        """An exception of this endpoint closes the connection; it does not reach the peer that wrote the frames."""
        if self._closing:
            return
        try:
            self._endpoint.frames_received(frames)
        except Exception as error:
            self._loop.call_exception_handler({"message": "frames could not be handled", "exception": error})
            self.close()


class CrossThreadTransport(InProcessTransport):
    """The transport of one endpoint whose peer is in another thread: frames are in transit for a while."""

    peer: "CrossThreadTransport"

    def __init__(self, endpoint: Endpoint, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__(endpoint, loop, SerialDispatcher())
        self._inbox: deque[Sequence[Frame] | None] = deque()
        self._drain_scheduled = False
        self._high_bytes, self._low_bytes = _HIGH_BYTES, _LOW_BYTES
        # Only the thread of this endpoint writes these counters.
        self._written_bytes = self._read_bytes = 0
        self._paused = False

    def send(self, frames: Sequence[Frame]) -> None:
        if self._closing:
            return
        self._written_bytes += _size_bytes(frames)
        self.peer.enqueue(frames)
        if not self._paused and self._in_transit_bytes > self._high_bytes:
            self._paused = True
            self._endpoint.pause_writing()
            # The peer may have read everything before it could see `_paused`.
            self._resume_if_drained()

    def close(self) -> None:
        if not self._closing:
            self.end()
            self.peer.enqueue(None)

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        self._high_bytes = _HIGH_BYTES if high is None else high
        self._low_bytes = self._high_bytes // 4 if low is None else low

    # Called by the peer, in its thread

    def enqueue(self, frames: Sequence[Frame] | None) -> None:
        """None: the peer has closed."""
        self._inbox.append(frames)
        # `_drain` clears the flag before it reads: frames that it does not see schedule another one.
        if not self._drain_scheduled:
            self._drain_scheduled = True
            self._call_in_loop(self._drain)

    def _call_in_loop(self, action: Callable[[], None]) -> None:
        try:
            self._loop.call_soon_threadsafe(action)
        except RuntimeError:
            # The loop of this endpoint is closed.
            self.peer.end()

    # In the thread of this endpoint

    def _drain(self) -> None:
        self._drain_scheduled = False
        while self._inbox:
            frames = self._inbox.popleft()
            if frames is None:
                self.end()
            else:
                self._dispatcher.dispatch(self, frames)
                self._read_bytes += _size_bytes(frames)
        peer = self.peer
        if peer._paused and peer._in_transit_bytes <= peer._low_bytes:
            peer._call_in_loop(peer._resume_if_drained)

    def _resume_if_drained(self) -> None:
        if self._paused and not self._closing and self._in_transit_bytes <= self._low_bytes:
            self._paused = False
            self._endpoint.resume_writing()

    @property
    def _in_transit_bytes(self) -> int:
        return self._written_bytes - self.peer._read_bytes


def _size_bytes(frames: Sequence[Frame]) -> int:
    return sum(HEADER_SIZE + len(frame.payload) for frame in frames)
