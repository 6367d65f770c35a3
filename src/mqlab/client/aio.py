"""The client library for asyncio.

connection = await connect("tcp:127.0.0.1:7766")
session = await connection.session()
producer = await session.producer("queue:orders", priority=7)
await producer.send(b"one", persistent=True, properties={"colour": "red"})
consumer = await session.consumer("queue:orders", selector="colour = 'red'")
message = await consumer.receive()
"""

import asyncio
import sys
import warnings
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Final, Unpack, get_args

from mqlab.client.connection import NativeClientConnection
from mqlab.client.consumer import Acknowledge, Consumer
from mqlab.client.errors import ClosedError, MessagingError, RefusedError, SeenAllError
from mqlab.client.headers import Headers, MessageEncoder, ProducerDefaults
from mqlab.client.message import Delivery, Message
from mqlab.client.open_connection import open_connection
from mqlab.client.producer import Producer
from mqlab.client.requester import Requester
from mqlab.json_values import JsonObject
from mqlab.wire.native import frames as native
from mqlab.wire.native.bodies import Buffer
from mqlab.wire.native.frames import Frame, Kind

__all__ = ["Browser", "Connection", "Consumer", "Delivery", "Producer", "Requester", "Session", "connect"]

DEFAULT_PREFETCH = 1000
MAX_PREFETCH = 1_000_000
CLOSE_TIMEOUT_S = 10.0
# Producers for replies that a session keeps open; it closes the least recently used one.
_MAX_REPLY_PRODUCERS: Final = 64


class Browser(Consumer):
    """Gives the messages that were on a queue when the browser was opened, and that are still there."""

    end_error = SeenAllError

    def __init__(
        self, connection: NativeClientConnection, session: int, link: int, destination: str, prefetch: int
    ) -> None:
        super().__init__(connection, session, link, destination, prefetch, "dups_ok")

    def handle(self, frame: Frame) -> None:
        if frame.kind == Kind.SEEN:
            self.lost(SeenAllError("the browser has reached the end of the queue"))
        else:
            super().handle(frame)

    async def close(self, *, unprocessed: int = 0) -> None:  # noqa: ARG002 - a browser acknowledges nothing
        self._connection.detach(self._link)
        self._error = None
        await super().close()


async def connect(
    address: str, *, client_id: str = "", user: str = "", password: str = "", ca: Path | None = None,
    application: str = "", keepalive: float | None = None, silence: float | None = None,
) -> "Connection":  # fmt: skip
    """Connect to `tcp:HOST:PORT`, `tls:HOST:PORT`, `unix:PATH` or `bindings:NAME`.

    `ca`: the certificates that the broker's must be signed by. `client_id`: the owner of durable subscriptions; only
    one connection at a time can have it. `application`: the name in the broker's lists and traces, by default that of
    the program. `keepalive`: seconds without an answer after which the client disconnects; None: it waits for ever.
    `silence` is the former name of `keepalive`.
    Raises OSError if no broker listens there, LoginError if the broker refuses the user or the password.
    """
    application = application or Path(sys.argv[0]).name
    if silence is not None:
        warnings.warn("connect(silence=) is now connect(keepalive=)", DeprecationWarning, stacklevel=2)
    hello = {"client_id": client_id, "user": user, "password": password, "application": application}
    return Connection(await open_connection(address, hello, ca, silence if keepalive is None else keepalive))


