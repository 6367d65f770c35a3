"""One client that speaks STOMP: bytes of its socket in and out, and the order in which things are done."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterable, Iterator
from functools import partial
from time import time_ns
from typing import Final, cast

from mqlab.broker import limits
from mqlab.broker.server.broker import Broker
from mqlab.broker.server.inprocess.connection import InProcessConnection
from mqlab.broker.server.native.refusal_frames import REFUSALS
from mqlab.broker.server.stomp.components import StompComponents
from mqlab.broker.server.stomp.decoder import VARYING, Action, StompDecoder
from mqlab.broker.server.stomp.encoder import StompEncoder
from mqlab.broker.server.stomp.heartbeats import Heartbeats
from mqlab.broker.server.stomp.transport import StompTransport
from mqlab.wire import native
from mqlab.wire.stomp import FrameRun, Limits, StompError, StompFrame, StompFrameDecoder

_BEFORE_CONNECT: Final = Limits(
    limits.STOMP_HEADERS, limits.FRAME_BEFORE_HELLO, limits.FRAME_BEFORE_HELLO, limits.FRAME_BEFORE_HELLO
)
# Bytes that one step looks at, at the most.
_CHUNK: Final = 64 * 1024
# Seconds to read why a connection was ended.
_LAST_WORDS: Final = 2.0


class StompServerConnection(asyncio.Protocol):
    """What was read is handled in order. What must wait, for room or for an answer, lets the client wait, too."""

    def __init__(self, broker: Broker) -> None:
        self._native = InProcessConnection(broker)
        self._frame_limit = broker.settings.frame_limit
        # Also after a restart of the broker no other connection has this name.
        session = f"{time_ns() // 1_000_000:x}-{self._native.number}"
        self._components = StompComponents(self, session, broker.core.destinations.exists)
        self._decoder, self._encoder = StompDecoder(self._components), StompEncoder(self._components)
        self._splitter = StompFrameDecoder(_BEFORE_CONNECT, varying=VARYING)
        self._socket: asyncio.Transport | None = None
        # Bytes that came while others were not worked off, what these are split into, and what is to be done next.
        self._bytes: deque[bytes] = deque()
        self._found: Iterator[StompFrame | FrameRun] | None = None
        self._actions: deque[Action] = deque()
        self._busy = False
        # There was no time for all of it in this turn of the loop: it goes on in another.
        self._unfinished = broker.unfinished
        self._scheduler = broker.scheduler
        self._is_due = False
        self._unsent: list[bytes] = []
        self._heartbeats: Heartbeats | None = None
        # The socket takes no more for now; nothing is read for now.
        self._full = self._reading_paused = False
        # When a connection that is ended must be gone.
        self._deadline: asyncio.TimerHandle | None = None

    @property
    def logged_in(self) -> bool:
        return self._components.logged_in

    # From the socket

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._socket = cast(asyncio.Transport, transport)
        self._native.connection_made(StompTransport(self, self._socket))

    def data_received(self, data: bytes) -> None:
        if self._socket is None:
            return
        if self._heartbeats is not None:
            self._heartbeats.heard()
        if len(data) <= _CHUNK:
            self._bytes.append(data)
        else:
            self._bytes.extend(data[at : at + _CHUNK] for at in range(0, len(data), _CHUNK))
        began = time_ns()
        self._turn()
        if self._socket is not None:
            self._unfinished.note(self._native, self._splitter.unfinished)
        self._scheduler.record_turn(began)

    def pause_writing(self) -> None:
        self._full = True
        self._native.pause_writing()

    def resume_writing(self) -> None:
        self._full = False
        self._native.resume_writing()
        self._turn()

    def connection_lost(self, error: Exception | None) -> None:
        self._socket = None
        if self._heartbeats is not None:
            self._heartbeats.stop()
        if self._deadline is not None:
            self._deadline.cancel()
        self._bytes.clear()
        self._actions.clear()
        self._found = None
        self._native.connection_lost(error)

    # From the broker

    def frames_received(self, frames: Iterable[native.Frame]) -> None:
        """What comes while something is handled is looked at, and what follows from it is done after that."""
        for frame in frames:
            try:
                self._encoder.heard(frame)
            except REFUSALS as error:
                self.refuse(str(error))
        self._turn()

    def end(self) -> None:
        """The broker has ended the connection. Who does not read its last words does not stay for ever."""
        if self._socket is None:
            return
        self._write_out()
        socket, self._socket = self._socket, None
        self._deadline = asyncio.get_running_loop().call_later(_LAST_WORDS, socket.abort)
        if self._components.failed and socket.can_write_eof() and not socket.is_closing():
            # What it still sends is taken and forgotten: a socket that is closed before would forget the last words.
            socket.write_eof()
            if self._reading_paused:
                socket.resume_reading()
        else:
            socket.close()

    # For the talk

    def welcome(self, version: str, beat: int, expect: int) -> None:
        """It is let in, and may say more."""
        self._splitter.limits = Limits(
            limits.STOMP_HEADERS, limits.STOMP_HEADER, limits.STOMP_HEAD, self._frame_limit - limits.STOMP_HEAD_ROOM
        )
        seconds = (beat / 1000, expect / 1000) if version != "1.0" else (0.0, 0.0)
        self._heartbeats = Heartbeats(*seconds, self._beat, self._silent)

    def speaks(self, version: str) -> None:
        self._splitter.version = version

    def varies(self, headers: frozenset[str]) -> None:
        self._splitter.varying = headers

    def write(self, data: bytes) -> None:
        if not self._components.failed:
            self._unsent.append(data)

    def refuse(self, message: str) -> None:
        """Something cannot be done: with STOMP, that ends the connection. What was said before it is done."""
        self._hand_over()
        self._native.fail("refused", message)

    # The components

    def _turn(self) -> None:
        """Go on until there is nothing to do, or something must be waited for."""
        if self._busy:
            return
        self._busy = True
        ends, has_time = time_ns() + limits.TURN_NS, True
        while self._socket is not None and not self._components.failed:
            # Who does not read its receipts is not listened to.
            if not self._full and has_time and self._act():
                has_time = time_ns() <= ends
                continue
            if not self._full:
                self._components.subscriptions.settle_auto()
            if not self._hand_over():
                break
        self._busy = False
        if self._components.refused or (not self._actions and self._decoder.has_left):
            self._leave()
        self._write_out()
        if not self._full and not has_time and (self._actions or self._found or self._bytes):
            self._go_on_later()
        self._listen(not (self._actions or self._decoder.waits or self._full or self._is_due))

    def _go_on_later(self) -> None:
        if not self._is_due and self._socket is not None:
            self._is_due = True
            self._scheduler.defer(self._go_on)

    def _go_on(self) -> None:
        self._is_due = False
        self._turn()

    def _leave(self) -> None:
        self.end()
        self._native.connection_lost(None)

    def _hand_over(self) -> bool:
        """To the broker, what the client wants. Whether that was anything."""
        commands = self._components.commands.taken()
        if commands:
            # The broker must not be left while it is at it.
            busy, self._busy = self._busy, True
            self._native.frames_received(commands)
            self._busy = busy
        self._decoder.handed_over()
        self._write_out()
        return bool(commands)

    def _act(self) -> bool:
        """The next step. False: there is none, or it must wait."""
        if not self._actions:
            return not self._decoder.waits and self._find()
        try:
            done = self._actions[0]()
        except (StompError, *REFUSALS) as error:
            self.refuse(self._decoder.told(error))
            return False
        if done and self._actions:
            self._actions.popleft()
        return done

    def _find(self) -> bool:
        """The next frame, or messages that can be sent together, and the frame after them."""
        if self._found is None:
            if not self._bytes:
                return False
            self._found = self._splitter.feed_runs(self._bytes.popleft())
        try:
            found = next(self._found, None)
        except StompError as error:
            self._bytes.clear()
            self._actions += self._decoder.gathered()
            self._actions.append(partial(_fail, error))
        else:
            if found is not None:
                if not self._decoder.gathers(found):
                    self._actions += self._decoder.actions(found)
                return True
            self._actions += self._decoder.gathered()
        self._found = None
        return True

    def _write_out(self) -> None:
        if self._unsent and self._socket is not None:
            unsent, self._unsent = self._unsent, []
            self._socket.writelines(unsent)
            if self._heartbeats is not None:
                self._heartbeats.wrote()

    def _listen(self, listening: bool) -> None:
        """Who must wait is not listened to: what it sends stays on its side."""
        if self._socket is None or listening is not self._reading_paused or self._socket.is_closing():
            return
        self._reading_paused = not listening
        if self._heartbeats is not None:
            self._heartbeats.reading_paused(self._reading_paused)
        if listening:
            self._socket.resume_reading()
        else:
            self._socket.pause_reading()

    def _beat(self) -> None:
        if self._socket is not None and not self._full:
            self._socket.write(b"\n")

    def _silent(self) -> None:
        self.refuse("no heart-beat came in time")


def _fail(error: StompError) -> bool:
    raise error
