"""The checks of conformance: what each feature must do, as an exchange with a system that is up."""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from itertools import count
from typing import Final

import numpy as np

from mqlab.drivers import Connection, ReceivedBatch, Receiver, ReceiverOptions
from mqlab.drivers.api import Matrix
from mqlab.errors import MqlabError
from mqlab.runner.agents.bodies import BodyMaker, ranges
from mqlab.runner.unsupported import driver_of, lacks
from mqlab.systems import Running, System

# A message that should come comes within this; one that should not is waited for only shortly.
_PATIENCE: Final = 20.0
_SHORTLY: Final = 0.5


class NotConformingError(MqlabError):
    """What was seen is not what the interface promises."""


class SystemUnderTest:
    """One system that is up; every destination is new."""

    def __init__(self, system: System, running: Running) -> None:
        self.running = running
        # Where a check needs a destination of any kind.
        self.domain = "topic" if "queues" in lacks(system) else "queue"
        self._driver = driver_of(system)
        self.reports_accepted = self._driver.reports_accepted
        self._numbers = count(1)

    def name(self, domain: str) -> str:
        return f"{domain}:run-{time.time_ns()}-{domain}-{next(self._numbers)}"

    @asynccontextmanager
    async def connected(self, application: str = "Conformance") -> AsyncIterator[Connection]:
        connection = await self._driver(self.running.address, self.running.options).connect(application)
        try:
            yield connection
        finally:
            await connection.close()


@dataclass
class NumberedProducer:
    """Numbers what it sends; `size` of each body, filled with every value a byte can have."""

    size: int = 1024
    number: int = 7
    sent: int = 0

    async def send(
        self, connection: Connection, to: str, rows: int, *, wait: bool = False, persistent: bool = False
    ) -> None:
        sender = await connection.sender(to, persistent=persistent, transacted=False)
        await sender.send(self.bodies(rows), wait=wait)
        await sender.close()

    def bodies(self, rows: int) -> Matrix:
        first, self.sent = self.sent, self.sent + rows
        return BodyMaker(self.number, self.size, rows).make(first, rows)


async def _queues(trial: SystemUnderTest) -> None:
    for size, rows in ((12, 1), (12, 1000), (1024, 100), (100_000, 10)):
        async with trial.connected() as connection:
            name, producer = trial.name("queue"), NumberedProducer(size)
            receiver = await connection.receiver(name, ReceiverOptions(1000))
            await producer.send(connection, name, rows)
            await expect(receiver, [(producer.number, 0, rows, rows * size)])
            await nothing_more(receiver)
            await receiver.close()
    if trial.reports_accepted:
        await _taken(trial)


async def _taken(trial: SystemUnderTest) -> None:
    """What is sent freely is known to be taken before the sender is closed."""
    async with trial.connected() as connection:
        name, producer = trial.name("queue"), NumberedProducer()
        receiver = await connection.receiver(name, ReceiverOptions(1000))
        sender = await connection.sender(name, persistent=False, transacted=False)
        for all_but in (100, 150, 0, 0):
            await sender.send(producer.bodies(100), wait=False)
            await asyncio.wait_for(sender.wait_accepted(all_but), _PATIENCE)
        await expect(receiver, [(producer.number, 0, 400, 400 * producer.size)])
        await sender.close()
        await receiver.close()


async def _topics(trial: SystemUnderTest) -> None:
    async with trial.connected("First") as first, trial.connected("Second") as second:
        name, producer = trial.name("topic"), NumberedProducer()
        receivers = [await connection.receiver(name, ReceiverOptions(1000)) for connection in (first, second)]
        await producer.send(first, name, 200)
        for receiver in receivers:
            await expect(receiver, [(producer.number, 0, 200, 200 * producer.size)])
            await receiver.close()


async def _competing(trial: SystemUnderTest) -> None:
    async with trial.connected("First") as first, trial.connected("Second") as second:
        name, producer = trial.name("queue"), NumberedProducer()
        receivers = [await connection.receiver(name, ReceiverOptions(10)) for connection in (first, second)]
        await producer.send(first, name, 200)
        got = await _all_of(receivers, 200)
        if sorted(got) != list(range(200)):
            raise NotConformingError(f"of 200 messages two consumers got {len(got)}, {len(set(got))} different ones")
        for receiver in receivers:
            await receiver.close()


