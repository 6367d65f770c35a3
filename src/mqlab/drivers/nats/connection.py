"""A connection to a NATS server: subscriptions, and requests whose answers come to one inbox."""

import asyncio
import json
import secrets
from collections import deque
from collections.abc import Callable, Mapping
from typing import Any, Final

from mqlab.drivers.api import DriverError
from mqlab.drivers.common.timeouts import ANSWER_TIMEOUT_S, BLOCKED_TIMEOUT_S, NO_REPLY, with_timeout
from mqlab.drivers.common.transport import Line
from mqlab.wire import nats
from mqlab.wire.native.payload import Bytes

# As much as a server can be told to take in one message.
_LARGEST_MESSAGE: Final = 64 << 20

OnDelivered = Callable[[nats.SubscriptionBatch], None]
OnHeaded = Callable[[nats.HeaderMessage], None]


class Talk:
    """`name` is what the server shows it as. All that asks something raises DriverError."""

    def __init__(self) -> None:
        self.info: dict[str, Any] = {}
        self._line = Line("NATS", self._take, self._gone)
        self._handlers: dict[bytes, tuple[OnDelivered, OnHeaded]] = {}
        self._on_gone: set[Callable[[str], None]] = set()
        # All of one length, so that messages to several subscriptions are, too.
        self._next_sid = 1000
        self._pongs: deque[asyncio.Future[None]] = deque()
        self._greeted: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._inbox = f"_INBOX.{secrets.token_hex(8)}"
        self._answers: dict[bytes, asyncio.Future[bytes]] = {}
        self._next_answer = 0
        self._why = ""
        self.hold, self.let_go = self._line.hold, self._line.let_go

    async def open(self, address: str, name: str, options: Mapping[str, str]) -> None:
        await self._line.open(address)
        await with_timeout(self._greeted, failure="the NATS server did not greet")
        wishes = {
            "verbose": False, "pedantic": False, "headers": True, "no_responders": True, "protocol": 1,
            "name": name, "lang": "python", "version": "1",
        }  # fmt: skip
        names = {"user": "user", "password": "pass", "token": "auth_token"}
        login = {word: options[option] for option, word in names.items() if option in options}
        # Nothing more before the answer: a server that refuses closes, and what is written then hides why.
        await with_timeout(self.pinged(nats.connect({**wishes, **login})), failure="the NATS server did not answer")
        self.subscribe(f"{self._inbox}.*", self._answered, self._refused)

    def inbox(self) -> str:
        """A subject of its own."""
        self._next_answer += 1
        return f"{self._inbox}_{self._next_answer}"

    def subscribe(self, subject: str, delivered: OnDelivered, headed: OnHeaded, group: str = "") -> bytes:
        sid = b"%d" % self._next_sid
        self._next_sid += 1
        self._handlers[sid] = (delivered, headed)
        self.write(nats.subscribe(subject, sid, group))
        return sid

    def unsubscribe(self, sid: bytes) -> None:
        """What was sent before still comes."""
        self.write(nats.unsubscribe(sid))

    def when_gone(self, tell: Callable[[str], None]) -> None:
        self._on_gone.add(tell)

    def forget(self, sid: bytes, tell: Callable[[str], None]) -> None:
        self._handlers.pop(sid, None)
        self._on_gone.discard(tell)

    def write(self, frames: bytes) -> None:
        self._line.write(frames)

    async def send(self, frames: bytes) -> None:
        """Returns when more may be sent."""
        line = self._line
        line.write(frames)
        if line.is_full:
            await line.room()

    def pinged(self, last: bytes = b"") -> "asyncio.Future[None]":
        """Done when the server has taken all that was written, with these as the last."""
        pong = asyncio.get_running_loop().create_future()
        self.write(last + nats.PING)
        self._pongs.append(pong)
        return pong

    async def flushed(self) -> None:
        """The server has taken all that was written."""
        await with_timeout(self.pinged(), BLOCKED_TIMEOUT_S, "the NATS server did not answer")

    async def ask(self, subject: bytes, body: bytes, seconds: float = BLOCKED_TIMEOUT_S, what: str = NO_REPLY) -> bytes:
        """One request, and its answer."""
        self._next_answer += 1
        token = b"%d" % self._next_answer
        answer: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
        self._answers[token] = answer
        try:
            self._line.write(nats.publish(subject, body, b"%s.%s" % (self._inbox.encode(), token)))
            return await with_timeout(answer, seconds, what)
        finally:
            del self._answers[token]

    async def api(self, subject: str, wish: Mapping[str, object]) -> dict[str, Any]:
        """A request to JetStream: what it answers, with `error` in it if it refuses."""
        what = f"JetStream did not answer {subject}"
        said = await self.ask(f"$JS.API.{subject}".encode(), json.dumps(wish).encode(), ANSWER_TIMEOUT_S, what)
        found: dict[str, Any] = json.loads(said)
        return found

    async def close(self) -> None:
        await self._line.close()

    def _take(self, data: Bytes) -> tuple[int, int]:
        delivered, others, consumed, needed = nats.parse(data, _LARGEST_MESSAGE)
        for one in delivered:
            handlers = self._handlers.get(one.sid)
            if handlers is not None:
                handlers[0](one)
        for other in others:
            if isinstance(other, nats.ControlLine):
                self._said(other)
            else:
                handlers = self._handlers.get(other.sid)
                if handlers is not None:
                    handlers[1](other)
        return consumed, needed

    def _said(self, said: nats.ControlLine) -> None:
        if said.word == "PONG" and self._pongs:
            pong = self._pongs.popleft()
            if not pong.done():
                pong.set_result(None)
        elif said.word == "PING":
            self._line.write(nats.PONG)
        elif said.word == "INFO":
            self.info = json.loads(said.text)
            if not self._greeted.done():
                self._greeted.set_result(None)
        elif said.word == "-ERR":
            text = said.text.strip("'")
            self._line.fail(f"the NATS server ended the connection: {text}")

    def _answered(self, delivered: nats.SubscriptionBatch) -> None:
        for row, subject in enumerate(delivered.subjects):
            answer = self._answers.get(subject[len(self._inbox) + 1 :])
            if answer is not None and not answer.done():
                answer.set_result(delivered.bodies[row])

    def _refused(self, headed: nats.HeaderMessage) -> None:
        answer = self._answers.get(headed.subject[len(self._inbox) + 1 :])
        if answer is None or answer.done():
            return
        if headed.status == 503:
            answer.set_exception(DriverError("nobody is there to answer the request"))
        elif headed.status:
            answer.set_exception(DriverError(f"the NATS server refused: {headed.status} {headed.words}"))
        else:
            answer.set_result(headed.body)

    def _gone(self, why: str) -> None:
        self._why = why or "the connection is closed"
        error = DriverError(self._why)
        waiting_ones: list[asyncio.Future[Any]] = [self._greeted, *self._pongs, *self._answers.values()]
        for waiting in waiting_ones:
            if not waiting.done():
                waiting.set_exception(error)
                # Nobody may be waiting any more.
                waiting.exception()
        for tell in list(self._on_gone):
            tell(self._why)
