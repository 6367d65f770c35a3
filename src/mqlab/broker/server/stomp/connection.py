"""The connection of a STOMP client: it reads and writes bytes, and runs the client's commands in order."""

import asyncio
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from time import time_ns
from typing import Final, cast

from mqlab.broker import limits
from mqlab.broker.server.broker import Broker
from mqlab.broker.server.inprocess.connection import InProcessConnection
from mqlab.broker.server.native.refusal_frames import REFUSALS
from mqlab.broker.server.scheduler import TimeShare
from mqlab.broker.server.stomp.components import StompComponents
from mqlab.broker.server.stomp.decoder import VARYING, Action, StompDecoder
from mqlab.broker.server.stomp.encoder import StompEncoder
from mqlab.client.inprocess.transport import InProcessTransport
from mqlab.wire.native import frames as native
from mqlab.wire.stomp.decoder import Limits, StompFrameDecoder
from mqlab.wire.stomp.frames import StompError, StompFrame
from mqlab.wire.stomp.runs import FrameRun

_BEFORE_CONNECT: Final = Limits(
    limits.STOMP_HEADERS, limits.FRAME_BEFORE_HELLO, limits.FRAME_BEFORE_HELLO, limits.FRAME_BEFORE_HELLO
)
# Bytes that the splitter gets at a time.
_CHUNK: Final = 64 * 1024
# Seconds for the client to read the ERROR frame before the socket is aborted.
_CLOSE_SECONDS: Final = 2.0


# Seconds between heart-beats to a client while reading is paused: only a write can find out that the client is gone.
_PAUSED_INTERVAL_S: Final = 5.0
# Agreed intervals without data after which a client counts as gone: data may be late.
_TOLERANCE: Final = 2.0


class Heartbeats:
    """Calls `send` when nothing else was sent in time, and `missed` once if the client is silent; 0: neither."""

    def __init__(self, send_s: float, expect_s: float, send: Callable[[], None], missed: Callable[[], None]) -> None:
        self._loop = asyncio.get_running_loop()
        self._send, self._missed = send, missed
        self._interval_s, self._timeout_s = send_s / 2, expect_s * _TOLERANCE
        self._wrote = False
        self._last_read = self._loop.time()
        self._reading_paused = False
        self._timers: dict[str, asyncio.TimerHandle] = {}
        if send_s:
            self._beat_later()
        if expect_s:
            self._timers["listen"] = self._loop.call_later(self._timeout_s, self._listen)

    def data_read(self) -> None:
        self._last_read = self._loop.time()

    def reading_paused(self, paused: bool) -> None:
        """While reading is paused the client cannot be late."""
        self._reading_paused = paused
        self._last_read = self._loop.time()
        if paused and "beat" not in self._timers:
            self._beat_later()

    def data_written(self) -> None:
        self._wrote = True

    def stop(self) -> None:
        for timer in self._timers.values():
            timer.cancel()
        self._timers.clear()

    def _beat_later(self) -> None:
        self._timers["beat"] = self._loop.call_later(self._interval_s or _PAUSED_INTERVAL_S, self._beat)

    def _beat(self) -> None:
        del self._timers["beat"]
        wrote, self._wrote = self._wrote, False
        if self._interval_s or self._reading_paused:
            self._beat_later()
            if not wrote:
                self._send()

    def _listen(self) -> None:
        now = self._loop.time()
        if self._reading_paused:
            self._last_read = now
        left = self._last_read + self._timeout_s - now
        if left <= 0:
            self._missed()
        else:
            self._timers["listen"] = self._loop.call_later(left, self._listen)