class Connection:
    def __init__(self, connection: NativeClientConnection) -> None:
        self._connection = connection
        self._sessions: list[Session] = []

    async def session(self, acknowledge: Acknowledge = "auto") -> "Session":
        """`acknowledge`: auto, dups_ok, client, individual or transacted; see `mqlab.client.consumer`."""
        if acknowledge not in get_args(Acknowledge):
            raise ValueError(f"acknowledge: {acknowledge!r} is none of {', '.join(get_args(Acknowledge))}")
        number = self._connection.new_session()
        opening = native.frame(Kind.OPEN_SESSION, {"transacted": acknowledge == "transacted"}, session=number)
        await self._connection.call(opening, Kind.OPENED, session=number)
        session = Session(self._connection, number, acknowledge)
        self._sessions.append(session)
        return session

    async def temporary_queue(self) -> str:
        """Create a temporary queue and return its name. Only this connection can receive from it."""
        return str((await self._connection.admin_request("temporary"))["name"])

    async def unsubscribe(self, name: str) -> None:
        """Delete a durable subscription that has no consumer now."""
        await self._connection.admin_request("unsubscribe", name=name)

    async def commit(self, xid: str) -> None:
        """Commit a transaction that a session has prepared, maybe before a restart of the broker."""
        await self._connection.admin_request("commit", xid=xid)

    async def rollback(self, xid: str) -> None:
        await self._connection.admin_request("rollback", xid=xid)

    async def prepared(self) -> list[str]:
        """The ids of the prepared transactions that are not decided yet."""
        return [branch["xid"] for branch in (await self._connection.admin_request("prepared"))["prepared"]]

    async def status(self) -> JsonObject:
        """The broker's counters."""
        return await self._connection.admin_request("status")

    async def ask(self, operation: str, **arguments: object) -> JsonObject:
        """An administrative operation: list, show, purge, move, delete."""
        reply = await self._connection.admin_request(operation, **arguments)
        while (after := reply.pop("more", None)) is not None:
            # The broker sends a long list of destinations in pages.
            following = await self._connection.admin_request(operation, **{**arguments, "after": after})
            reply = {**following, "destinations": reply["destinations"] + following["destinations"]}
        return reply

    async def close(self) -> None:
        """Flush, then close. Raises MessagingError if the broker does not take everything that was sent."""
        try:
            async with asyncio.timeout(CLOSE_TIMEOUT_S):
                for session in self._sessions:
                    await session.flush()
        except TimeoutError:
            unsent = sum(session.unsent for session in self._sessions)
            raise MessagingError(f"closed, but {unsent} messages are unsent: the broker grants no credit") from None
        except ClosedError:
            pass
        finally:
            has_left = await self._connection.close(CLOSE_TIMEOUT_S)
        if not has_left:
            raise MessagingError("closed, but the last messages are unsent: the broker does not read")

    async def drop(self) -> None:
        """Close at once, and discard what is unsent."""
        await self._connection.close()

    async def __aenter__(self) -> "Connection":
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.close()


