"""Reads the frames of a native connection, no faster than the broker handles them and the client reads."""

import asyncio
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Iterable, Iterator
from time import time_ns
from typing import Final

from mqlab.broker import limits
from mqlab.broker.core.flow import OverdrawnError
from mqlab.broker.server.broker import Broker
from mqlab.broker.server.native.send_coalescing import SendCoalescer
from mqlab.broker.server.read_gate import CLIENT_NOT_READING, FRAMES_WAITING, ReadGate
from mqlab.broker.server.scheduler import TimeShare
from mqlab.wire.native import frames as native
from mqlab.wire.native.bodies import Buffer, MalformedPayloadError
from mqlab.wire.native.frames import Frame, Kind, ProtocolError

# Errors that end the connection.
PROTOCOL_ERRORS: Final = (ProtocolError, MalformedPayloadError, OverdrawnError)
# From this many frames in one read on, the client is sending without waiting: its messages become batches, and after
# each read it yields to the others.
_MANY_FRAMES: Final = 32
# Frames that may be long; all others have some lines of JSON at most.
_WITH_MESSAGES: Final = frozenset((int(Kind.SEND), int(Kind.REQUEST)))
# Cheap frames between two readings of the clock.
_FRAMES_PER_CLOCK_READING: Final = 8
# Above this many effects the clock is read after each frame: one message to a topic can have thousands.
_MANY_EFFECTS: Final = 64
# Frames that cost a few microseconds each. After each other frame the clock is read.
_CHEAP: Final = frozenset(map(int, (Kind.SEND, Kind.ACKNOWLEDGE, Kind.ACKNOWLEDGE_ROWS, Kind.RECEIVE, Kind.REQUEST)))


class FrameReader(ABC, asyncio.BufferedProtocol):
    """Handles frames in order. When the time of a turn is used up, the other frames wait, and reading pauses."""

    # Attributes that each frame needs: CPython finds them quickly in slots, or among at most 30 of an object.
    __slots__ = (
        "_broker", "_coalescer", "_effects", "_gate", "_has_unfinished", "_paused", "_pending", "_receiver", "_share",
        "_stalled", "_transport", "_untraced",
    )  # fmt: skip

    def __init__(self, broker: Broker) -> None:
        super().__init__()
        self._broker = broker
        self._effects = broker.core.effects
        self._receiver = native.FrameDecoder(limits.FRAME_BEFORE_HELLO, _WITH_MESSAGES)
        self._transport: asyncio.Transport | None = None
        self._gate = ReadGate()
        self._share = TimeShare()
        # Frames of each read that wait for a later turn; whether they also wait until the client reads.
        self._pending: deque[Iterator[Frame]] = deque()
        self._stalled = False
        # The beginning of a long frame has arrived.
        self._has_unfinished = False
        # The write buffer of the socket is full.
        self._paused = False
        # No trace records this connection.
        self._untraced = False
        self._coalescer: SendCoalescer

    def get_buffer(self, sizehint: int) -> memoryview:  # noqa: ARG002 - the receiver chooses the size
        return self._receiver.get_buffer()

    def buffer_updated(self, size: int) -> None:
        try:
            frames = self._receiver.buffer_updated(size)
        except ProtocolError as error:
            self.fail("protocol", str(error))
            return
        broker = self._broker
        if not frames or self._has_unfinished:
            self._has_unfinished = broker.unfinished.note(self, self._receiver.unfinished)
        if self._pending:
            self._pending.append(iter(frames))
            return
        broker.update_clock()
        began_ns, has_many = broker.now, len(frames) >= _MANY_FRAMES
        commands: Iterable[Frame] = self._coalescer.coalesce(frames, lambda: self._untraced) if has_many else frames
        if self._must_wait():
            self._defer_frames(iter(commands))
            return
        self._handle_frames(commands)
        if has_many:
            self._gate.yield_once()
        self._share.charge(began_ns, broker.scheduler.record_turn(began_ns))

    def bytes_received(self, data: bytes) -> None:
        """The first bytes of the connection, which protocol detection has read."""
        try:
            frames = self._receiver.feed(data)
        except ProtocolError as error:
            self.fail("protocol", str(error))
        else:
            self.frames_received(frames)

    def frames_received(self, frames: Iterable[Frame]) -> None:
        self._broker.update_clock()
        self._handle_frames(frames)

    def _must_wait(self) -> bool:
        """Whether the frames of this client wait for those of others."""
        broker = self._broker
        return broker.scheduler.is_contended() and self._share.is_used_up(broker.now)

    def _handle_frames(self, frames: Iterable[Frame]) -> bool:
        """Return False if the time of the turn is used up; the other frames wait."""
        has_time = True
        rest, until_clock, effects = iter(frames), _FRAMES_PER_CLOCK_READING, self._effects
        try:
            for frame in rest:
                self._handle(frame)
                until_clock = until_clock - 1 if frame.kind in _CHEAP else 0
                if not until_clock or len(effects) > _MANY_EFFECTS:
                    until_clock = _FRAMES_PER_CLOCK_READING
                    has_time = self._has_time()
                    if not has_time:
                        self._defer_frames(rest)
                        break
        except PROTOCOL_ERRORS as error:
            self.fail("protocol", str(error))
        self._broker.run_effects()
        return has_time

    def _has_time(self) -> bool:
        # A negative duration: the clock was set back.
        return 0 <= time_ns() - self._broker.now <= limits.TURN_NS

    def _defer_frames(self, rest: Iterator[Frame]) -> None:
        """They stay ahead of the frames of later reads."""
        self._pending.appendleft(rest)
        self._gate.pause(FRAMES_WAITING)
        self._broker.scheduler.defer(self._handle_waiting)

    def _handle_waiting(self) -> None:
        """Handle the waiting frames, unless the client does not read."""
        self._stalled = self._paused
        if not self._pending or self._stalled or self._transport is None:
            return
        self._broker.update_clock()
        began_ns = self._broker.now
        if self._handle_pending():
            self._gate.resume(FRAMES_WAITING)
        self._share.charge(began_ns, self._broker.scheduler.record_turn(began_ns))

    def _handle_pending(self) -> bool:
        """Return False if the time of the turn is used up before all waiting frames are handled."""
        pending = self._pending
        while pending:
            if not self._handle_frames(pending.popleft()):
                return False
            if pending and not self._has_time():
                self._broker.scheduler.defer(self._handle_waiting)
                return False
        return True

    def pause_writing(self) -> None:
        """Stop reading from a client that does not read: frames to it would pile up."""
        self._paused = True
        self._gate.pause(CLIENT_NOT_READING)

    def resume_writing(self) -> None:
        self._paused = False
        self._gate.resume(CLIENT_NOT_READING)
        if self._stalled:
            self._stalled = False
            self._broker.scheduler.defer(self._handle_waiting)

    @abstractmethod
    def _handle(self, frame: Frame) -> None: ...

    @abstractmethod
    def _write(self, data: Buffer) -> None: ...

    @abstractmethod
    def fail(self, code: str, message: str) -> None: ...
