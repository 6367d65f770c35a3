"""A client's connection in the native protocol: it routes frames to links, and replies to the callers that wait."""

import asyncio
from collections import deque
from collections.abc import Callable, Iterable
from typing import Protocol, cast, runtime_checkable

from mqlab.client.errors import ClosedError, LoginError, MessagingError, RefusedError
from mqlab.json_values import JsonObject
from mqlab.wire.native import frames as native
from mqlab.wire.native.bodies import Buffer, Payload
from mqlab.wire.native.frames import Frame, Kind, ProtocolError

# The longest frame that a broker may send, unless its HELLO announces a higher limit.
_FRAME_LIMIT_BYTES = 64 * 1024 * 1024
_LARGE_BYTES = 16 * 1024
_CLOSE_NOTIFICATION_S = 1.0
_SEND, _ACKNOWLEDGE, _RECEIVE, _REQUEST = map(int, (Kind.SEND, Kind.ACKNOWLEDGE, Kind.RECEIVE, Kind.REQUEST))


class ClientLink(Protocol):
    """A producer or consumer: it gets the frames with its number, and learns when the connection is lost."""

    def handle(self, frame: Frame) -> None: ...

    def lost(self, error: MessagingError) -> None: ...


@runtime_checkable
class ProducerLink(ClientLink, Protocol):
    """A link that also learns when the broker refuses what it sent."""

    def refused(self, seq: int, error: MessagingError) -> None:
        """`seq`: sequence number of the last refused message."""


