"""Producers and consumers that survive a killed broker: they connect again, and note which sends are in doubt."""

import asyncio
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

from ledger import BODY_SIZE, CONFIRMED, FORBIDDEN, SENT, UNKNOWN, Ledger, Numbers, bodies, read
from victim import Victim

from mqlab.client import aio
from mqlab.client.errors import MessagingError
from mqlab.wire.native.bodies import encode_equal


class Role:
    """Connects again after each kill, until `stopping` is set."""

    def __init__(self, victim: Victim, ledger: Ledger, seed: int) -> None:
        self._victim = victim
        self._ledger = ledger
        self._chance = random.Random(seed)
        self.stopping = False

    async def run(self) -> None:
        while not self.stopping:
            await self._victim.up.wait()
            try:
                async with self._connection() as connection:
                    await self._run_connected(connection)
            except (MessagingError, OSError):
                # The broker was killed, perhaps before `up` was cleared.
                await asyncio.sleep(0.002)

    @asynccontextmanager
    async def _connection(self) -> AsyncIterator[aio.Connection]:
        connection = self._current = await aio.connect(self._victim.address)
        try:
            yield connection
        finally:
            with suppress(MessagingError):
                await connection.close()

    async def prepare(self) -> None:
        """Before anything is sent."""

    async def _run_connected(self, connection: aio.Connection) -> None:
        raise NotImplementedError


class Producer(Role):
    """Sends batches and waits for each confirmation; `transaction` batches are committed together (0: none)."""

    def __init__(
        self, victim: Victim, ledger: Ledger, number: int, destination: str, ends: tuple[str, ...], transaction: int
    ) -> None:
        super().__init__(victim, ledger, number)
        self.number = number
        self._destination = destination
        # Where its messages must arrive in the end.
        self.ends = ends
        self._transaction = transaction
        self._next = 0

    async def _run_connected(self, connection: aio.Connection) -> None:
        session = await connection.session("transacted" if self._transaction > 0 else "auto")
        producer = await session.producer(self._destination)
        while not self.stopping:
            if self._transaction:
                await self._send_transaction(session, producer)
            else:
                await self._send(producer)

    async def _send(self, producer: aio.Producer) -> None:
        first, count = self._next_range()
        self._ledger.sent(self.number, first, count, SENT)
        try:
            payload = encode_equal(bodies(self.number, first, count), count)
            await producer.send_batch(payload, persistent=True, confirm=True)
        except MessagingError:
            self._ledger.sent(self.number, first, count, UNKNOWN)
            raise
        self._ledger.sent(self.number, first, count, CONFIRMED)

    async def _send_transaction(self, session: aio.Session, producer: aio.Producer) -> None:
        begin = self._next
        # Until the commit is requested, no consumer may ever receive any of it.
        try:
            for _ in range(self._transaction):
                first, count = self._next_range()
                self._ledger.sent(self.number, first, count, SENT)
                await producer.send_batch(encode_equal(bodies(self.number, first, count), count), persistent=True)
        except MessagingError:
            self._ledger.sent(self.number, begin, self._next - begin, FORBIDDEN)
            raise
        count = self._next - begin
        if self._chance.random() < 0.1:
            self._ledger.sent(self.number, begin, count, FORBIDDEN)
            await session.rollback()
            return
        try:
            await session.commit()
        except MessagingError:
            self._ledger.sent(self.number, begin, count, UNKNOWN)
            for end in self.ends:
                self._ledger.transaction_in_doubt(end, self.number, begin, count)
            raise
        self._ledger.sent(self.number, begin, count, CONFIRMED)

    def _next_range(self) -> tuple[int, int]:
        first, count = self._next, self._chance.choice((1, 5, 20, 60))
        self._next += count
        return first, count


class Consumer(Role):
    """Receives everything, with automatic acknowledgement or a commit after some deliveries."""

    def __init__(
        self, victim: Victim, ledger: Ledger, seed: int, source: str, *, transacted: bool, durable: str = ""
    ) -> None:
        super().__init__(victim, ledger, seed)
        self._source = source
        # The ledger knows what came by the name of the subscription, or of the queue.
        self._place = durable or source
        self._durable = durable
        self._transacted = transacted
        self._last: dict[int, int] = {}

    async def prepare(self) -> None:
        if self._durable:
            async with self._connection() as connection:
                session = await connection.session()
                await (await session.consumer(self._source, durable=self._durable)).close()

    async def _run_connected(self, connection: aio.Connection) -> None:
        session = await connection.session("transacted" if self._transacted else "auto")
        consumer = await session.consumer(
            self._source, prefetch=self._chance.choice((1, 10, 500)), durable=self._durable
        )
        self._last = {}
        while not self.stopping:
            taken = []
            for _ in range(self._chance.randint(1, 4) if self._transacted else 1):
                delivery = await self._receive(consumer)
                if delivery is None:
                    break
                taken.append(delivery)
            if self._transacted and taken:
                await self._end_transaction(session, taken)

    async def _receive(self, consumer: aio.Consumer) -> tuple[int, Numbers] | None:
        try:
            delivery = await consumer.receive_batch(timeout=0.2)
        except TimeoutError:
            return None
        table = delivery.bodies().table()
        assert table is not None
        assert table.shape[1] == BODY_SIZE
        producer, seqs = read(table)
        last = self._last.get(producer, -1)
        self._last[producer] = self._ledger.received(self._place, producer, seqs, delivery.redelivered, last)
        return producer, seqs

    async def _end_transaction(self, session: aio.Session, taken: list[tuple[int, Numbers]]) -> None:
        if self._chance.random() < 0.05:
            await session.rollback()
            self._last = {}
            return
        await session.commit()
        for producer, seqs in taken:
            self._ledger.committed(self._place, producer, seqs)


class TransactedForwarder(Consumer):
    """Receives from one queue and sends to another in one transaction: each message moves exactly once."""

    def __init__(self, victim: Victim, ledger: Ledger, seed: int, source: str, to: str) -> None:
        super().__init__(victim, ledger, seed, source, transacted=True)
        self._to = to

    async def _run_connected(self, connection: aio.Connection) -> None:
        session = await connection.session("transacted")
        consumer = await session.consumer(self._source, prefetch=200)
        producer = await session.producer(self._to)
        self._last = {}
        while not self.stopping:
            taken = await self._receive(consumer)
            if taken is not None:
                number, seqs = taken
                payload = encode_equal(bodies(number, int(seqs[0]), len(seqs)), len(seqs))
                await producer.send_batch(payload, persistent=True)
                await self._end_transaction(session, [taken])


class TwoPhaseForwarder(TransactedForwarder):
    """Forwards with two-phase commit; after each kill it asks for its prepared transactions and commits them."""

    def __init__(self, victim: Victim, ledger: Ledger, seed: int, source: str, to: str) -> None:
        super().__init__(victim, ledger, seed, source, to)
        self._number = 0

    async def _run_connected(self, connection: aio.Connection) -> None:
        # A transaction whose commit was not confirmed may be committed, so only those still prepared are committed now.
        for xid in await connection.prepared():
            await connection.commit(xid)
        await super()._run_connected(connection)

    async def _end_transaction(self, session: aio.Session, taken: list[tuple[int, Numbers]]) -> None:
        self._number += 1
        xid = f"{self._source}-{self._number}"
        await session.prepare(xid)
        if self._chance.random() < 0.05:
            await self._current.rollback(xid)
            # What was prefetched goes back too, behind what was rolled back: order is kept.
            await session.rollback()
            self._last = {}
            return
        await self._current.commit(xid)
        for producer, seqs in taken:
            self._ledger.committed(self._place, producer, seqs)
