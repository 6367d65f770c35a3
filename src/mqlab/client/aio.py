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
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Unpack, get_args

from mqlab.client.browser import Browser
from mqlab.client.connection import Wire
from mqlab.client.consumer import Acknowledge, Consumer
from mqlab.client.errors import ClosedError, MessagingError, RefusedError
from mqlab.client.headers import Headers, Stamp, Standing
from mqlab.client.message import Delivery, Message
from mqlab.client.open_connection import open_wire
from mqlab.client.producer import Producer
from mqlab.client.requester import Requester
from mqlab.wire import native
from mqlab.wire.native.bodies import Buffer
from mqlab.wire.native.frames import Kind

__all__ = ["Browser", "Connection", "Consumer", "Delivery", "Producer", "Requester", "Session", "connect"]

DEFAULT_PREFETCH = 1000
MOST_PREFETCH = 1_000_000
LINGER_SECONDS = 10.0
# Producers for replies that a session keeps open, least recently used first to go: replies go to many queues.
_MOST_REPLIERS: Final = 64


async def connect(
    address: str, *, client_id: str = "", user: str = "", password: str = "", ca: Path | None = None,
    application: str = "", silence: float | None = None,
) -> "Connection":  # fmt: skip
    """`tcp:HOST:PORT`, `tls:HOST:PORT` (`ca`: who signed the broker's certificate), `unix:PATH` or `bindings:NAME`.

    A client with a `client_id` owns its durable subscriptions, and is connected once. `application` is what the broker
    shows it as, and traces it by; the name of the program, if it is not given. A broker that says nothing for `silence`
    seconds, not even when it is asked, counts as lost; without that, one that hangs is waited for.
    Raises OSError if nobody listens there, LoginError if the broker wants another user or password.
    """
    application = application or Path(sys.argv[0]).name
    hello = {"client_id": client_id, "user": user, "password": password, "application": application}
    return Connection(await open_wire(address, hello, ca, silence))


class Connection:
    def __init__(self, wire: Wire) -> None:
        self._wire = wire
        self._sessions: list[Session] = []

    async def session(self, acknowledge: Acknowledge = "auto") -> "Session":
        """`acknowledge`: auto, dups_ok, client, individual or transacted; see `mqlab.client.consumer`."""
        if acknowledge not in get_args(Acknowledge):
            raise ValueError(f"acknowledge: {acknowledge!r} is none of {', '.join(get_args(Acknowledge))}")
        number = self._wire.new_session()
        opening = native.frame(Kind.OPEN_SESSION, {"transacted": acknowledge == "transacted"}, session=number)
        await self._wire.ask(opening, Kind.OPENED, session=number)
        session = Session(self._wire, number, acknowledge)
        self._sessions.append(session)
        return session

    async def temporary_queue(self) -> str:
        """The name of a new queue that goes with this connection. Anybody can send to it, only this one receives."""
        return str((await self._wire.question("temporary"))["name"])

    async def unsubscribe(self, name: str) -> None:
        """Ends a durable subscription that nobody uses now."""
        await self._wire.question("unsubscribe", name=name)

    async def commit(self, xid: str) -> None:
        """The second phase of a transaction that some session prepared, maybe before a restart."""
        await self._wire.question("commit", xid=xid)

    async def rollback(self, xid: str) -> None:
        await self._wire.question("rollback", xid=xid)

    async def prepared(self) -> list[str]:
        """The transactions that wait for a decision."""
        return [one["xid"] for one in (await self._wire.question("prepared"))["prepared"]]

    async def status(self) -> dict[str, Any]:
        """The broker's counters."""
        return await self._wire.question("status")

    async def ask(self, asked: str, **said: Any) -> dict[str, Any]:
        """The questions of administrators: list, show, purge, move, delete."""
        answer = await self._wire.question(asked, **said)
        while (after := answer.pop("more", None)) is not None:
            # A list of many destinations comes in parts.
            following = await self._wire.question(asked, **{**said, "after": after})
            answer = {**following, "destinations": answer["destinations"] + following["destinations"]}
        return answer

    async def close(self) -> None:
        """What was sent before leaves first. Raises MessagingError if it cannot, since nobody takes it."""
        try:
            async with asyncio.timeout(LINGER_SECONDS):
                for session in self._sessions:
                    await session.flush()
        except TimeoutError:
            raise MessagingError("closed, but not all that was sent could leave: the producers are held back") from None
        except ClosedError:
            pass
        finally:
            await self.drop()

    async def drop(self) -> None:
        """Close at once, whatever has not left yet."""
        await self._wire.close()

    async def __aenter__(self) -> "Connection":
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.close()


