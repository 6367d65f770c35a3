"""A connection to a NATS server: subscriptions, and requests whose replies come to one inbox."""

import asyncio
import json
import re
import secrets
from collections import deque
from collections.abc import Callable, Mapping
from functools import partial
from typing import Final, NamedTuple, Self

from mqlab.drivers.api import DriverError, parse_destination
from mqlab.drivers.common.futures import fail_all, settle
from mqlab.drivers.common.timeouts import BLOCKED_TIMEOUT_S, with_timeout
from mqlab.drivers.common.transport import SocketTransport
from mqlab.json_values import JsonObject
from mqlab.wire import nats
from mqlab.wire.native.payload import Bytes

# The largest limit that a server can be configured with.
_MAX_MESSAGE_BYTES: Final = 64 << 20
_NEEDS_ESCAPE = re.compile(r"[^A-Za-z0-9_-]")

OnDelivered = Callable[[nats.SubscriptionBatch], None]
OnHeaded = Callable[[nats.HeaderMessage], None]
OnAnswer = Callable[[bytes | DriverError], None]


class NatsNames(NamedTuple):
    """Core NATS uses `subject`. The JetStream stream `stream` keeps messages to `stored` and below it."""

    is_queue: bool
    subject: str
    stored: str
    stream: str

    @classmethod
    def of(cls, destination: str) -> Self:
        kind, name = parse_destination(destination)
        plain = escaped(name)
        return cls(kind == "queue", f"{kind}.{plain}", f"stored.{kind}.{plain}", f"{kind}_{plain}")


def escaped(name: str) -> str:
    """Escape a name for use in a subject or as a consumer name. Different names stay different."""
    return _NEEDS_ESCAPE.sub(lambda match: "".join(f"={byte:02x}" for byte in match[0].encode()), name)


