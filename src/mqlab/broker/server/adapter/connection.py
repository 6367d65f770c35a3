"""The connection of a client of any protocol but the native one: it reads bytes, and runs commands in order."""

import asyncio
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from time import time_ns
from typing import Final, Generic, TypeVar, cast

from mqlab.broker import limits
from mqlab.broker.server.adapter.heartbeats import Heartbeats
from mqlab.broker.server.adapter.state import AdapterState
from mqlab.broker.server.adapter.transport import AdapterTransport
from mqlab.broker.server.broker import Broker
from mqlab.broker.server.inprocess.connection import InProcessConnection
from mqlab.broker.server.native.refusal_frames import REFUSALS
from mqlab.broker.server.scheduler import TimeShare
from mqlab.wire.native.frames import Frame

# Returns False if it must wait: it runs again after the next answer of the broker.
Action = Callable[[], bool]
# The frames that the decoder of the protocol makes of bytes.
DecodedT = TypeVar("DecodedT")

# Bytes that the decoder gets at a time.
_CHUNK: Final = 64 * 1024


class ProtocolConnection(ABC, asyncio.Protocol, Generic[DecodedT]):
    """Handles frames in order. While a command waits for credit or for an answer, the connection does not read.

    A protocol says how bytes become frames (`_split`), what a frame does (`_add` and the actions it appends), what the
    answers of the broker become (`_encode`), and how an error is told (`_violation_text`).
    """

    # The errors with which the decoder of the protocol refuses bytes, and an action a command.
    violations: tuple[type[Exception], ...]

    def __init__(self, broker: Broker, native: InProcessConnection, state: AdapterState) -> None:
        self._native = native
        self._state = state
        self._refusals: tuple[type[Exception], ...] = (*self.violations, *REFUSALS)
        self._socket: asyncio.Transport | None = None
        # Bytes that are not split into frames yet, the frames of the current bytes, and the next actions.
        self._bytes: deque[bytes] = deque()
        self._frames: Iterator[DecodedT] | None = None
        self._actions: deque[Action] = deque()
        self._is_running = False
        # The connection continues in a later turn of the loop.
        self._unfinished = broker.unfinished
        self._scheduler, self._share = broker.scheduler, TimeShare()
        self._is_due = False
        self._unsent: list[bytes] = []
        self._heartbeats: Heartbeats | None = None
        # The write buffer of the socket is full; reading is paused.
        self._write_paused = self._reading_paused = False
        self._closing_sockets = broker.closing_sockets

    @property
    def logged_in(self) -> bool:
        return self._state.logged_in

    # The protocol

    @abstractmethod
    def _split(self, data: bytes) -> Iterator[DecodedT]:
        """Split bytes into frames. Raises one of `violations`, now or while the frames are read."""

    @abstractmethod
    def _add(self, decoded: DecodedT) -> None:
        """Add a frame to the current batch, or append its actions. Raises one of `violations`."""

    @abstractmethod
    def _finish_batch(self) -> Iterable[Action]:
        """The actions that send the current batch: no more frames follow now."""

    @abstractmethod
    def _encode(self, frame: Frame) -> None:
        """Handle a frame of the native connection. Raises one of `REFUSALS`."""

    @abstractmethod
    def _violation_text(self, error: Exception) -> str:
        """The text for the client. Before the login it quotes nothing from the client: that may be a password."""

    @property
    @abstractmethod
    def _waits(self) -> bool:
        """Whether no more frames are handled: the login is not done, or the client has said that it ends."""

    @property
    @abstractmethod
    def _is_finished(self) -> bool:
        """The client has said that it ends, and all earlier commands are done."""

    @property
    @abstractmethod
    def _unfinished_bytes(self) -> int:
        """Bytes of a frame that has not arrived completely."""

    @abstractmethod
    def _reset(self) -> None:
        """The connection is lost: release the memory of the decoder."""

    def _written(self) -> None:
        """No more actions run now, and the client reads: all deliveries so far are with its socket."""

    def _commands_sent(self) -> None:
        """The native connection has all commands."""

    # From the socket

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._socket = cast(asyncio.Transport, transport)
        self._transport = AdapterTransport(self, self._socket)
        self._native.connection_made(self._transport)

    def data_received(self, data: bytes) -> None:
        if self._socket is None:
            return
        if self._heartbeats is not None:
            self._heartbeats.data_read()
        if len(data) <= _CHUNK:
            self._bytes.append(data)
        else:
            self._bytes.extend(data[begin : begin + _CHUNK] for begin in range(0, len(data), _CHUNK))
        began_ns = time_ns()
        if self._is_due or (self._scheduler.is_contended() and self._share.is_used_up(began_ns)):
            self._defer_actions()
            self._set_reading(False)
            return
        self._take_turn(began_ns)

    def pause_writing(self) -> None:
        self._write_paused = True
        self._native.pause_writing()

    def resume_writing(self) -> None:
        self._write_paused = False
        self._native.resume_writing()
        self._run_actions()

    def connection_lost(self, error: Exception | None) -> None:
        self._socket = None
        if self._heartbeats is not None:
            self._heartbeats.stop()
        self._closing_sockets.discard(self)
        self._bytes.clear()
        self._actions.clear()
        self._frames = None
        self._reset()
        self._transport.release()
        self._native.connection_lost(error)

    # From the broker

    def frames_received(self, frames: Iterable[Frame]) -> None:
        """Frames may come while an action runs; the actions that follow from them run after it."""
        for frame in frames:
            try:
                self._encode(frame)
            except REFUSALS as error:
                self.refuse(str(error))
        self._run_actions()

    def end(self) -> None:
        """The broker has ended the connection. A client that does not read the last frame is aborted later."""
        if self._socket is None:
            return
        self._write_out()
        socket, self._socket = self._socket, None
        self._closing_sockets.add(self, socket)
        if self._state.failed and socket.can_write_eof() and not socket.is_closing():
            # Read and discard what the client still sends: closing the socket before would discard the last frame.
            socket.write_eof()
            if self._reading_paused:
                socket.resume_reading()
        else:
            socket.close()

    # For the parts of the protocol

    def write(self, data: bytes) -> None:
        if not self._state.failed:
            self._unsent.append(data)

    def refuse(self, message: str) -> None:
        """A command has failed in a way that ends the connection. Earlier commands are done first."""
        self._send_commands()
        self._native.fail("refused", message)

    # The turn of a client

    def _run_actions(self) -> None:
        """Run actions until there are none, the next one must wait, or the time of the turn is used up."""
        if self._is_running:
            return
        self._is_running = True
        ends_ns, has_time = time_ns() + limits.TURN_NS, True
        while self._socket is not None and not self._state.failed:
            # No command of a client that does not read its receipts is handled.
            if not self._write_paused and has_time and self._run_next():
                has_time = time_ns() <= ends_ns
                continue
            if not self._write_paused:
                self._written()
            if not self._send_commands():
                break
        self._is_running = False
        if self._state.refused or (not self._actions and self._is_finished):
            self._leave()
        self._write_out()
        if not self._write_paused and not has_time and (self._actions or self._frames or self._bytes):
            self._defer_actions()
        self._set_reading(not (self._actions or self._waits or self._write_paused or self._is_due))

    def _defer_actions(self) -> None:
        if not self._is_due and self._socket is not None:
            self._is_due = True
            self._scheduler.defer(self._run_deferred)

    def _run_deferred(self) -> None:
        self._is_due = False
        self._take_turn(time_ns())

    def _take_turn(self, began_ns: int) -> None:
        self._run_actions()
        if self._socket is not None:
            self._unfinished.note(self._native, self._unfinished_bytes)
        self._share.charge(began_ns, self._scheduler.record_turn(began_ns))

    def _leave(self) -> None:
        self.end()
        self._native.connection_lost(None)

    def _send_commands(self) -> bool:
        """Hand the collected frames to the native connection. Return whether there were any."""
        commands = self._state.commands.take()
        if commands:
            # The native connection may answer at once: `_run_actions` must not run inside this call.
            was_running, self._is_running = self._is_running, True
            self._native.frames_received(commands)
            self._is_running = was_running
        self._commands_sent()
        self._write_out()
        return bool(commands)

    def _run_next(self) -> bool:
        """Run the next action. Return False if there is none, or if it must wait."""
        if not self._actions:
            return not self._waits and self._next_actions()
        try:
            done = self._actions[0]()
        except self._refusals as error:
            self._violated(error)
            return False
        if done and self._actions:
            self._actions.popleft()
        return done

    def _violated(self, error: Exception) -> None:
        """An action has failed, or the bytes are no frames of the protocol."""
        self.refuse(self._violation_text(error))

    def _next_actions(self) -> bool:
        """Decode a frame, or a batch of messages and the frame after it. Return False if there are no bytes."""
        if self._frames is None:
            if not self._bytes:
                return False
            self._frames = self._split(self._bytes.popleft())
        try:
            frame = next(self._frames, None)
            if frame is not None:
                self._add(frame)
                return True
        except self.violations as error:
            self._bytes.clear()
            self._actions += self._finish_batch()
            self._actions.append(partial(_raise, error))
        else:
            self._actions += self._finish_batch()
        self._frames = None
        return True

    def _write_out(self) -> None:
        if self._unsent and self._socket is not None:
            unsent, self._unsent = self._unsent, []
            self._socket.writelines(unsent)
            if self._heartbeats is not None:
                self._heartbeats.data_written()

    def _set_reading(self, reading: bool) -> None:
        """While reading is paused, what the client sends stays on its side."""
        if self._socket is None or reading is not self._reading_paused or self._socket.is_closing():
            return
        self._reading_paused = not reading
        if self._heartbeats is not None:
            self._heartbeats.reading_paused(self._reading_paused)
        if reading:
            self._socket.resume_reading()
        else:
            self._socket.pause_reading()

    def _write_now(self, data: bytes) -> None:
        """Write a heart-beat, unless the client does not read."""
        if self._socket is not None and not self._write_paused:
            self._socket.write(data)


def _raise(error: Exception) -> bool:
    raise error
