"""A connection to a NATS server: subscriptions, and requests whose replies come to one inbox."""

import asyncio
import json
import re
import secrets
from collections import deque
from collections.abc import Callable, Mapping
from typing import Final, NamedTuple, Self

from mqlab.drivers.api import DriverError, parse_destination
from mqlab.drivers.common.futures import fail_all, settle
from mqlab.drivers.common.timeouts import ANSWER_TIMEOUT_S, BLOCKED_TIMEOUT_S, NO_REPLY, with_timeout
from mqlab.drivers.common.transport import SocketTransport
from mqlab.json_values import JsonObject
from mqlab.wire import nats
from mqlab.wire.native.payload import Bytes

# The largest limit that a server can be configured with.
_MAX_MESSAGE_BYTES: Final = 64 << 20
_NEEDS_ESCAPE = re.compile(r"[^A-Za-z0-9_-]")

OnDelivered = Callable[[nats.SubscriptionBatch], None]
OnHeaded = Callable[[nats.HeaderMessage], None]


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
        self._answers: dict[bytes, asyncio.Future[bytes]] = {}
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

    async def request(
        self, subject: bytes, body: bytes, timeout_s: float = BLOCKED_TIMEOUT_S, failure: str = NO_REPLY
    ) -> bytes:
        """Send a request and return the body of its reply."""
        self._next_answer += 1
        token = b"%d" % self._next_answer
        answer: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
        self._answers[token] = answer
        try:
            self._transport.write(nats.publish(subject, body, b"%s.%s" % (self._inbox.encode(), token)))
            return await with_timeout(answer, timeout_s, failure)
        finally:
            del self._answers[token]

    async def jetstream_request(self, subject: str, config: Mapping[str, object]) -> JsonObject:
        """Send a request to the JetStream API and return its answer, which may contain `error`."""
        failure = f"JetStream did not answer {subject}"
        answer = await self.request(
            f"$JS.API.{subject}".encode(), json.dumps(config).encode(), ANSWER_TIMEOUT_S, failure
        )
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
            settle(self._answers.get(subject[len(self._inbox) + 1 :]), delivered.bodies[row])

    def _handle_status_reply(self, headed: nats.HeaderMessage) -> None:
        answer = self._answers.get(headed.subject[len(self._inbox) + 1 :])
        if answer is None or answer.done():
            return
        if headed.status == 503:
            answer.set_exception(DriverError("no responder is there for the request"))
        elif headed.status:
            answer.set_exception(DriverError(f"the NATS server refused: {headed.status} {headed.words}"))
        else:
            answer.set_result(headed.body)

    def _connection_lost(self, reason: str) -> None:
        self._failure = reason or "the connection is closed"
        fail_all((self._info_received, *self._pongs, *self._answers.values()), DriverError(self._failure))
        for callback in list(self._lost_callbacks):
            callback(self._failure)
