"""The contract between the roles of an agent and a protocol. A driver implements these classes.

Rules for every method:
- An agent calls all methods in one event loop. A method must not block it: blocking calls belong in a thread.
- One role uses a link (sender, receiver, requester, responder), and makes one call on it at a time. Several roles share
  a connection and use it at the same time.
- A method raises DriverError, and no other exception, when the system refuses, fails or does not answer in time.
- `Receiver.receive` may be cancelled at any time. A cancelled call loses no message: the next `receive` returns it, or
  the system redelivers it after `close`.
- Request/reply works by callbacks: a coroutine, a task or a future for each round trip would cost more than the rest of
  it. The driver calls the role from the reader of its socket, and the role hands over the next request, or the replies,
  before it returns. `mqlab.drivers.common.coroutines` adapts a client library that has coroutines instead.
- Destinations are named `queue:NAME` or `topic:NAME`. The driver creates a destination that does not exist.
- Messages travel message by message: each row of a batch is a message of its own, also where one call carries many
  rows. Only `Sender.send_packed` puts several records into one message.
"""

import asyncio
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from types import MappingProxyType
from typing import ClassVar, Final, Literal, NamedTuple, Protocol

import numpy as np

from mqlab.drivers.common.futures import settle
from mqlab.errors import MqlabError
from mqlab.wire.native.bodies import Bodies

# Message bodies of one size: row i is message i.
Matrix = np.ndarray[tuple[int, int], np.dtype[np.uint8]]
# A value for each message.
Integers = np.ndarray[tuple[int], np.dtype[np.integer]]
Texts = np.ndarray[tuple[int], np.dtype[np.str_]]
# A column for each property name. Its type is the property's type.
Properties = Mapping[str, Integers | Texts]
# When the driver acknowledges received messages.
# auto: with the next `receive`, or `close`. dups_ok: as auto, but it may delay and combine acknowledgements.
# client: with the next `receive`; not with `close`. transacted: with `commit`.
Acknowledge = Literal["auto", "dups_ok", "client", "transacted"]
NOT_TRANSACTED: Final = "the session is not transacted"
# Former names of class attributes of Driver, which drivers of other packages may still set.
_FORMER_NAMES: Final = {"at_once": "max_send_bytes", "tells_taken": "reports_accepted"}


class DriverError(MqlabError):
    """The system is unreachable, refuses, fails or does not answer. Unconfirmed messages may have arrived or not."""


class MessageHeaders(NamedTuple):
    """Headers of messages, a value for each of them; None where they have the system's default."""

    # From 0 to 9, as in JMS.
    priority: Integers | None = None
    # Seconds after which the system may drop a message; the same for all.
    expires_s: float | None = None
    # The message group, or the key of a record.
    key: Texts | None = None

    def rows(self, begin: int, end: int) -> "MessageHeaders":
        priority = None if self.priority is None else self.priority[begin:end]
        return MessageHeaders(priority, self.expires_s, None if self.key is None else self.key[begin:end])

    def check(self, lacks: Mapping[str, str]) -> None:
        """Raise DriverError with the reason if `lacks`, as of a driver, has one of the headers that are set."""
        columns = {"priority": self.priority, "expiry": self.expires_s, "keys": self.key}
        for feature in (name for name, column in columns.items() if column is not None and name in lacks):
            raise DriverError(lacks[feature])


def parse_destination(destination: str) -> tuple[str, str]:
    """Return `queue` or `topic`, and the name. Raise DriverError."""
    kind, _, name = destination.partition(":")
    if kind not in ("queue", "topic") or not name:
        raise DriverError(f"{destination!r} is not a destination: write queue:NAME or topic:NAME")
    return kind, name


@dataclass(frozen=True)
class ReceiverOptions:
    """How a receiver receives.

    `prefetch` is how many messages it may hold unacknowledged. `selector` is a JMS selector, or "" for all messages.
    `durable` is the name of a durable subscription, or "" for none. `packed`: the messages are packed.
    `redeliver_after_s`: a system that does not notice the end of a connection gives the messages that its consumer has
    not acknowledged for so long to another one. None: the driver decides, so that no slow consumer loses a message.
    """

    prefetch: int
    acknowledge: Acknowledge = "auto"
    selector: str = ""
    durable: str = ""
    packed: bool = False
    redeliver_after_s: float | None = None


class ReceivedBatch(NamedTuple):
    """Messages that one `receive` returned. `redelivered` holds for all of them: a batch never mixes both kinds.

    A packed message has one body with all its records, or a body for each record where the protocol has batches.
    """

    bodies: Bodies
    redelivered: bool


class Reply(NamedTuple):
    body: bytes
    redelivered: bool


