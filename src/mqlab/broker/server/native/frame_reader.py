"""Reads the frames of a native connection, no faster than the broker handles them and the client reads the answers."""

import asyncio
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from time import time_ns
from typing import Final

from mqlab.broker import limits
from mqlab.broker.core.flow import OverdrawnError
from mqlab.broker.server.broker import Broker
from mqlab.broker.server.native.refusal_frames import REFUSALS, refusal
from mqlab.broker.server.native.send_coalescing import SendCoalescer
from mqlab.broker.server.read_gate import UNHANDLED, UNWRITTEN, ReadGate
from mqlab.wire import native
from mqlab.wire.native.bodies import Buffer, MalformedPayloadError
from mqlab.wire.native.frames import Frame, Kind, ProtocolError

# What ends a connection.
BROKEN_RULES: Final = (ProtocolError, MalformedPayloadError, OverdrawnError)
_SEND: Final = int(Kind.SEND)
# Frames that come with a message of somebody who sends one at a time: what he has done, and what he waits for.
_FEW: Final = 3
# Frames in one read that are more than those who wait for one another's messages have.
_MANY: Final = 32
# The only frames that may be long: all others are some lines of JSON at most.
_WITH_MESSAGES: Final = frozenset((int(Kind.SEND), int(Kind.REQUEST)))
# Frames between two looks at the time that is used up, as long as they are of the kinds below.
_STEPS: Final = 8
# Effects of a turn above which the time is looked at after each frame: one message to a topic can have thousands.
_EFFECTS: Final = 64
# Frames that cost a few microseconds each. The time is looked at after each of the others.
CHEAP: Final = (Kind.SEND, Kind.ACKNOWLEDGE, Kind.ACKNOWLEDGE_ROWS, Kind.RECEIVE, Kind.REQUEST)


class FrameReader(ABC, asyncio.BufferedProtocol):
    """Handles frames in their order. Those for which a turn of the loop has no time wait, and reading pauses."""

    # Looked up for each frame: CPython finds attributes quickly in slots, or among at most 30 of an object.
    __slots__ = (
        "_broker",
        "_coalescer",
        "_effects",
        "_fast_commands",
        "_gate",
        "_has_unfinished",
        "_paused",
        "_pending",
        "_receiver",
        "_stalled",
        "_transport",
        "_untraced",
    )  # fmt: skip

    def __init__(self, broker: Broker) -> None:
        super().__init__()
        self._broker = broker
        self._effects = broker.core.effects
        self._receiver = native.FrameDecoder(limits.FRAME_BEFORE_HELLO, _WITH_MESSAGES)
        self._transport: asyncio.Transport | None = None
        self._gate = ReadGate()
        # Frames of each read that wait for the next turn; whether they also wait until the client reads its answers.
        self._pending: deque[Iterator[Frame]] = deque()
        self._stalled = False
        # The begin of a long frame has arrived.
        self._has_unfinished = False
        # The socket takes no more for now.
        self._paused = False
        # Commands of the cheap kinds, as long as nothing else has to be looked at when a frame comes.
        self._fast_commands: dict[int, Callable[[Frame], object]] = {}
        # Nobody records what the client does.
        self._untraced = False
        self._coalescer: SendCoalescer

    def get_buffer(self, sizehint: int) -> memoryview:  # noqa: ARG002 - the room is ours to choose
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
        count = len(frames)
        if count <= _FEW:
            if count > 1 and frames[0].kind == _SEND != frames[1].kind:
                # Whoever waits for the message can begin before the rest, such as what is done, is looked at.
                self._handle_few(frames[:1])
                del frames[0]
            self._handle_few(frames)
            return
        began = broker.now
        if count < _MANY:
            self._handle_frames(frames)
        else:
            self._handle_many(frames)
        broker.scheduler.record_turn(began)

    def bytes_received(self, data: bytes) -> None:
        """The first bytes of the connection, which were read before its protocol was known."""
        try:
            frames = self._receiver.feed(data)
        except ProtocolError as error:
            self.fail("protocol", str(error))
        else:
            self.frames_received(frames)

    def frames_received(self, frames: Iterable[Frame]) -> None:
        self._broker.update_clock()
        self._handle_frames(frames)

    def _handle_few(self, frames: list[Frame]) -> None:
        """A read where one client waits for the other: no time is read if the frames are cheap and have few effects."""
        done = 0
        try:
            for frame in frames:
                command = self._fast_commands.get(frame.kind)
                if command is None:
                    break
                done += 1
                try:
                    command(frame)
                except REFUSALS as error:
                    self._write(refusal(frame, error))
                if len(self._effects) > _EFFECTS:
                    break
            else:
                self._broker.run_effects()
                return
        except BROKEN_RULES as error:
            self.fail("protocol", str(error))
            done = len(frames)
        began = self._broker.now
        self._handle_frames(frames[done:])
        self._broker.scheduler.record_turn(began)

    def _handle_many(self, frames: Sequence[Frame]) -> None:
        """Of somebody who sends on and on. Then others are heard first."""
        self._handle_frames(self._coalescer.rest_of(frames, lambda: self._untraced))
        self._gate.yield_once()

    def _handle_frames(self, frames: Iterable[Frame]) -> bool:
        """False: the turn has no time for all of them, and the rest waits."""
        has_time = True
        rest, steps, effects = iter(frames), _STEPS, self._effects
        try:
            for frame in rest:
                command = self._fast_commands.get(frame.kind)
                if command is None:
                    self._handle(frame)
                    steps = 1
                else:
                    try:
                        command(frame)
                    except REFUSALS as error:
                        self._write(refusal(frame, error))
                steps -= 1
                if not steps or len(effects) > _EFFECTS:
                    steps = _STEPS
                    has_time = self._has_time()
                    if not has_time:
                        self._wait_with(rest)
                        break
        except BROKEN_RULES as error:
            self.fail("protocol", str(error))
        self._broker.run_effects()
        return has_time

    def _has_time(self) -> bool:
        # Less than nothing: somebody has set the clock back.
        return 0 <= time_ns() - self._broker.now <= limits.TURN_NS

    def _wait_with(self, rest: Iterator[Frame]) -> None:
        """Before the frames of later reads."""
        self._pending.appendleft(rest)
        self._gate.shut(UNHANDLED)
        self._broker.scheduler.defer(self._go_on)

    def _go_on(self) -> None:
        """With the frames that wait, if the client reads what it is told."""
        pending = self._pending
        self._stalled = self._paused
        if not pending or self._stalled or self._transport is None:
            return
        self._broker.update_clock()
        while pending:
            if not self._handle_frames(pending.popleft()):
                return
            if pending and not self._has_time():
                self._broker.scheduler.defer(self._go_on)
                return
        self._gate.open(UNHANDLED)

    def pause_writing(self) -> None:
        """A client that does not read is not read from: what it is told would pile up here."""
        self._paused = True
        self._gate.shut(UNWRITTEN)

    def resume_writing(self) -> None:
        self._paused = False
        self._gate.open(UNWRITTEN)
        if self._stalled:
            self._stalled = False
            self._broker.scheduler.defer(self._go_on)

    @abstractmethod
    def _handle(self, frame: Frame) -> None: ...

    @abstractmethod
    def _write(self, data: Buffer) -> None: ...

    @abstractmethod
    def fail(self, code: str, message: str) -> None: ...