async def _confirmed(trial: SystemUnderTest) -> None:
    await _exchange(trial, persistent=False)


async def _persistent(trial: SystemUnderTest) -> None:
    await _exchange(trial, persistent=True)


async def _exchange(trial: SystemUnderTest, *, persistent: bool) -> None:
    async with trial.connected() as connection:
        name, producer = trial.name(trial.domain), NumberedProducer()
        receiver = await connection.receiver(name, ReceiverOptions(1000))
        sender = await connection.sender(name, persistent=persistent, transacted=False)
        await sender.send(producer.bodies(1), wait=True)
        await sender.send(producer.bodies(300), wait=True)
        await sender.close()
        await expect(receiver, [(producer.number, 0, 301, 301 * producer.size)])
        await nothing_more(receiver)
        await receiver.close()


async def _transactions(trial: SystemUnderTest) -> None:
    async with trial.connected("Sender") as first, trial.connected("Receiver") as second:
        name, producer = trial.name("queue"), NumberedProducer()
        receiver = await second.receiver(name, ReceiverOptions(100, "transacted"))
        sender = await first.sender(name, persistent=False, transacted=True)
        await sender.send(producer.bodies(10), wait=False)
        await nothing_more(receiver)
        await sender.commit()
        await expect(receiver, [(producer.number, 0, 10, 10 * producer.size)])
        await receiver.commit()
        await sender.close()
        await receiver.close()


async def _client_acknowledgement(trial: SystemUnderTest) -> None:
    """What was not acknowledged comes again, to another."""
    name, producer = trial.name("queue"), NumberedProducer()
    async with trial.connected("First") as first:
        receiver = await first.receiver(name, ReceiverOptions(100, "client"))
        await producer.send(first, name, 1)
        await expect(receiver, [(producer.number, 0, 1, producer.size)])
    async with trial.connected("Second") as second:
        receiver = await second.receiver(name, ReceiverOptions(100, "client"))
        await expect(receiver, [(producer.number, 0, 1, producer.size)])
        await receiver.close()


async def _lazy(trial: SystemUnderTest) -> None:
    async with trial.connected() as connection:
        name, producer = trial.name(trial.domain), NumberedProducer()
        receiver = await connection.receiver(name, ReceiverOptions(100, "dups_ok"))
        await producer.send(connection, name, 300)
        await expect(receiver, [(producer.number, 0, 300, 300 * producer.size)])
        await receiver.close()


async def _selectors(trial: SystemUnderTest) -> None:
    async with trial.connected() as connection:
        name, producer = trial.name("topic"), NumberedProducer()
        receiver = await connection.receiver(name, ReceiverOptions(100, selector="seq >= 6"))
        sender = await connection.sender(name, persistent=False, transacted=False)
        await sender.send(producer.bodies(10), wait=False, properties={"seq": np.arange(10, dtype=np.int64)})
        await sender.close()
        await expect(receiver, [(producer.number, 6, 4, 4 * producer.size)])
        await receiver.close()


async def _durable(trial: SystemUnderTest) -> None:
    name, producer, durable = trial.name("topic"), NumberedProducer(), f"conformance-{time.time_ns()}"
    how = ReceiverOptions(100, durable=durable)
    async with trial.connected("Subscriber") as connection:
        await connection.subscribe(name, how)
    async with trial.connected("Publisher") as connection:
        await producer.send(connection, name, 20, persistent=True, wait=True)
    async with trial.connected("Subscriber") as connection:
        receiver = await connection.receiver(name, how)
        await expect(receiver, [(producer.number, 0, 20, 20 * producer.size)])
        await receiver.close()
        await connection.unsubscribe(durable)


async def _request_reply(trial: SystemUnderTest) -> None:
    async with trial.connected("Requesters") as asking, trial.connected("Responder") as answering:
        await _answered(asking, answering, trial.name("queue"), trial.name("queue"))


async def _retrieval(trial: SystemUnderTest) -> None:
    async with trial.connected("Requesters") as asking, trial.connected("Responder") as answering:
        replies = trial.name("queue")
        await asking.preload(replies, BodyMaker(9, 64, 100).make(0, 100), persistent=False)
        await _answered(asking, answering, trial.name("queue"), replies)


