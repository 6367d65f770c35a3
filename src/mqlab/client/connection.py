"""The client's end of a connection: frames to the links they are for, answers to those who wait for them."""

import asyncio
from collections import deque
from collections.abc import Callable, Iterable
from typing import Any, Protocol, cast, runtime_checkable

from mqlab.client.errors import ClosedError, LoginError, MessagingError, RefusedError
from mqlab.wire import native
from mqlab.wire.native.bodies import Buffer, Payload
from mqlab.wire.native.frames import Frame, Kind, ProtocolError

# What a broker may send at once, unless its HELLO announces a higher limit for a frame.
_FRAME_LIMIT = 64 * 1024 * 1024
_LARGE = 16 * 1024
_GOODBYE_SECONDS = 1.0
_SEND, _ACKNOWLEDGE, _RECEIVE, _REQUEST = map(int, (Kind.SEND, Kind.ACKNOWLEDGE, Kind.RECEIVE, Kind.REQUEST))


class Link(Protocol):
    """A producer or consumer: it gets the frames of its number, and learns when the connection is gone."""

    def handle(self, frame: Frame) -> None: ...

    def lost(self, error: MessagingError) -> None: ...


@runtime_checkable
class Receiving(Link, Protocol):
    """A link to which messages are delivered."""

    def delivered(self, first: int, payload: Payload, delivered: int, persistent: bool, origin: str) -> None: ...


@runtime_checkable
class Sending(Link, Protocol):
    """A link that also learns when the broker refused what it sent up to a sequence number."""

    def refused(self, seq: int, error: MessagingError) -> None: ...


