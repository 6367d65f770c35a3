"""The client library for asyncio.

    connection = await connect("tcp:127.0.0.1:7766")
    session = await connection.session()
    producer = await session.producer("queue:orders")
    await producer.send(b"one", persistent=True)
"""

import asyncio
from contextlib import suppress
from types import TracebackType
from typing import Any

from mqlab.client.connection import Wire
from mqlab.client.consuming import Consumer, Delivery
from mqlab.client.errors import ClosedError, MessagingError, RefusedError
from mqlab.client.producing import Producer
from mqlab.wire import native
from mqlab.wire.native import Kind

__all__ = ["Connection", "Consumer", "Delivery", "Producer", "Session", "connect"]

DEFAULT_PREFETCH = 1000
MOST_PREFETCH = 1_000_000
LINGER_SECONDS = 10.0


async def connect(address: str) -> "Connection":
    """`tcp:HOST:PORT` or `unix:PATH`. Raises OSError if nobody listens there."""
    return Connection(await Wire.open(address))


class Connection:
    def __init__(self, wire: Wire) -> None:
        self._wire = wire
        self._sessions: list[Session] = []

    async def session(self, *, transacted: bool = False) -> "Session":
        number = self._wire.new_session()
        opening = native.frame(Kind.OPEN_SESSION, {"transacted": transacted}, session=number)
        await self._wire.ask(opening, Kind.OPENED, session=number)
        session = Session(self._wire, number, transacted=transacted)
        self._sessions.append(session)
        return session

    async def status(self) -> dict[str, Any]:
        """The broker's counters."""
        answer = await self._wire.ask(native.header(Kind.STATUS), Kind.COUNTERS)
        return answer.json()

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

    def __init__(self, wire: Wire, number: int, *, transacted: bool) -> None:
        self.transacted = transacted
        self._wire = wire
        self._number = number
        self._producers: list[Producer] = []
        self._consumers: list[Consumer] = []

    async def producer(self, destination: str) -> Producer:
        """`queue:NAME` or `topic:NAME`."""
        link = self._wire.new_link()
        producer = Producer(self._wire, self._number, link, destination, transacted=self.transacted)
        await self._open(Kind.OPEN_PRODUCER, link, destination, producer)
        self._producers.append(producer)
        return producer

    async def consumer(self, destination: str, *, prefetch: int = DEFAULT_PREFETCH) -> Consumer:
        """`prefetch` bounds the messages that wait in this process."""
        if not 1 <= prefetch <= MOST_PREFETCH:
            raise ValueError(f"prefetch: {prefetch} is not a number of messages from 1 to {MOST_PREFETCH}")
        link = self._wire.new_link()
        consumer = Consumer(self._wire, link, destination, prefetch)
        await self._open(Kind.OPEN_CONSUMER, link, destination, consumer, prefetch)
        self._consumers.append(consumer)
        return consumer

    async def commit(self) -> None:
        """All sends become visible and all receipts final; durable, if anything in it is persistent."""
        await self.flush()
        for consumer in self._open_consumers():
            consumer.acknowledge()
        await self._ask(Kind.COMMIT, Kind.COMMITTED)

    async def rollback(self) -> None:
        """Sends are forgotten, receipts come again."""
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

    def _open_consumers(self) -> list[Consumer]:
        return [consumer for consumer in self._consumers if not consumer.closed]

    async def _ask(self, kind: Kind, answer: Kind) -> None:
        await self._wire.ask(native.header(kind, session=self._number), answer, session=self._number)

    async def _open(
        self, kind: Kind, link: int, destination: str, opened: Producer | Consumer, prefetch: int = 0
    ) -> None:
        self._wire.attach(link, opened)
        opening = native.frame(
            kind, {"destination": destination}, session=self._number, link=link, amount=prefetch
        )
        try:
            await self._wire.ask(opening, Kind.OPENED, session=self._number, link=link)
        except BaseException:
            self._wire.detach(link)
            raise