class Session:
    """The scope of a transaction, and of the order in which things happen."""

    def __init__(self, wire: Wire, number: int, acknowledge: Acknowledge) -> None:
        self.acknowledge_mode = acknowledge
        self._wire = wire
        self._number = number
        self._producers: list[Producer] = []
        self._consumers: list[Consumer] = []
        self._repliers: dict[str, Producer] = {}

    @property
    def transacted(self) -> bool:
        return self.acknowledge_mode == "transacted"

    async def producer(
        self, destination: str, *, priority: int = 4, time_to_live: int = 0, delay: int = 0, ids: bool = True,
        timestamps: bool = True,
    ) -> Producer:  # fmt: skip
        """`queue:NAME` or `topic:NAME`. Times are ms; `ids` and `timestamps` can be left out to save bytes."""
        stamp = Stamp(Standing(priority, time_to_live, delay, ids, timestamps))
        link = self._wire.new_link()
        producer = Producer(self._wire, self._number, link, destination, stamp, transacted=self.transacted)
        await self._open(Kind.OPEN_PRODUCER, link, producer, {"destination": destination})
        self._producers.append(producer)
        return producer

    async def consumer(
        self, destination: str, *, prefetch: int = DEFAULT_PREFETCH, selector: str = "", durable: str = "",
        shared: str = "", no_local: bool = False, exclusive: bool = False,
    ) -> Consumer:  # fmt: skip
        """`queue:NAME` or `topic:NAME` (with `*` for one level, a final `#` for any).

        `prefetch` bounds the messages that wait in this process; 0: each is asked for when it is received.
        `durable` and `shared` name a subscription that lasts, or that several consumers share (or both: one name).
        """
        if not 0 <= prefetch <= MOST_PREFETCH:
            raise ValueError(f"prefetch: {prefetch} is not a number of messages from 0 to {MOST_PREFETCH}")
        link = self._wire.new_link()
        consumer = Consumer(self._wire, self._number, link, destination, prefetch, self.acknowledge_mode)
        wish = {
            "destination": destination, "selector": selector, "durable": durable, "shared": shared,
            "no_local": no_local, "exclusive": exclusive,
        }  # fmt: skip
        await self._open(Kind.OPEN_CONSUMER, link, consumer, wish, prefetch)
        self._consumers.append(consumer)
        return consumer

    async def browser(self, queue: str, *, selector: str = "") -> Browser:
        """Iterate over it to see what is on a queue."""
        link = self._wire.new_link()
        browser = Browser(self._wire, self._number, link, queue, DEFAULT_PREFETCH)
        wish = {"destination": queue, "selector": selector, "browse": True}
        await self._open(Kind.OPEN_CONSUMER, link, browser, wish, DEFAULT_PREFETCH)
        return browser

    async def requester(
        self, destination: str, *, reply_to: str = "", persistent: bool = False, ids: bool = True,
        timestamps: bool = True,
    ) -> Requester:  # fmt: skip
        """Sends requests and waits for their replies, on a queue that many share, or on a temporary one of its own."""
        if self.transacted:
            raise MessagingError("a request in a transaction leaves with the commit: nobody can wait for its reply")
        to = reply_to or str((await self._wire.question("temporary"))["name"])
        producer = await self.producer(destination, ids=ids, timestamps=timestamps)
        consumer = await self.consumer(to, prefetch=0)
        return Requester(self._wire, producer, consumer, persistent=persistent, shared=bool(reply_to))

    async def reply(
        self, request: Message, body: Buffer, *, persistent: bool = False, **headers: Unpack[Headers]
    ) -> None:
        """Answer a request where its sender waits for it."""
        to = request.reply_to
        if not to:
            raise ValueError("the message says nowhere to reply to")
        headers.setdefault("correlation_id", request.correlation_id or request.id)
        producer = self._repliers.pop(to, None)
        if producer is None:
            producer = await self.producer(to)
        self._repliers[to] = producer
        if persistent or not producer.sent_at_once(body, headers):
            await producer.send(body, persistent=persistent, **headers)
        if len(self._repliers) > _MOST_REPLIERS:
            await self.release(self._repliers.pop(next(iter(self._repliers))))

    async def release(self, producer: Producer) -> None:
        """Close one of its producers, and know it no more: for sessions that have many, one after the other."""
        self._producers.remove(producer)
        await producer.close()

    def acknowledge(self) -> None:
        """With `client`: all that this session has given to the application is done."""
        for consumer in self._open_consumers():
            consumer.acknowledge()

    async def recover(self) -> None:
        """All that was received and not acknowledged comes again."""
        if self.transacted:
            raise MessagingError("a transacted session has rollback for that")
        for consumer in self._open_consumers():
            await consumer.take_back()

    async def prepare(self, xid: str) -> None:
        """The first of two phases: the transaction now waits, whatever happens, for `Connection.commit` or rollback."""
        self._must_be_transacted()
        await self.flush()
        self.acknowledge()
        await self._wire.question("prepare", session=self._number, xid=xid)

    async def commit(self) -> None:
        """All sends become visible and all receipts final; durable, if anything in it is persistent."""
        self._must_be_transacted()
        await self.flush()
        self.acknowledge()
        await self._ask(Kind.COMMIT, Kind.COMMITTED)

    async def rollback(self) -> None:
        """Sends are forgotten, receipts come again."""
        self._must_be_transacted()
        with suppress(RefusedError):
            await self.flush()
        consumers = self._open_consumers()
        for consumer in consumers:
            consumer.acknowledge()
            consumer.drop()
        await self._ask(Kind.ROLLBACK, Kind.ROLLED_BACK)
        for producer in self._producers:
            producer.forget_refusal()
        for consumer in consumers:
            consumer.go_on()

    async def flush(self) -> None:
        """Everything sent so far is on its way."""
        for producer in self._producers:
            if not producer.closed:
                await producer.flush()

    async def close(self) -> None:
        """An open transaction is rolled back."""
        await self.flush()
        await self._ask(Kind.CLOSE, Kind.CLOSED)
        for producer in self._producers:
            producer.detach()
        for consumer in self._consumers:
            consumer.detach()

    def _must_be_transacted(self) -> None:
        if not self.transacted:
            raise MessagingError(f"only a transacted session has a transaction; this one is {self.acknowledge_mode}")

    def _open_consumers(self) -> list[Consumer]:
        return [consumer for consumer in self._consumers if not consumer.closed]

    async def _ask(self, kind: Kind, answer: Kind) -> None:
        await self._wire.ask(native.header(kind, session=self._number), answer, session=self._number)

    async def _open(
        self, kind: Kind, link: int, opened: Producer | Consumer, wish: dict[str, Any], prefetch: int = 0
    ) -> None:
        self._wire.attach(link, opened)
        said = {key: value for key, value in wish.items() if value}
        opening = native.frame(kind, said, session=self._number, link=link, amount=prefetch)
        try:
            await self._wire.ask(opening, Kind.OPENED, session=self._number, link=link)
        except BaseException:
            self._wire.detach(link)
            raise
