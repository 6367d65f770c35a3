"""Well-behaved clients beside the attackers: their messages must arrive once; they record how long they waited."""

import asyncio
import time
from collections import Counter

from mqlab.client import aio

from .target import PATIENCE_SECONDS, Target

# Seconds between two requests, or sends, of one client: they are to feel what others do, not to use up the machine.
PAUSE = 0.004


class GoodClients:
    def __init__(self, target: Target, pause: float = PAUSE) -> None:
        self._target = target
        self._pause = pause
        self._stopped = self._all_sent = False
        # Seconds of each request, and of each confirmation.
        self.requests: list[float] = []
        # Processor time of the broker in each request: what it did for others before, as well.
        self.work: list[float] = []
        self.confirmations: list[float] = []
        self.sent = 0
        self.received: Counter[int] = Counter()

    async def run(self, seconds: float) -> None:
        """Raises what a client of this broker should never see."""
        ready = asyncio.Event()
        answering = asyncio.ensure_future(self._answer(ready))
        receiving = asyncio.ensure_future(self._receive())
        await asyncio.wait_for(ready.wait(), PATIENCE_SECONDS)
        asking = [self._ask(number) for number in range(2)]
        try:
            async with asyncio.TaskGroup() as group:
                for one in (*asking, self._send(), self._stop(seconds)):
                    group.create_task(one)
            async with asyncio.timeout(PATIENCE_SECONDS):
                await receiving
        finally:
            for task in (answering, receiving):
                task.cancel()
            await asyncio.gather(answering, receiving, return_exceptions=True)

    @property
    def lost(self) -> int:
        return self.sent - len(self.received)

    @property
    def duplicated(self) -> int:
        return sum(self.received.values()) - len(self.received)

    async def _stop(self, seconds: float) -> None:
        await asyncio.sleep(seconds)
        self._stopped = True

    async def _connect(self, client_id: str = "") -> aio.Connection:
        return await aio.connect(self._target.address, client_id=client_id, application="good", **self._target.login)

    async def _answer(self, ready: asyncio.Event) -> None:
        async with await self._connect() as connection:
            session = await connection.session()
            consumer = await session.consumer("queue:good.requests")
            ready.set()
            while True:
                request = await consumer.receive()
                await session.reply(request, request.body)

    async def _ask(self, number: int) -> None:
        async with await self._connect() as connection:
            session = await connection.session()
            requester = await session.requester("queue:good.requests")
            asked = 0
            while not self._stopped:
                asked += 1
                body = b"%d %d" % (number, asked)
                began, used = time.perf_counter(), self._target.cpu_seconds()
                reply = await requester.request(body, PATIENCE_SECONDS)
                self.requests.append(time.perf_counter() - began)
                self.work.append(self._target.cpu_seconds() - used)
                assert reply.body == body
                await asyncio.sleep(self._pause)

    async def _send(self) -> None:
        async with await self._connect() as connection:
            session = await connection.session()
            producer = await session.producer("queue:good.kept")
            while not self._stopped:
                began = time.perf_counter()
                await producer.send(b"%d" % self.sent, persistent=True)
                self.confirmations.append(time.perf_counter() - began)
                self.sent += 1
                await asyncio.sleep(self._pause)
        self._all_sent = True

    async def _receive(self) -> None:
        """Until everything that was sent has come."""
        async with await self._connect("good" if self._target.users else "") as connection:
            session = await connection.session()
            consumer = await session.consumer("queue:good.kept")
            while not self._all_sent or self.lost > 0:
                try:
                    message = await consumer.receive(0.2)
                except TimeoutError:
                    continue
                self.received[int(message.body)] += 1
            await session.close()
