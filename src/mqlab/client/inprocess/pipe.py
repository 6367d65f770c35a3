"""The two ends of a connection inside one process: what stands in place of a socket.

Frames go over as they are: neither packed nor copied nor read again.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Final, Protocol

from mqlab.wire.native.bodies import Buffer
from mqlab.wire.native.frames import HEADER, HEADER_SIZE, Frame

# Bytes on their way to another thread at which the writer is asked to pause, and to go on, unless it says otherwise.
_HIGH: Final = 1024 * 1024
_LOW: Final = 256 * 1024


class Side(Protocol):
    """Who uses an end: the client's wire, or the broker's connection."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None: ...

    def frames_received(self, frames: Iterable[Frame]) -> None: ...

    def connection_lost(self, error: Exception | None) -> None: ...

    def pause_writing(self) -> None: ...

    def resume_writing(self) -> None: ...


def frames_of(buffers: Iterable[Buffer]) -> Iterator[Frame]:
    """A header, and what it announces: in the same buffer, or the next."""
    rest = iter(buffers)
    for head in rest:
        length, kind, flags, session, link, first, amount = HEADER.unpack_from(head)
        payload = b"" if not length else next(rest) if len(head) == HEADER_SIZE else head[HEADER_SIZE:]
        yield Frame(kind, flags, session, link, first, amount, payload)


class Turns:
    """One bundle of frames at a time: what somebody writes from within a handler is handed over after it.

    So the order is kept, and no chain of answers to answers grows on the stack.
    """

    def __init__(self) -> None:
        self._waiting: deque[tuple[End, Iterable[Frame]]] = deque()
        self._taken = False

    def take(self, end: "End", frames: Iterable[Frame]) -> None:
        if self._taken:
            self._waiting.append((end, frames))
            return
        self._taken = True
        try:
            end.receive(frames)
            while self._waiting:
                end, frames = self._waiting.popleft()
                end.receive(frames)
        finally:
            self._taken = False


class End(asyncio.Transport):
    """One side's end where both sides are in one event loop: what is written is with the other side at once."""

    other: "End"

    def __init__(self, side: Side, loop: asyncio.AbstractEventLoop, turns: Turns) -> None:
        super().__init__()
        self._side = side
        self._loop = loop
        self._turns = turns
        self._closing = False

    def send(self, frames: Sequence[Frame]) -> None:
        """The other side may keep the payloads, and will not change them."""
        if not self._closing:
            other = self.other
            other._turns.take(other, frames)

    def writelines(self, list_of_data: Iterable[Buffer]) -> None:
        self.send([*frames_of(list_of_data)])

    def close(self) -> None:
        """What was written is with the other side; then both are told, from the loop, never from here."""
        if not self._closing:
            self.ended()
            self.other.ended()

    def abort(self) -> None:
        self.close()

    def is_closing(self) -> bool:
        return self._closing

    def get_extra_info(self, name: str, default: Any = None) -> Any:  # noqa: ARG002 - there is no socket to tell of
        return default

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        """Nothing is ever on its way."""

    # From the other end

    def ended(self) -> None:
        if not self._closing:
            self._closing = True
            self._loop.call_soon(self._side.connection_lost, None)

    def receive(self, frames: Iterable[Frame]) -> None:
        """A failure of this side is its own, as if a socket had woken it, and not that of who wrote."""
        if self._closing:
            return
        try:
            self._side.frames_received(frames)
        except Exception as error:
            self._loop.call_exception_handler({"message": "frames could not be handled", "exception": error})
            self.close()


class ThreadEnd(End):
    """One side's end where the other side is in another thread: what is written is on its way for a while."""

    other: "ThreadEnd"

    def __init__(self, side: Side, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__(side, loop, Turns())
        self._inbox: deque[Sequence[Frame] | None] = deque()
        self._notified = False
        self._high, self._low = _HIGH, _LOW
        # Each counter is written by one thread only: bytes that this side wrote, bytes that it took.
        self._written = self._read = 0
        self._paused = False

    def send(self, frames: Sequence[Frame]) -> None:
        if self._closing:
            return
        self._written += _size(frames)
        self.other.take(frames)
        if not self._paused and self._on_their_way > self._high:
            self._paused = True
            self._side.pause_writing()
            # The other side may have taken all of it before it could see that somebody waits.
            self._go_on()

    def close(self) -> None:
        if not self._closing:
            self.ended()
            self.other.take(None)

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        self._high = _HIGH if high is None else high
        self._low = self._high // 4 if low is None else low

    # From the other end: in its thread

    def take(self, frames: Sequence[Frame] | None) -> None:
        """None: the other side has closed."""
        self._inbox.append(frames)
        # Who empties it takes the notice back first: what it does not see any more, it is told of again.
        if not self._notified:
            self._notified = True
            self._call(self._take_in)

    def _call(self, action: Callable[[], None]) -> None:
        try:
            self._loop.call_soon_threadsafe(action)
        except RuntimeError:
            # Its loop is closed: nobody is there any more.
            self.other.ended()

    # In this side's thread

    def _take_in(self) -> None:
        self._notified = False
        while self._inbox:
            frames = self._inbox.popleft()
            if frames is None:
                self.ended()
            else:
                self._turns.take(self, frames)
                self._read += _size(frames)
        other = self.other
        if other._paused and other._on_their_way <= other._low:
            other._call(other._go_on)

    def _go_on(self) -> None:
        if self._paused and not self._closing and self._on_their_way <= self._low:
            self._paused = False
            self._side.resume_writing()

    @property
    def _on_their_way(self) -> int:
        return self._written - self.other._read


def _size(frames: Sequence[Frame]) -> int:
    return sum(HEADER_SIZE + len(frame.payload) for frame in frames)