OnReply = Callable[[Reply | DriverError], None]


class RequestBatch(NamedTuple):
    """Requests that have arrived. `redelivered` holds for all of them: a batch never mixes both kinds."""

    bodies: list[bytes]
    redelivered: bool


class RequestHandler(Protocol):
    """The role that replies to requests. Its responder calls these methods in the event loop."""

    def on_requests(self, requests: RequestBatch) -> Sequence[bytes]:
        """Return a reply to each request, in order."""

    def on_confirmed(self) -> None:
        """The system has confirmed the persistent replies to the last requests."""

    def on_failure(self, error: Exception) -> None:
        """The responder calls no method any more: it has failed, or `on_requests` has raised this error."""


class Sender(ABC):
    """A session with one producer. A producer role owns it and closes it."""

    # Frames with messages that the driver has written, if it counts them; else `Driver.frame_each` tells.
    frames: int | None = None

    @abstractmethod
    async def send(
        self,
        bodies: Matrix,
        *,
        wait: bool,
        properties: Properties | None = None,
        headers: MessageHeaders | None = None,
    ) -> None:
        """Send one message for each row of `bodies`, by one call each of the plain API of the client library.

        With `wait`, return when the system has confirmed all of them: a persistent message is then durable. Without,
        return as soon as the driver can take the next batch. The caller may reuse `bodies` after the return. In a
        transacted session the messages belong to the open transaction; the first send begins it. A producer role passes
        `properties` and `headers` only if the study has some, or a selector needs them.
        """

    async def send_packed(self, bodies: Matrix, *, wait: bool, properties: Properties | None = None) -> None:
        """Send all rows of `bodies` as the records of one message. Otherwise as `send`."""
        if properties is not None:
            raise DriverError("the records of a packed message have no properties of their own")
        await self.send(bodies.reshape(1, -1), wait=wait)

    async def commit(self) -> None:
        """Commit the transaction; return when the system has confirmed that. Called in transacted sessions only."""
        raise DriverError(NOT_TRANSACTED)

    async def wait_accepted(self, max_pending: int) -> None:
        """Return when the system has accepted all but at most `max_pending` of the messages sent so far.

        A producer role calls this after each send that does not wait, if the driver `reports_accepted`. It never does
        so in a transacted session.
        """
        former = getattr(self, "taken", None)
        if former is None:
            raise DriverError(f"this driver cannot tell which messages are accepted (at most {max_pending} pending)")
        warnings.warn(f"{type(self).__name__}.taken is now wait_accepted", DeprecationWarning, stacklevel=2)
        await former(max_pending)

    @abstractmethod
    async def close(self) -> None:
        """Return when the system has accepted all messages. Roll back an open transaction."""


class Receiver(ABC):
    """A session with one consumer. A consumer role uses it; only that of a durable subscription is always closed."""

    # Frames with messages that the driver has read, if it counts them; else `Driver.frame_each` tells.
    frames: int | None = None

    @abstractmethod
    async def receive(self) -> ReceivedBatch:
        """Wait without a time limit for messages; return at least one and at most `prefetch`.

        The call also acknowledges what earlier calls returned, unless the session is transacted.
        """

    async def commit(self) -> None:
        """Acknowledge all received messages in one transaction; return when the system has confirmed that.

        Called in transacted sessions only, between two calls of `receive` or after a cancelled one.
        """
        raise DriverError(NOT_TRANSACTED)

    @abstractmethod
    async def close(self) -> None:
        """End the consumer. The system redelivers what is not acknowledged."""


class DriverRequester(ABC):
    """A session that sends requests and receives their replies. A requester role owns it and closes it."""

    @abstractmethod
    def ask(self, body: bytes, correlation_id: str, on_reply: OnReply) -> None:
        """Send one request. When its reply comes, which has the same correlation id, call `on_reply` with it.

        One request at a time: the next may follow from within `on_reply`. The event loop calls `on_reply` exactly once,
        after this method has returned: with a DriverError if the request fails, or if no reply comes within
        `BLOCKED_TIMEOUT_S`. Other messages may lie on the reply queue: replies to other requesters, preloaded ones, and
        a late reply to an earlier request that failed.
        """

    async def request(self, body: bytes, correlation_id: str) -> Reply:
        """`ask` for callers that wait."""
        answer: asyncio.Future[Reply | DriverError] = asyncio.get_running_loop().create_future()
        self.ask(body, correlation_id, partial(settle, answer))
        try:
            reply = await answer
        except asyncio.CancelledError:
            self.stop()
            raise
        if isinstance(reply, DriverError):
            raise reply
        return reply

    @abstractmethod
    def stop(self) -> None:
        """Wait for a reply no more, if one is awaited: `on_reply` is not called."""

    @abstractmethod
    async def close(self) -> None:
        """End the session, and delete the reply queue if the driver made one for this requester."""