class NativeClientConnection(asyncio.BufferedProtocol):
    """One connection to a broker. All its sessions share it."""

    def __init__(self) -> None:
        self._decoder = native.FrameDecoder(_FRAME_LIMIT_BYTES)
        self._transport: asyncio.Transport | None = None
        self.loop = asyncio.get_running_loop()
        self._unsent: list[Buffer] = []
        # Producers' flushes, which run before the next frame is sent.
        self._before_send: list[Callable[[], None]] = []
        # Unsent frames leave at the next turn of the loop. With `hold_flush` they leave earlier: the caller that set it
        # calls `flush_before_wait` in this turn.
        self._flush_scheduled = False
        self.hold_flush = False
        # The socket takes nothing more: what producers have gathered does not leave at the turn of the loop.
        self._is_paused = False
        # The last read woke at most one task, which has not run yet.
        self._woke_one = False
        # Callbacks of consumers with new deliveries; they run when all frames of a read are handled.
        self._arrivals: dict[Callable[[], None], None] = {}
        self._is_reading = False
        # Bytes have arrived since the keepalive last cleared this.
        self.traffic_seen = False
        self._disconnected = asyncio.Event()
        self._links: dict[int, ClientLink] = {}
        # Callers that wait for a reply, first come first served, by (kind, session, link) of the reply.
        self._pending_replies: dict[tuple[int, int, int], deque[asyncio.Future[Frame]]] = {}
        self._admin_requests: dict[int, asyncio.Future[Frame]] = {}
        self._error: MessagingError | None = None
        # The name of the broker, or "".
        self.broker = ""
        # The longest frame that the broker accepts, in bytes.
        self.frame_limit = _FRAME_LIMIT_BYTES
        self._last_admin_request = 0
        self._last_session = 0
        self._last_link = 0

    async def handshake(self, hello: JsonObject) -> None:
        """Exchange HELLO frames; nothing else may be sent before. Raises LoginError if the broker refuses the login."""
        fields = {"version": native.VERSION, "client": "mqlab", **{key: value for key, value in hello.items() if value}}
        try:
            reply = (await self.call(native.frame(Kind.HELLO, fields), Kind.HELLO)).json()
            self.broker = str(reply.get("name", ""))
            self.frame_limit = int(reply.get("frame_limit", _FRAME_LIMIT_BYTES))
            self._decoder.limit = max(_FRAME_LIMIT_BYTES, self.frame_limit)
        except BaseException:
            await self.close()
            raise

    def new_session(self) -> int:
        self._last_session += 1
        return self._last_session

    def new_link(self) -> int:
        self._last_link += 1
        return self._last_link

    def attach(self, number: int, link: ClientLink) -> None:
        self._links[number] = link

    def detach(self, number: int) -> None:
        self._links.pop(number, None)

    def flush_later(self, action: Callable[[], None]) -> None:
        """Call `action` at the next turn of the loop, or before the next frame is sent."""
        self._before_send.append(action)
        self._schedule_flush()

    def call_after_read(self, on_arrival: Callable[[], None]) -> None:
        """Call this once when all frames that have arrived are handled; all that it sends leaves together."""
        if not self._is_reading and not self._arrivals:
            # A broker in this process delivers while it handles a command: what is called must not send another.
            self.loop.call_soon(self._run_arrivals)
        self._arrivals[on_arrival] = None

    def _run_arrivals(self) -> None:
        arrivals, self._arrivals = self._arrivals, {}
        self.hold_flush = True
        try:
            for on_arrival in arrivals:
                on_arrival()
        finally:
            self.hold_flush = False
            self._flush()

    def flush_before_wait(self) -> None:
        """The caller is about to wait for the effect of what it sent.

        Over a socket, frames leave at the next turn of the loop. They leave now if the caller held them until now, or
        if the last read woke no other task that may have something to send.
        """
        if self._woke_one or (self.hold_flush and not self._flush_scheduled):
            self._flush()
        self.hold_flush = False

    def send_frame(
        self, kind: int, flags: int, session: int, link: int, first: int, amount: int, payload: Buffer = b""
    ) -> None:
        """Send a frame; see `write` for when it leaves."""
        if self._transport is None:
            self._check_open()
        if self._before_send:
            self._run_before_send()
        if not (self._flush_scheduled or self.hold_flush):
            self._schedule_flush()
        size = len(payload)
        self._unsent += (native.HEADER.pack(size, kind, flags, session, link, first, amount), payload)
        if size >= _LARGE_BYTES:
            self._flush()

    # The most frequent operations. A connection inside one process overrides them by calls of the broker.

    def send_messages(self, session: int, link: int, first: int, payload: Payload, flags: int) -> None:
        data, rows, form = payload
        self.send_frame(_SEND, flags | form, session, link, first, rows, data)

    def acknowledge(self, link: int, up_to: int, credit: int) -> None:
        self.send_frame(_ACKNOWLEDGE, 0, 0, link, up_to, credit)

    def receive(self, link: int, correlation_id: str, done: int) -> None:
        """Ask for the message with that correlation id, and acknowledge up to `done` unless that is 0."""
        self.send_frame(_RECEIVE, 0, 0, link, done, 0, correlation_id.encode())

    def send_request(
        self, link: int, first: int, payload: Payload, consumer: int, correlation_id: str, done: int
    ) -> None:
        """`send_messages` and `receive` in one frame: `done` is the last delivery id of the consumer."""
        del correlation_id, done
        self.send_frame(_REQUEST, payload.form, 0, link, first, consumer, payload.data)

    def write(self, *data: Buffer) -> None:
        """Send an encoded frame. Small ones leave together at the end of this turn of the loop, a large one at once."""
        self._check_open()
        if self._before_send:
            self._run_before_send()
        self._unsent += data
        if len(data[-1]) >= _LARGE_BYTES:
            self._flush()
        else:
            self._schedule_flush()

    def _check_open(self) -> None:
        if self._transport is None:
            raise self._error or ClosedError("the connection is closed")

    def _run_before_send(self) -> None:
        actions, self._before_send = self._before_send, []
        for action in actions:
            action()

    def _schedule_flush(self) -> None:
        if not self._flush_scheduled:
            self._flush_scheduled = True
            self.loop.call_soon(self._flush_now)

    def _flush_now(self) -> None:
        self._flush_scheduled = self._woke_one = False
        if self._before_send and not self._is_paused:
            self._run_before_send()
        self._write_unsent()

    def _flush(self) -> None:
        if self._before_send:
            self._run_before_send()
        self._write_unsent()

    def _write_unsent(self) -> None:
        unsent, self._unsent = self._unsent, []
        if self._transport is not None and unsent:
            self._transport.writelines(unsent)

    async def call(self, data: bytes, reply: Kind, *, session: int = 0, link: int = 0) -> Frame:
        """Send an encoded frame and wait for its reply. Raises RefusedError if the broker refuses."""
        self._check_open()
        future: asyncio.Future[Frame] = self.loop.create_future()
        self._pending_replies.setdefault((reply, session, link), deque()).append(future)
        self.write(data)
        self.flush_before_wait()
        return await future

    async def admin_request(self, operation: str, session: int = 0, /, **arguments: object) -> JsonObject:
        """Any operation that is not about messages. Raises RefusedError if the broker refuses."""
        self._check_open()
        self._last_admin_request += 1
        number = self._last_admin_request
        future: asyncio.Future[Frame] = self.loop.create_future()
        self._admin_requests[number] = future
        self.write(native.frame(Kind.ASK, {"ask": operation, **arguments}, session=session, first=number))
        self.flush_before_wait()
        reply = (await future).json()
        if "error" in reply:
            raise RefusedError(str(reply["error"]))
        return reply

    async def close(self, timeout_s: float = 0.0) -> bool:
        """Close. Returns whether everything that was written has left; the rest is discarded after `timeout_s`."""
        transport = self._transport
        if transport is None:
            return True
        self.disconnect(ClosedError("the connection was closed"))
        await asyncio.sleep(0)
        # TLS waits for the peer's close notification, which a broken peer never sends.
        if self._disconnected.is_set() or await self._is_lost_within(_CLOSE_NOTIFICATION_S):
            return True
        if transport.get_write_buffer_size() and await self._is_lost_within(timeout_s):
            return True
        unsent = transport.get_write_buffer_size()
        transport.abort()
        await asyncio.sleep(0)
        return not unsent

    async def _is_lost_within(self, seconds: float) -> bool:
        try:
            async with asyncio.timeout(seconds):
                await self._disconnected.wait()
        except TimeoutError:
            return False
        return True

    # Called by the transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # uvloop's transports are not asyncio.Transport by inheritance, only by their methods.
        self._transport = cast(asyncio.Transport, transport)

    def pause_writing(self) -> None:
        self._is_paused = True

    def resume_writing(self) -> None:
        self._is_paused = False
        self._schedule_flush()

    def get_buffer(self, sizehint: int) -> memoryview:  # noqa: ARG002 - the decoder chooses the size
        return self._decoder.get_buffer()

    def buffer_updated(self, size: int) -> None:
        self._is_reading = True
        try:
            frames = self._decoder.buffer_updated(size)
            self.frames_received(frames)
        except ProtocolError as error:
            frames = []
            self.disconnect(ClosedError(f"the broker broke the protocol: {error}"))
        finally:
            self._is_reading = False
            has_arrivals = bool(self._arrivals)
            if has_arrivals:
                self._run_arrivals()
        self.traffic_seen = True
        if frames and not has_arrivals:
            # The tasks that these frames woke run before this flush: all they send leaves with one system call.
            self._schedule_flush()
            self._woke_one = len(frames) == 1

    def frames_received(self, frames: Iterable[Frame]) -> None:
        """Raises ProtocolError."""
        for frame in frames:
            link = self._links.get(frame.link)
            if link is not None and frame.kind in _FOR_LINKS:
                link.handle(frame)
            else:
                self._handle_reply(frame)

    def connection_lost(self, error: Exception | None) -> None:
        self._disconnected.set()
        self.disconnect(ClosedError(f"the connection to the broker is lost ({error or 'closed by the broker'})"))

    def _handle_reply(self, frame: Frame) -> None:
        if frame.kind == Kind.ERROR:
            self._handle_error(frame)
            return
        if frame.kind == Kind.ANSWER:
            future = self._admin_requests.pop(frame.first, None)
        else:
            future = self._next_waiter((frame.kind, frame.session, frame.link))
        if future is not None and not future.done():
            # The decoder reuses the memory of the payload.
            future.set_result(frame._replace(payload=memoryview(bytes(frame.payload))))

    def _next_waiter(self, key: tuple[int, int, int]) -> "asyncio.Future[Frame] | None":
        """The first caller that waits for this reply; None if there is none, or it has given up."""
        waiting = self._pending_replies.get(key)
        if not waiting:
            return None
        future = waiting.popleft()
        if not waiting:
            del self._pending_replies[key]
        return None if future.done() else future

    def _handle_error(self, frame: Frame) -> None:
        details = frame.json()
        error = RefusedError(str(details.get("message", "refused")))
        if not frame.session and not frame.link:
            login = details.get("code") == "login"
            reason = LoginError(str(error)) if login else ClosedError(f"the broker ended the connection: {error}")
            self.disconnect(reason)
            return
        link = self._links.get(frame.link)
        if frame.amount and isinstance(link, ProducerLink):
            link.refused(frame.first + frame.amount - 1, error)
            return
        for key in [key for key in self._pending_replies if key[1:] == (frame.session, frame.link)]:
            future = self._next_waiter(key)
            if future is not None:
                future.set_exception(error)

    @property
    def is_open(self) -> bool:
        return self._transport is not None

    def disconnect(self, error: MessagingError) -> None:
        """Close the connection. Every pending call, and every link, fails with this error."""
        if self._transport is None:
            return
        self._flush()
        self._transport.close()
        self._transport = None
        self._error = error
        replies = (future for futures in self._pending_replies.values() for future in futures)
        for future in [*self._admin_requests.values(), *replies]:
            if not future.done():
                future.set_exception(error)
        self._pending_replies.clear()
        self._admin_requests.clear()
        for link in [*self._links.values()]:
            link.lost(error)


_FOR_LINKS = frozenset(map(int, (Kind.DELIVER, Kind.CONFIRM, Kind.CREDIT, Kind.ORIGIN, Kind.SEEN)))