class NatsClient:
    """All roles of a driver's connection share one client. All methods raise DriverError."""

    def __init__(self) -> None:
        self.info: JsonObject = {}
        self._transport = SocketTransport("NATS", self._parse, self._connection_lost)
        self._handlers: dict[bytes, tuple[OnDelivered, OnHeaded]] = {}
        self._lost_callbacks: set[Callable[[str], None]] = set()
        # Ids of equal length give messages of equal length.
        self._next_sid = 1000
        self._pongs: deque[asyncio.Future[None]] = deque()
        self._info_received: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._inbox = f"_INBOX.{secrets.token_hex(8)}"
        self._answer_prefix = f"{self._inbox}.".encode()
        self._answers: dict[bytes, OnAnswer] = {}
        self._next_answer = 0
        self._failure = ""
        self.pause_reading, self.resume_reading = self._transport.pause_reading, self._transport.resume_reading

    async def open(self, address: str, name: str, options: Mapping[str, str]) -> None:
        await self._transport.open(address)
        await with_timeout(self._info_received, failure="the NATS server sent no INFO")
        connect_options = {
            "verbose": False, "pedantic": False, "headers": True, "no_responders": True, "protocol": 1,
            "name": name, "lang": "python", "version": "1",
        }  # fmt: skip
        names = {"user": "user", "password": "pass", "token": "auth_token"}
        login = {word: options[option] for option, word in names.items() if option in options}
        # Nothing may follow before the answer: a server that refuses the login closes, and a later write hides why.
        await with_timeout(
            self.ping(nats.connect({**connect_options, **login})), failure="the NATS server did not answer"
        )
        self.subscribe(f"{self._inbox}.*", self._handle_reply, self._handle_status_reply)

    def new_inbox(self) -> str:
        """Return a new subject for one subscription."""
        self._next_answer += 1
        return f"{self._inbox}_{self._next_answer}"

    def subscribe(self, subject: str, delivered: OnDelivered, headed: OnHeaded, group: str = "") -> bytes:
        sid = b"%d" % self._next_sid
        self._next_sid += 1
        self._handlers[sid] = (delivered, headed)
        self.write(nats.subscribe(subject, sid, group))
        return sid

    def unsubscribe(self, sid: bytes) -> None:
        """Messages that the server has sent before still come."""
        self.write(nats.unsubscribe(sid))

    def on_lost(self, callback: Callable[[str], None]) -> None:
        self._lost_callbacks.add(callback)

    def remove_subscription(self, sid: bytes, callback: Callable[[str], None]) -> None:
        self._handlers.pop(sid, None)
        self._lost_callbacks.discard(callback)

    def write(self, frames: bytes) -> None:
        self._transport.write(frames)

    @property
    def is_write_paused(self) -> bool:
        return self._transport.is_write_paused

    async def wait_writable(self) -> None:
        """Return when the write buffer has space."""
        await self._transport.wait_writable()

    async def send(self, frames: bytes) -> None:
        """Write frames; return when the write buffer has space."""
        transport = self._transport
        transport.write(frames)
        if transport.is_write_paused:
            await transport.wait_writable()

    def ping(self, last: bytes = b"") -> "asyncio.Future[None]":
        """Write `last` and a PING; the future is done when the server has processed all frames before."""
        pong = asyncio.get_running_loop().create_future()
        self.write(last + nats.PING)
        self._pongs.append(pong)
        return pong

    async def flush(self) -> None:
        """Return when the server has processed all frames."""
        await with_timeout(self.ping(), BLOCKED_TIMEOUT_S, "the NATS server did not answer")

    def ask(self, subject: bytes, body: bytes, on_answer: OnAnswer) -> bytes:
        """Send a request; `on_answer` gets the body of its reply. Return a token, for `forget`."""
        self._next_answer += 1
        token = b"%d" % self._next_answer
        self._transport.write(nats.publish(subject, body, self._answer_prefix + token))
        self._answers[token] = on_answer
        return token

    def forget(self, token: bytes) -> None:
        """Do not wait for the reply to this request any more."""
        self._answers.pop(token, None)

    async def jetstream_request(self, subject: str, config: Mapping[str, object]) -> JsonObject:
        """Send a request to the JetStream API and return its answer, which may contain `error`."""
        waiting: asyncio.Future[bytes | DriverError] = asyncio.get_running_loop().create_future()
        token = self.ask(f"$JS.API.{subject}".encode(), json.dumps(config).encode(), partial(settle, waiting))
        try:
            answer = await with_timeout(waiting, failure=f"JetStream did not answer {subject}")
        finally:
            self.forget(token)
        if isinstance(answer, DriverError):
            raise answer
        decoded: JsonObject = json.loads(answer)
        return decoded

    async def close(self) -> None:
        await self._transport.close()

    def _parse(self, data: Bytes) -> tuple[int, int]:
        delivered, others, consumed, needed = nats.parse(data, _MAX_MESSAGE_BYTES)
        for batch in delivered:
            handlers = self._handlers.get(batch.sid)
            if handlers is not None:
                handlers[0](batch)
        for other in others:
            if isinstance(other, nats.ControlLine):
                self._handle_control_line(other)
            else:
                handlers = self._handlers.get(other.sid)
                if handlers is not None:
                    handlers[1](other)
        return consumed, needed

    def _handle_control_line(self, answer: nats.ControlLine) -> None:
        if answer.word == "PONG" and self._pongs:
            settle(self._pongs.popleft(), None)
        elif answer.word == "PING":
            self._transport.write(nats.PONG)
        elif answer.word == "INFO":
            self.info = json.loads(answer.text)
            settle(self._info_received, None)
        elif answer.word == "-ERR":
            text = answer.text.strip("'")
            self._transport.fail(f"the NATS server ended the connection: {text}")

    def _handle_reply(self, delivered: nats.SubscriptionBatch) -> None:
        for row, subject in enumerate(delivered.subjects):
            on_answer = self._answers.pop(subject[len(self._answer_prefix) :], None)
            if on_answer is not None:
                on_answer(delivered.bodies[row])

    def _handle_status_reply(self, headed: nats.HeaderMessage) -> None:
        on_answer = self._answers.pop(headed.subject[len(self._answer_prefix) :], None)
        if on_answer is None:
            return
        if headed.status == 503:
            on_answer(DriverError("no responder is there for the request"))
        elif headed.status:
            on_answer(DriverError(f"the NATS server refused: {headed.status} {headed.words}"))
        else:
            on_answer(headed.body)

    def _connection_lost(self, reason: str) -> None:
        self._failure = reason or "the connection is closed"
        fail_all((self._info_received, *self._pongs), DriverError(self._failure))
        answers, self._answers = self._answers, {}
        for on_answer in answers.values():
            on_answer(DriverError(self._failure))
        for callback in list(self._lost_callbacks):
            callback(self._failure)