class Session:
    """The context of producers and consumers; a transacted one has one transaction at a time."""

    def __init__(self, connection: NativeClientConnection, number: int, acknowledge: Acknowledge) -> None:
        self.acknowledge_mode = acknowledge
        self._connection = connection
        self._number = number
        self._producers: list[Producer] = []
        # Those with unsent messages: one, and those that the broker holds back.
        self._gathering: list[Producer] = []
        self._consumers: list[Consumer] = []
        self._reply_producers: dict[str, Producer] = {}

    @property
    def transacted(self) -> bool:
        return self.acknowledge_mode == "transacted"

    async def producer(
        self, destination: str, *, priority: int = 4, time_to_live: int = 0, delay: int = 0, ids: bool = True,
        timestamps: bool = True,
    ) -> Producer:  # fmt: skip
        """`queue:NAME` or `topic:NAME`. Times are in ms. Without `ids` and `timestamps` frames are shorter."""
        encoder = MessageEncoder(ProducerDefaults(priority, time_to_live, delay, ids, timestamps))
        link = self._connection.new_link()
        producer = Producer(
            self._connection, self._number, link, destination, encoder, transacted=self.transacted,
            gathering=self._gathering,
        )  # fmt: skip
        await self._open(Kind.OPEN_PRODUCER, link, producer, {"destination": destination})
        self._producers.append(producer)
        return producer

    async def consumer(
        self, destination: str, *, prefetch: int = DEFAULT_PREFETCH, selector: str = "", durable: str = "",
        shared: str = "", no_local: bool = False, exclusive: bool = False,
    ) -> Consumer:  # fmt: skip
        """`destination`: `queue:NAME` or `topic:NAME` (with `*` for one level, a final `#` for any number of levels).

        `prefetch`: how many messages the consumer may hold; with 0 it asks for each message.
        `durable` and `shared`: the name of a durable or of a shared subscription (or of one that is both).
        """
        if not 0 <= prefetch <= MAX_PREFETCH:
            raise ValueError(f"prefetch: {prefetch} is not a number of messages from 0 to {MAX_PREFETCH}")
        link = self._connection.new_link()
        consumer = Consumer(self._connection, self._number, link, destination, prefetch, self.acknowledge_mode)
        options = {
            "destination": destination, "selector": selector, "durable": durable, "shared": shared,
            "no_local": no_local, "exclusive": exclusive,
        }  # fmt: skip
        await self._open(Kind.OPEN_CONSUMER, link, consumer, options, prefetch)
        self._consumers.append(consumer)
        return consumer

    async def browser(self, queue: str, *, selector: str = "") -> Browser:
        """Iterate over the browser to read the messages of a queue."""
        link = self._connection.new_link()
        browser = Browser(self._connection, self._number, link, queue, DEFAULT_PREFETCH)
        options = {"destination": queue, "selector": selector, "browse": True}
        await self._open(Kind.OPEN_CONSUMER, link, browser, options, DEFAULT_PREFETCH)
        return browser

    async def requester(
        self, destination: str, *, reply_to: str = "", persistent: bool = False, ids: bool = True,
        timestamps: bool = True,
    ) -> Requester:  # fmt: skip
        """Replies arrive on the shared queue `reply_to`, or else on a temporary queue of this requester."""
        if self.transacted:
            raise MessagingError("a transacted session cannot wait for replies: its requests leave with the commit")
        to = reply_to or str((await self._connection.admin_request("temporary"))["name"])
        producer = await self.producer(destination, ids=ids, timestamps=timestamps)
        consumer = await self.consumer(to, prefetch=0)
        return Requester(self._connection, producer, consumer, persistent=persistent, shared=bool(reply_to))

    async def reply(
        self, request: Message, body: Buffer, *, persistent: bool = False, **headers: Unpack[Headers]
    ) -> None:
        """Send a reply to the `reply_to` destination of a request."""
        to = request.reply_to
        if not to:
            raise ValueError("the message has no reply_to")
        headers.setdefault("correlation_id", request.correlation_id or request.id)
        producer = self._reply_producers.pop(to, None)
        if producer is None:
            producer = await self.producer(to)
        self._reply_producers[to] = producer
        if persistent or not producer.try_send(body, headers):
            await producer.send(body, persistent=persistent, **headers)
        if len(self._reply_producers) > _MAX_REPLY_PRODUCERS:
            await self.release(self._reply_producers.pop(next(iter(self._reply_producers))))

    async def release(self, producer: Producer) -> None:
        """Close a producer of this session, and forget it."""
        self._producers.remove(producer)
        await producer.close()

    def acknowledge(self) -> None:
        """In mode `client`: acknowledge all messages that the application has received in this session."""
        for consumer in self._open_consumers():
            consumer.acknowledge()

    async def recover(self) -> None:
        """Have all messages that were received and not acknowledged delivered again."""
        if self.transacted:
            raise MessagingError("a transacted session has rollback for that")
        for consumer in self._open_consumers():
            await consumer.recover()

    async def prepare(self, xid: str) -> None:
        """The first phase of a two-phase commit: the transaction waits for `Connection.commit` or `rollback`."""
        self._must_be_transacted()
        await self.flush()
        self.acknowledge()
        await self._connection.admin_request("prepare", self._number, xid=xid)

    async def commit(self) -> None:
        """Commit all sends and acknowledgements; durable if a message in the transaction is persistent."""
        self._must_be_transacted()
        await self.flush()
        self.acknowledge()
        await self._call(Kind.COMMIT, Kind.COMMITTED)

    async def rollback(self) -> None:
        """Discard all sends, and have all received messages delivered again."""
        self._must_be_transacted()
        with suppress(RefusedError):
            await self.flush()
        consumers = self._open_consumers()
        for consumer in consumers:
            consumer.acknowledge()
            consumer.discard()
        await self._call(Kind.ROLLBACK, Kind.ROLLED_BACK)
        for producer in self._producers:
            producer.clear_refusal()
        for consumer in consumers:
            consumer.resume()

    @property
    def unsent(self) -> int:
        """How many messages have not been handed to the connection."""
        return sum(producer.unsent for producer in self._producers)

    async def flush(self) -> None:
        """Hand everything sent so far to the connection."""
        for producer in self._producers:
            if not producer.closed:
                await producer.flush()

    async def close(self) -> None:
        """Close the session. The broker rolls an open transaction back."""
        await self.flush()
        await self._call(Kind.CLOSE, Kind.CLOSED)
        for producer in self._producers:
            producer.detach()
        for consumer in self._consumers:
            consumer.detach()

    def _must_be_transacted(self) -> None:
        if not self.transacted:
            raise MessagingError(f"only a transacted session has a transaction; this one is {self.acknowledge_mode}")

    def _open_consumers(self) -> list[Consumer]:
        return [consumer for consumer in self._consumers if not consumer.closed]

    async def _call(self, kind: Kind, reply: Kind) -> None:
        await self._connection.call(native.header(kind, session=self._number), reply, session=self._number)

    async def _open(
        self, kind: Kind, link: int, opened_link: Producer | Consumer, options: JsonObject, prefetch: int = 0
    ) -> None:
        self._connection.attach(link, opened_link)
        fields = {key: value for key, value in options.items() if value}
        opening = native.frame(kind, fields, session=self._number, link=link, amount=prefetch)
        try:
            await self._connection.call(opening, Kind.OPENED, session=self._number, link=link)
        except BaseException:
            self._connection.detach(link)
            raise