class Responder(ABC):
    """A session that receives requests and sends their replies. A responder role owns it and closes it."""

    @abstractmethod
    def start(self, handler: RequestHandler) -> None:
        """From now on, hand all requests that have arrived to the handler, and send the replies that it returns.

        Each reply goes to the destination that its request names. If replies are persistent, the next requests follow
        when the system has confirmed them. A request is acknowledged after its reply was sent and, if it is persistent,
        confirmed.
        """

    @abstractmethod
    async def stop(self) -> None:
        """Hand over no more requests."""

    @abstractmethod
    async def close(self) -> None:
        """Called after `stop`: return when the system has accepted all replies, then end the session."""


class DriverConnection(ABC):
    """A connection to the system, from which roles open links. The agent closes it at the end of a run.

    An agent opens many links at the same time. A driver may leave out the methods that are not abstract, if its `lacks`
    says why; a method that cannot do what its arguments ask for raises DriverError with the reason.
    """

    @abstractmethod
    async def sender(self, destination: str, *, persistent: bool, transacted: bool) -> Sender:
        """Open a session with one producer."""

    @abstractmethod
    async def receiver(self, destination: str, options: ReceiverOptions) -> Receiver:
        """Open a session with one consumer. It gets every message that is sent to its topic after the return."""

    async def requester(self, destination: str, reply_to: str, *, persistent: bool) -> DriverRequester:
        """Open a session that sends requests to `destination`; requesters may share the queue `reply_to`."""
        raise _left_out("requester", destination, reply_to, persistent)

    async def responder(self, destination: str, *, prefetch: int, persistent: bool) -> Responder:
        """Open a session that receives requests from `destination`; `persistent` applies to its replies."""
        raise _left_out("responder", destination, prefetch, persistent)

    async def subscribe(self, topic: str, options: ReceiverOptions) -> None:
        """Create the durable subscription `options.durable`, without a consumer that stays."""
        raise _left_out("subscribe", topic, options)

    async def unsubscribe(self, durable: str) -> None:
        """Delete a durable subscription of this connection, which has no consumer now."""
        raise _left_out("unsubscribe", durable)

    async def preload(self, queue: str, bodies: Matrix, *, persistent: bool) -> None:
        """Put messages on a reply queue with correlation ids that no requester waits for; return when confirmed."""
        raise _left_out("preload", queue, len(bodies), persistent)

    @abstractmethod
    async def close(self) -> None:
        """Close all links and the connection, within seconds even if the system does not answer."""


def _left_out(method: str, *arguments: object) -> DriverError:
    return DriverError(f"this driver has no {method} ({', '.join(map(str, arguments))})")


class Driver(ABC):
    """One protocol, at one address. The agent makes it and calls `connect` for each connection of a run.

    `address` is `tcp:HOST:PORT`, `tls:HOST:PORT` or `unix:PATH`. `options` are those that the system passes to the
    driver: user, password, the jars of a library.
    """

    # Features of `mqlab.study.FEATURES` that the protocol or this driver lacks, each with the reason.
    lacks: ClassVar[Mapping[str, str]] = {}
    # Bytes of bodies, and messages, that a producer which does not wait passes to one `send`. More make it no faster.
    max_send_bytes: ClassVar[int] = 64 * 1024
    max_send_messages: ClassVar[int] = 8192
    # Whether the protocol has batches: then a packed message is such a batch, and its records are messages.
    has_batches: ClassVar[bool] = False
    # Whether each message has a frame, packet or command of its own; if not, and the links count none, the client
    # library decides, and the number of frames is unknown.
    frame_each: ClassVar[bool] = True
    # Whether its senders implement `wait_accepted`. Otherwise the buffers on the way bound the send-ahead.
    reports_accepted: ClassVar[bool] = False

    def __init_subclass__(cls) -> None:
        for former, name in _FORMER_NAMES.items():
            if former in vars(cls):
                warnings.warn(f"{cls.__name__}.{former} is now {name}", DeprecationWarning, stacklevel=2)
                setattr(cls, name, vars(cls)[former])

    def __init__(self, address: str, options: Mapping[str, str] = MappingProxyType({})) -> None:
        self.address = address
        self.options = options

    @abstractmethod
    async def connect(self, application: str = "") -> DriverConnection:
        """Connect, and show `application` as the client's name where the system displays one.

        Raise DriverError, and leave nothing open, if the system cannot be reached or refuses the login.
        """