class Wire(asyncio.BufferedProtocol):
    """One connection to a broker. All sessions of it share it."""

    def __init__(self) -> None:
        self._receiver = native.FrameDecoder(_FRAME_LIMIT)
        self._transport: asyncio.Transport | None = None
        self.loop = asyncio.get_running_loop()
        self._unsent: list[Buffer] = []
        # What others want to send before anything else is.
        self._first: list[Callable[[], None]] = []
        # What is unsent when the next turn of the loop begins leaves then; unless it is held for somebody who is sure
        # to call `about_to_wait` in this one.
        self._due = False
        self.held = False
        # At most one was woken by what came last, and has not had his turn of the loop yet.
        self._alone = False
        # Something came since somebody last set it back.
        self.heard = False
        self._gone = asyncio.Event()
        self._links: dict[int, Link] = {}
        self._receivers: dict[int, Receiving] = {}
        # Who waits for which answer, first come first served: (kind, session, link) -> futures.
        self._asked: dict[tuple[int, int, int], deque[asyncio.Future[Frame]]] = {}
        self._questions: dict[int, asyncio.Future[Frame]] = {}
        self._error: MessagingError | None = None
        # The name of the broker, if it has one.
        self.broker = ""
        # Bytes of the longest frame that it takes.
        self.frame_limit = _FRAME_LIMIT
        self._last_question = 0
        self._last_session = 0
        self._last_link = 0

    async def greet(self, hello: dict[str, Any]) -> None:
        """The first thing to do. Raises LoginError if the broker does not want us."""
        said = {"version": native.VERSION, "client": "mqlab", **{key: value for key, value in hello.items() if value}}
        try:
            greeting = await self.ask(native.frame(Kind.HELLO, said), Kind.HELLO)
            told = greeting.json()
            self.broker = str(told.get("name", ""))
            self.frame_limit = int(told.get("frame_limit", _FRAME_LIMIT))
            self._receiver.limit = max(_FRAME_LIMIT, self.frame_limit)
        except BaseException:
            await self.close()
            raise

    def new_session(self) -> int:
        self._last_session += 1
        return self._last_session

    def new_link(self) -> int:
        self._last_link += 1
        return self._last_link

    def attach(self, number: int, link: Link) -> None:
        self._links[number] = link
        if isinstance(link, Receiving):
            self._receivers[number] = link

    def detach(self, number: int) -> None:
        self._links.pop(number, None)
        self._receivers.pop(number, None)

    def soon(self, action: Callable[[], None]) -> None:
        """With the next turn of the loop, and before anything that is sent later than this."""
        self._first.append(action)
        self._flush_soon()

    def about_to_wait(self) -> None:
        """Somebody will wait for the effect of what was sent.

        Over a socket it leaves with the next turn of the loop. If it was held until now, or if nobody else was woken
        together with him, it leaves with this one: at once, unless others who were woken may have something to say.
        """
        if self._alone or (self.held and not self._due):
            self._flush()
        self.held = False

    def send(
        self, kind: int, flags: int, session: int, link: int, first: int, amount: int, payload: Buffer = b""
    ) -> None:
        """A frame. See `write`."""
        if self._transport is None:
            self._must_be_open()
        if self._first:
            self._do_first()
        if not (self._due or self.held):
            self._flush_soon()
        size = len(payload)
        self._unsent += (native.HEADER.pack(size, kind, flags, session, link, first, amount), payload)
        if size >= _LARGE:
            self._flush()

    # What is said most, as frames

    def put(self, session: int, link: int, first: int, payload: Payload, flags: int) -> None:
        data, rows, form = payload
        self.send(_SEND, flags | form, session, link, first, rows, data)

    def acknowledge(self, link: int, up_to: int, room: int) -> None:
        self.send(_ACKNOWLEDGE, 0, 0, link, up_to, room)

    def receive(self, link: int, correlation_id: str, done: int) -> None:
        """The message with that id; all that was delivered up to `done` is, if that is not 0."""
        self.send(_RECEIVE, 0, 0, link, done, 0, correlation_id.encode())

    def request(self, link: int, first: int, payload: Payload, consumer: int, correlation_id: str, done: int) -> None:
        """`put` and `receive` in one: the message has that correlation id, and `done` is all the consumer was given."""
        del correlation_id, done
        self.send(_REQUEST, payload.form, 0, link, first, consumer, payload.data)

    def write(self, *data: Buffer) -> None:
        """A frame, as its bytes. Small ones leave together at the end of this turn of the loop, a large one at once."""
        self._must_be_open()
        if self._first:
            self._do_first()
        self._unsent += data
        if len(data[-1]) >= _LARGE:
            self._flush()
        else:
            self._flush_soon()

    def _must_be_open(self) -> None:
        if self._transport is None:
            raise self._error or ClosedError("the connection is closed")

    def _do_first(self) -> None:
        actions, self._first = self._first, []
        for action in actions:
            action()

    def _flush_soon(self) -> None:
        if not self._due:
            self._due = True
            self.loop.call_soon(self._flush_due)

    def _flush_due(self) -> None:
        self._due = self._alone = False
        self._flush()

    def _flush(self) -> None:
        if self._first:
            self._do_first()
        unsent, self._unsent = self._unsent, []
        if self._transport is not None and unsent:
            self._transport.writelines(unsent)

    async def ask(self, data: bytes, answer: Kind, *, session: int = 0, link: int = 0) -> Frame:
        """Write a frame and wait for the answer to it. Raises RefusedError if that is the answer."""
        self._must_be_open()
        future: asyncio.Future[Frame] = self.loop.create_future()
        self._asked.setdefault((answer, session, link), deque()).append(future)
        self.write(data)
        self.about_to_wait()
        return await future

    async def question(self, asked: str, *, session: int = 0, **said: Any) -> dict[str, Any]:
        """Anything that is not about messages. Raises RefusedError if that is the answer."""
        self._must_be_open()
        self._last_question += 1
        number = self._last_question
        future: asyncio.Future[Frame] = self.loop.create_future()
        self._questions[number] = future
        self.write(native.frame(Kind.ASK, {"ask": asked, **said}, session=session, first=number))
        self.about_to_wait()
        answer = (await future).json()
        if "error" in answer:
            raise RefusedError(str(answer["error"]))
        return answer

    async def close(self) -> None:
        transport = self._transport
        if transport is None:
            return
        self.lose(ClosedError("the connection was closed"))
        await asyncio.sleep(0)
        if transport.get_extra_info("sslcontext") is not None:
            # TLS says goodbye and waits for the other side to do so, which may be in no state to.
            try:
                async with asyncio.timeout(_GOODBYE_SECONDS):
                    await self._gone.wait()
            except TimeoutError:
                transport.abort()
                await asyncio.sleep(0)

    # From the transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # uvloop's transports are not asyncio.Transport by inheritance, only by their methods.
        self._transport = cast(asyncio.Transport, transport)

    def get_buffer(self, sizehint: int) -> memoryview:  # noqa: ARG002 - the room is ours to choose
        return self._receiver.get_buffer()

    def buffer_updated(self, size: int) -> None:
        try:
            frames = self._receiver.buffer_updated(size)
            self.frames_received(frames)
        except ProtocolError as error:
            self.lose(ClosedError(f"the broker broke the protocol: {error}"))
            return
        self.heard = True
        if frames:
            # Whoever it woke is in line before this: what they all say leaves with one system call.
            self._flush_soon()
            self._alone = len(frames) == 1

    def frames_received(self, frames: Iterable[Frame]) -> None:
        """Raises ProtocolError."""
        for frame in frames:
            link = self._links.get(frame.link)
            if link is not None and frame.kind in _FOR_LINKS:
                link.handle(frame)
            else:
                self._answered(frame)

    def connection_lost(self, error: Exception | None) -> None:
        self._gone.set()
        self.lose(ClosedError(f"the connection to the broker is lost ({error or 'closed by the broker'})"))

    def _answered(self, frame: Frame) -> None:
        if frame.kind == Kind.ERROR:
            self._refused(frame)
            return
        if frame.kind == Kind.ANSWER:
            future = self._questions.pop(frame.first, None)
        else:
            future = self._next_asker((frame.kind, frame.session, frame.link))
        if future is not None and not future.done():
            # The frame's memory goes on to be filled: keep what it says.
            future.set_result(frame._replace(payload=memoryview(bytes(frame.payload))))

    def _next_asker(self, key: tuple[int, int, int]) -> "asyncio.Future[Frame] | None":
        """Whose turn it is; None if nobody asked, or nobody waits any more."""
        waiting = self._asked.get(key)
        if not waiting:
            return None
        future = waiting.popleft()
        if not waiting:
            del self._asked[key]
        return None if future.done() else future

    def _refused(self, frame: Frame) -> None:
        said: dict[str, Any] = frame.json()
        error = RefusedError(str(said.get("message", "refused")))
        if not frame.session and not frame.link:
            login = said.get("code") == "login"
            self.lose(LoginError(str(error)) if login else ClosedError(f"the broker ended the connection: {error}"))
            return
        link = self._links.get(frame.link)
        if frame.amount and isinstance(link, Sending):
            link.refused(frame.first + frame.amount - 1, error)
            return
        for key in [key for key in self._asked if key[1:] == (frame.session, frame.link)]:
            future = self._next_asker(key)
            if future is not None:
                future.set_exception(error)

    @property
    def is_open(self) -> bool:
        return self._transport is not None

    def lose(self, error: MessagingError) -> None:
        """Close it, for this reason: all that is waited for fails with it."""
        if self._transport is None:
            return
        self._flush()
        self._transport.close()
        self._transport = None
        self._error = error
        waiting = [*self._questions.values(), *(one for futures in self._asked.values() for one in futures)]
        for future in waiting:
            if not future.done():
                future.set_exception(error)
        self._asked.clear()
        self._questions.clear()
        for link in [*self._links.values()]:
            link.lost(error)


_FOR_LINKS = frozenset(map(int, (Kind.DELIVER, Kind.CONFIRM, Kind.CREDIT, Kind.ORIGIN, Kind.SEEN)))