class StompServerConnection(asyncio.Protocol):
    """Handles frames in order. While a command waits for credit or for an answer, the connection does not read."""

    def __init__(self, broker: Broker) -> None:
        self._native = InProcessConnection(broker)
        self._frame_limit = broker.settings.frame_limit
        # No other connection has this name, also after a restart of the broker.
        session = f"{time_ns() // 1_000_000:x}-{self._native.number}"
        self._components = StompComponents(self, session, broker.core.destinations.exists)
        self._decoder, self._encoder = StompDecoder(self._components), StompEncoder(self._components)
        self._splitter = StompFrameDecoder(_BEFORE_CONNECT, varying=VARYING)
        self._socket: asyncio.Transport | None = None
        # Bytes that are not split into frames yet, the frames of the current bytes, and the next actions.
        self._bytes: deque[bytes] = deque()
        self._frames: Iterator[StompFrame | FrameRun] | None = None
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
        # Aborts the socket of a connection that has been ended.
        self._deadline: asyncio.TimerHandle | None = None

    @property
    def logged_in(self) -> bool:
        return self._components.logged_in

    # From the socket

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._socket = cast(asyncio.Transport, transport)
        self._transport = StompTransport(self, self._socket)
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
        if self._deadline is not None:
            self._deadline.cancel()
        self._bytes.clear()
        self._actions.clear()
        self._frames = None
        self._splitter = StompFrameDecoder(_BEFORE_CONNECT)
        self._transport.release()
        self._native.connection_lost(error)

    # From the broker

    def frames_received(self, frames: Iterable[native.Frame]) -> None:
        """Frames may come while an action runs; the actions that follow from them run after it."""
        for frame in frames:
            try:
                self._encoder.encode(frame)
            except REFUSALS as error:
                self.refuse(str(error))
        self._run_actions()

    def end(self) -> None:
        """The broker has ended the connection. A client that does not read the last frame is aborted later."""
        if self._socket is None:
            return
        self._write_out()
        socket, self._socket = self._socket, None
        self._deadline = asyncio.get_running_loop().call_later(_CLOSE_SECONDS, socket.abort)
        if self._components.failed and socket.can_write_eof() and not socket.is_closing():
            # Read and discard what the client still sends: closing the socket before would discard the last frame.
            socket.write_eof()
            if self._reading_paused:
                socket.resume_reading()
        else:
            socket.close()

    # For decoder and encoder

    def login_done(self, version: str, send_ms: int, expect_ms: int) -> None:
        """The login is done: the limits of frames are those of the settings."""
        self._splitter.limits = Limits(
            limits.STOMP_HEADERS, limits.STOMP_HEADER, limits.STOMP_HEAD, self._frame_limit - limits.STOMP_HEAD_ROOM
        )
        seconds = (send_ms / 1000, expect_ms / 1000) if version != "1.0" else (0.0, 0.0)
        self._heartbeats = Heartbeats(
            *seconds, self._send_heartbeat, partial(self.refuse, "no heart-beat arrived in time")
        )

    def set_version(self, version: str) -> None:
        self._splitter.version = version

    def set_varying_headers(self, headers: frozenset[str]) -> None:
        self._splitter.varying = headers

    def write(self, data: bytes) -> None:
        if not self._components.failed:
            self._unsent.append(data)

    def refuse(self, message: str) -> None:
        """A command has failed: in STOMP that ends the connection. Earlier commands are done first."""
        self._send_commands()
        self._native.fail("refused", message)

    # The components

    def _run_actions(self) -> None:
        """Run actions until there are none, the next one must wait, or the time of the turn is used up."""
        if self._is_running:
            return
        self._is_running = True
        ends_ns, has_time = time_ns() + limits.TURN_NS, True
        while self._socket is not None and not self._components.failed:
            # No command of a client that does not read its receipts is handled.
            if not self._write_paused and has_time and self._run_next():
                has_time = time_ns() <= ends_ns
                continue
            if not self._write_paused:
                self._components.subscriptions.acknowledge_auto()
            if not self._send_commands():
                break
        self._is_running = False
        if self._components.refused or (not self._actions and self._decoder.is_finished):
            self._leave()
        self._write_out()
        if not self._write_paused and not has_time and (self._actions or self._frames or self._bytes):
            self._defer_actions()
        self._set_reading(not (self._actions or self._decoder.waits or self._write_paused or self._is_due))

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
            self._unfinished.note(self._native, self._splitter.unfinished)
        self._share.charge(began_ns, self._scheduler.record_turn(began_ns))

    def _leave(self) -> None:
        self.end()
        self._native.connection_lost(None)

    def _send_commands(self) -> bool:
        """Hand the collected frames to the native connection. Return whether there were any."""
        commands = self._components.commands.take()
        if commands:
            # The native connection may answer at once: `_run_actions` must not run inside this call.
            was_running, self._is_running = self._is_running, True
            self._native.frames_received(commands)
            self._is_running = was_running
        self._decoder.commands_sent()
        self._write_out()
        return bool(commands)

    def _run_next(self) -> bool:
        """Run the next action. Return False if there is none, or if it must wait."""
        if not self._actions:
            return not self._decoder.waits and self._next_actions()
        try:
            done = self._actions[0]()
        except (StompError, *REFUSALS) as error:
            self.refuse(self._decoder.error_text(error))
            return False
        if done and self._actions:
            self._actions.popleft()
        return done

    def _next_actions(self) -> bool:
        """Decode a frame, or a batch of messages and the frame after it. Return False if there are no bytes."""
        if self._frames is None:
            if not self._bytes:
                return False
            self._frames = self._splitter.feed_runs(self._bytes.popleft())
        try:
            frame = next(self._frames, None)
            if frame is not None:
                if not self._decoder.adds_to_batch(frame):
                    self._actions += self._decoder.actions(frame)
                return True
        except StompError as error:
            self._bytes.clear()
            self._actions += self._decoder.finish_batch()
            self._actions.append(partial(_raise, error))
        else:
            self._actions += self._decoder.finish_batch()
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

    def _send_heartbeat(self) -> None:
        if self._socket is not None and not self._write_paused:
            self._socket.write(b"\n")


def _raise(error: StompError) -> bool:
    raise error


class StompTransport(InProcessTransport):
    """The transport of the native connection: frames go to the STOMP connection, all other calls to its socket."""

    def __init__(self, connection: StompServerConnection, socket: asyncio.Transport) -> None:
        asyncio.Transport.__init__(self)
        self._connection = connection
        self._socket: asyncio.Transport | None = socket

    def release(self) -> None:
        """The socket is closed: nothing of it waits until this connection is collected."""
        self._socket = None

    def send(self, frames: Sequence[native.Frame]) -> None:
        self._connection.frames_received(frames)

    def close(self) -> None:
        self._connection.end()

    def abort(self) -> None:
        if self._socket is not None:
            self._socket.abort()

    def is_closing(self) -> bool:
        return self._socket is None or self._socket.is_closing()

    def get_extra_info(self, name: str, default: object = None) -> object:
        return default if self._socket is None else self._socket.get_extra_info(name, default)

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        assert self._socket is not None
        self._socket.set_write_buffer_limits(high, low)
