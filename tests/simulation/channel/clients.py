"""Applications at both brokers: they use the client library, and connect again whenever they are cut off."""

from __future__ import annotations

import asyncio
import random

from mqlab.client import aio
from mqlab.client.errors import MessagingError, RefusedError
from simulation.books import Fault
from simulation.messages import Message, payload_of

from .books import Books, Hand, Line, Sent, Together
from .timeline import Timeline

# A broker learns that a connection is cut well before its application is back.
_AWAY_SECONDS = 0.02


class Application:
    """`address` of its broker."""

    def __init__(self, name: str, address: str, timeline: Timeline, books: Books) -> None:
        self.name = name
        self.stopping = False
        self.task: asyncio.Task[None] | None = None
        self._address = address
        self._timeline = timeline
        self._chance: random.Random = timeline.chance
        self._books = books

    async def run(self) -> None:
        while not self.stopping:
            try:
                connection = await aio.connect(self._address, application=self.name)
                try:
                    await self._connected(connection)
                finally:
                    await connection.drop()
            except RefusedError as error:
                # Clients that come back again and again send a little more each time than there is room for.
                if "no memory" not in str(error):
                    raise Fault(f"{self.name}: {error}") from error
                self._books.count("refused")
            except (MessagingError, OSError):
                self._books.count("lost connections")
            await asyncio.sleep(self._timeline.some(_AWAY_SECONDS, 0.5) + _AWAY_SECONDS)

    async def _connected(self, connection: aio.Connection) -> None:
        raise NotImplementedError


class Producer(Application):
    """Sends to one queue of the other broker: `name` here, `target` there."""

    def __init__(
        self, name: str, address: str, timeline: Timeline, books: Books, destination: str, target: str
    ) -> None:
        super().__init__(name, address, timeline, books)
        self._destination = destination
        self._target = target
        self._line = Line(name)
        self._transacted = self._chance.random() < 0.4
        self._persistent = self._chance.choice((1.0, 0.8, 0.5, 0.0))
        # Sent, and not confirmed yet.
        self._under_way: list[Sent] = []

    async def _connected(self, connection: aio.Connection) -> None:
        if self._under_way:
            # Some may come late, after what is sent from now on.
            self._under_way, self._line = [], Line(f"{self.name}, from {self._books.counts['sent'] + 1} on")
        session = await connection.session("transacted" if self._transacted else "auto")
        producer = await session.producer(self._destination)
        while not self.stopping:
            await asyncio.sleep(self._timeline.some(0.01, 1.0, 3.0))
            if self._transacted:
                await self._transaction(session, producer)
            else:
                await self._send(producer, confirm=True)

    async def _send(self, producer: aio.Producer, *, confirm: bool) -> None:
        """A few without a confirmation of their own; the last one's is theirs as well."""
        many = self._chance.choice((1, 1, 2, 9))
        for number in range(many):
            messages = self._messages()
            sent = self._books.sends(messages, self._line, self._target, transacted=self._transacted)
            self._under_way += sent
            last = confirm and number == many - 1
            await producer.send_batch(payload_of(messages), persistent=messages[0].persistent, confirm=last)
        if confirm:
            self._settle(self._under_way)

    async def _transaction(self, session: aio.Session, producer: aio.Producer) -> None:
        for _ in range(self._chance.randint(1, 3)):
            await self._send(producer, confirm=False)
        work = Together(self._under_way)
        if self._chance.random() < 0.15:
            for sent in work.members:
                sent.state = "never"
            await session.rollback()
            self._under_way = []
            return
        self._books.works.append(work)
        for sent in work.members:
            sent.state = "asked"
        await session.commit()
        self._books.count("commits")
        self._settle(work.members)

    def _settle(self, sent: list[Sent]) -> None:
        self._books.confirmed(sent)
        self._under_way = []

    def _messages(self) -> list[Message]:
        persistent = self._chance.random() < self._persistent
        rows = self._chance.choice((1, 1, 2, 5))
        # With headers a single message has another form.
        colour = self._chance.choice(("", "", "red"))
        return [
            Message(next(self._books.numbers), persistent, padding=self._chance.choice((0, 10, 60)), colour=colour)
            for _ in range(rows)
        ]


class Consumer(Application):
    """Takes from one queue; nobody else does."""

    def __init__(self, name: str, address: str, timeline: Timeline, books: Books, target: str) -> None:
        super().__init__(name, address, timeline, books)
        self._target = target
        self._prefetch = self._chance.choice((0, 3, 50))
        # Some are slow, so that their queue is full at times.
        self._pause = self._chance.choice((0.0, 0.01, 0.3))

    async def _connected(self, connection: aio.Connection) -> None:
        queue, _, broker = self._target.partition("@")
        life = self._books.lives[broker]
        session = await connection.session("transacted")
        consumer = await session.consumer(queue, prefetch=self._prefetch)
        hand = Hand(self._target, life)
        while not self.stopping:
            try:
                for _ in range(self._chance.randint(1, 4)):
                    self._books.came(hand, await consumer.receive_batch(0.5))
                    await asyncio.sleep(0.0 if self.stopping else self._timeline.some(self._pause))
            except TimeoutError:
                if not hand.held:
                    continue
            if self._chance.random() < 0.1:
                await session.rollback()
                hand = Hand(self._target, life)
                self._books.count("rollbacks")
            else:
                receipt = self._books.asks(hand)
                await session.commit()
                self._books.done(receipt)