async def _answered(asking: Connection, answering: Connection, requests: str, replies: str) -> None:
    """Three requesters at once; every reply must be that of its request."""
    responder = await answering.responder(requests, prefetch=10, persistent=False)

    async def answer() -> None:
        while True:
            arrival = await responder.receive()
            await responder.reply([b"re:" + body for body in arrival.bodies.tolist()], wait=False)

    async def ask(number: int) -> None:
        requester = await asking.requester(requests, replies, persistent=False)
        for seq in range(20):
            body = b"%d:%d" % (number, seq)
            reply = await asyncio.wait_for(requester.request(body, f"{number}-{seq}"), _PATIENCE)
            if reply.body != b"re:" + body:
                raise NotConformingError(f"the reply to {body!r} was {reply.body[:40]!r}")
        await requester.close()

    working = asyncio.ensure_future(answer())
    try:
        asked = [asyncio.ensure_future(ask(number)) for number in range(3)]
        done, _ = await asyncio.wait((working, asyncio.gather(*asked)), return_when=asyncio.FIRST_COMPLETED)
        for one in done:
            one.result()
    finally:
        working.cancel()
        await asyncio.gather(working, return_exceptions=True)
    await responder.close()


async def _depth(trial: SystemUnderTest) -> None:
    async with trial.connected() as connection:
        name = trial.name("queue")
        await NumberedProducer().send(connection, name, 25, wait=True)
        deadline = time.monotonic() + _PATIENCE
        while (depth := await trial.running.depth(name)) != 25 and time.monotonic() < deadline:
            await asyncio.sleep(0.05)
        if depth != 25:
            raise NotConformingError(f"the depth of a queue with 25 messages is {depth}")
    await trial.running.remove(name)


CHECKS: Final[Mapping[str, Callable[[SystemUnderTest], Awaitable[None]]]] = {
    "queues": _queues,
    "topics": _topics,
    "competing consumers": _competing,
    "persistent": _persistent,
    "confirmed": _confirmed,
    "transactions": _transactions,
    "client acknowledgement": _client_acknowledgement,
    "lazy acknowledgement": _lazy,
    "selectors": _selectors,
    "durable subscriptions": _durable,
    "request/reply": _request_reply,
    "retrieval by correlation id": _retrieval,
    "depth": _depth,
}


async def expect(receiver: Receiver, wanted: list[tuple[int, int, int, int]]) -> None:
    """Exactly these messages, in this order: (producer, first, count, bytes)."""
    rows = sum(one[2] for one in wanted)
    got: list[tuple[int, int, int, int]] = []
    while sum(one[2] for one in got) < rows:
        for found in ranges((await _next(receiver, rows, got)).bodies):
            producer, first, number, size = found
            last = got[-1] if got else None
            if last is not None and (last[0], last[1] + last[2]) == (producer, first):
                got[-1] = (producer, last[1], last[2] + number, last[3] + size)
            else:
                got.append(found)
    if got != wanted:
        raise NotConformingError(f"it should have received {wanted}, and got {got[:5]}")


async def nothing_more(receiver: Receiver) -> None:
    try:
        arrival = await asyncio.wait_for(receiver.receive(), _SHORTLY)
    except TimeoutError:
        return
    raise NotConformingError(f"{len(arrival.bodies)} messages came that should not")


async def _next(receiver: Receiver, rows: int, got: list[tuple[int, int, int, int]]) -> ReceivedBatch:
    try:
        return await asyncio.wait_for(receiver.receive(), _PATIENCE)
    except TimeoutError:
        raise NotConformingError(f"of {rows} messages only {sum(one[2] for one in got)} came") from None


async def _all_of(receivers: list[Receiver], rows: int) -> list[int]:
    """The numbers of the messages that came to any of them."""
    got: list[int] = []

    async def take(receiver: Receiver) -> None:
        while True:
            for _, first, number, _ in ranges((await receiver.receive()).bodies):
                got.extend(range(first, first + number))

    taking = [asyncio.ensure_future(take(receiver)) for receiver in receivers]
    deadline = time.monotonic() + _PATIENCE
    while len(got) < rows and time.monotonic() < deadline and not any(task.done() for task in taking):
        await asyncio.sleep(0.05)
    for task in taking:
        task.cancel()
    for result in await asyncio.gather(*taking, return_exceptions=True):
        if isinstance(result, Exception):
            raise result
    return got
