"""The conformance checks: what each feature must do, as an exchange with a running system."""

import asyncio
import itertools
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from typing import Final

import numpy as np

from mqlab.drivers import DriverConnection, ReceivedBatch, Receiver, ReceiverOptions, RequestBatch
from mqlab.drivers.api import Matrix, MessageHeaders, Properties
from mqlab.errors import MqlabError
from mqlab.runner.agents.bodies import BodyMaker, message_ranges
from mqlab.runner.capability import driver_class, unsupported_features
from mqlab.systems import Running, System

# A message that is expected must come within the first time; one that is not must not come within the second.
_TIMEOUT_SECONDS: Final = 20.0
_QUIET_SECONDS: Final = 0.5

# (producer, first sequence number, count, bytes)
Range = tuple[int, int, int, int]


class NotConformingError(MqlabError):
    """A system or driver does not do what the interface promises."""


class SystemUnderTest:
    """A running system. Every destination that it names is new."""

    def __init__(self, system: System, running: Running) -> None:
        self.running = running
        # For checks that work with any kind of destination.
        self.domain = "topic" if "queues" in unsupported_features(system) else "queue"
        self._driver = driver_class(system)
        self.reports_accepted = self._driver.reports_accepted
        self._numbers = itertools.count(1)

    def new_destination(self, domain: str) -> str:
        return f"{domain}:run-{time.time_ns()}-{domain}-{next(self._numbers)}"

    @asynccontextmanager
    async def connected(self, application: str = "Conformance") -> AsyncIterator[DriverConnection]:
        connection = await self._driver(self.running.address, self.running.options).connect(application)
        try:
            yield connection
        finally:
            await connection.close()


@dataclass
class NumberedProducer:
    """Sends messages with consecutive sequence numbers and bodies of `size` bytes."""

    size: int = 1024
    number: int = 7
    sent: int = 0

    async def send(
        self, connection: DriverConnection, to: str, rows: int, *, wait: bool = False, persistent: bool = False
    ) -> None:
        sender = await connection.sender(to, persistent=persistent, transacted=False)
        await sender.send(self.bodies(rows), wait=wait)
        await sender.close()

    def bodies(self, rows: int) -> Matrix:
        first, self.sent = self.sent, self.sent + rows
        return BodyMaker(self.number, self.size, rows).make(first, rows)


async def _queues(tested: SystemUnderTest) -> None:
    for size, rows in ((12, 1), (12, 1000), (1024, 100), (100_000, 10)):
        async with tested.connected() as connection:
            name, producer = tested.new_destination("queue"), NumberedProducer(size)
            receiver = await connection.receiver(name, ReceiverOptions(1000))
            await producer.send(connection, name, rows)
            await expect(receiver, [(producer.number, 0, rows, rows * size)])
            await expect_none(receiver)
            await receiver.close()
    if tested.reports_accepted:
        await _acceptance(tested)


async def _acceptance(tested: SystemUnderTest) -> None:
    """The driver knows which unconfirmed messages the system has accepted, before the sender is closed."""
    async with tested.connected() as connection:
        name, producer = tested.new_destination("queue"), NumberedProducer()
        receiver = await connection.receiver(name, ReceiverOptions(1000))
        sender = await connection.sender(name, persistent=False, transacted=False)
        for all_but in (100, 150, 0, 0):
            await sender.send(producer.bodies(100), wait=False)
            await asyncio.wait_for(sender.wait_accepted(all_but), _TIMEOUT_SECONDS)
        await expect(receiver, [(producer.number, 0, 400, 400 * producer.size)])
        await sender.close()
        await receiver.close()


async def _topics(tested: SystemUnderTest) -> None:
    async with tested.connected("First") as first, tested.connected("Second") as second:
        name, producer = tested.new_destination("topic"), NumberedProducer()
        receivers = [await connection.receiver(name, ReceiverOptions(1000)) for connection in (first, second)]
        await producer.send(first, name, 200)
        for receiver in receivers:
            await expect(receiver, [(producer.number, 0, 200, 200 * producer.size)])
            await receiver.close()


async def _competing(tested: SystemUnderTest) -> None:
    async with tested.connected("First") as first, tested.connected("Second") as second:
        name, producer = tested.new_destination("queue"), NumberedProducer()
        receivers = [await connection.receiver(name, ReceiverOptions(10)) for connection in (first, second)]
        await producer.send(first, name, 200)
        received = await _receive_all(receivers, 200)
        if sorted(received) != list(range(200)):
            raise NotConformingError(
                f"of 200 messages two consumers got {len(received)}, {len(set(received))} different ones"
            )
        for receiver in receivers:
            await receiver.close()


async def _exchange(tested: SystemUnderTest, *, persistent: bool) -> None:
    async with tested.connected() as connection:
        name, producer = tested.new_destination(tested.domain), NumberedProducer()
        receiver = await connection.receiver(name, ReceiverOptions(1000))
        sender = await connection.sender(name, persistent=persistent, transacted=False)
        await sender.send(producer.bodies(1), wait=True)
        await sender.send(producer.bodies(300), wait=True)
        await sender.close()
        await expect(receiver, [(producer.number, 0, 301, 301 * producer.size)])
        await expect_none(receiver)
        await receiver.close()


async def _transactions(tested: SystemUnderTest) -> None:
    async with tested.connected("Sender") as first, tested.connected("Receiver") as second:
        name, producer = tested.new_destination("queue"), NumberedProducer()
        receiver = await second.receiver(name, ReceiverOptions(100, "transacted"))
        sender = await first.sender(name, persistent=False, transacted=True)
        await sender.send(producer.bodies(10), wait=False)
        await expect_none(receiver)
        await sender.commit()
        await expect(receiver, [(producer.number, 0, 10, 10 * producer.size)])
        await receiver.commit()
        await sender.close()
        await receiver.close()


async def _client_acknowledgement(tested: SystemUnderTest) -> None:
    """The system delivers an unacknowledged message again, to another consumer."""
    name, producer = tested.new_destination("queue"), NumberedProducer()
    async with tested.connected("First") as first:
        receiver = await first.receiver(name, ReceiverOptions(100, "client"))
        await producer.send(first, name, 1)
        await expect(receiver, [(producer.number, 0, 1, producer.size)])
    async with tested.connected("Second") as second:
        receiver = await second.receiver(name, ReceiverOptions(100, "client"))
        await expect(receiver, [(producer.number, 0, 1, producer.size)])
        await receiver.close()


async def _lazy_acknowledgement(tested: SystemUnderTest) -> None:
    async with tested.connected() as connection:
        name, producer = tested.new_destination(tested.domain), NumberedProducer()
        receiver = await connection.receiver(name, ReceiverOptions(100, "dups_ok"))
        await producer.send(connection, name, 300)
        await expect(receiver, [(producer.number, 0, 300, 300 * producer.size)])
        await receiver.close()


async def _properties(tested: SystemUnderTest) -> None:
    """Messages with properties arrive, and none is lost or changed."""
    numbers, texts = np.arange(10, dtype=np.int32), np.array(["red", "a: b", "grün"] * 3 + ["é"])
    await _exchange_with(tested, properties={"number": numbers, "colour": texts})


async def _exchange_with(
    tested: SystemUnderTest, *, properties: Properties | None = None, headers: MessageHeaders | None = None
) -> None:
    async with tested.connected() as connection:
        for persistent, wait in ((False, False), (True, True)):
            name, producer = tested.new_destination(tested.domain), NumberedProducer()
            receiver = await connection.receiver(name, ReceiverOptions(100))
            sender = await connection.sender(name, persistent=persistent, transacted=False)
            await sender.send(producer.bodies(10), wait=wait, properties=properties, headers=headers)
            await sender.close()
            received = sorted(await _receive_all([receiver], 10))
            if received != list(range(10)):
                raise NotConformingError(f"of 10 messages it received those with the numbers {received}")
            await expect_none(receiver)
            await receiver.close()


async def _selectors(tested: SystemUnderTest) -> None:
    async with tested.connected() as connection:
        name, producer = tested.new_destination("topic"), NumberedProducer()
        receiver = await connection.receiver(name, ReceiverOptions(100, selector="seq >= 6"))
        sender = await connection.sender(name, persistent=False, transacted=False)
        await sender.send(producer.bodies(10), wait=False, properties={"seq": np.arange(10, dtype=np.int64)})
        await sender.close()
        await expect(receiver, [(producer.number, 6, 4, 4 * producer.size)])
        await receiver.close()
    async with tested.connected() as connection:
        name, producer = tested.new_destination("topic"), NumberedProducer()
        receiver = await connection.receiver(name, ReceiverOptions(100, selector="colour = 'red'"))
        sender = await connection.sender(name, persistent=False, transacted=False)
        await sender.send(producer.bodies(2), wait=False, properties={"colour": np.array(["blue", "red"])})
        await sender.close()
        await expect(receiver, [(producer.number, 1, 1, producer.size)])
        await receiver.close()


async def _durable(tested: SystemUnderTest) -> None:
    name, producer, durable = tested.new_destination("topic"), NumberedProducer(), f"conformance-{time.time_ns()}"
    how = ReceiverOptions(100, durable=durable)
    async with tested.connected("Subscriber") as connection:
        await connection.subscribe(name, how)
    async with tested.connected("Publisher") as connection:
        await producer.send(connection, name, 20, persistent=True, wait=True)
    async with tested.connected("Subscriber") as connection:
        receiver = await connection.receiver(name, how)
        await expect(receiver, [(producer.number, 0, 20, 20 * producer.size)])
        await receiver.close()
        await connection.unsubscribe(durable)


async def _request_reply(tested: SystemUnderTest) -> None:
    async with tested.connected("Requesters") as requesting, tested.connected("Responder") as responding:
        await _check_replies(requesting, responding, tested.new_destination("queue"), tested.new_destination("queue"))


async def _retrieval(tested: SystemUnderTest) -> None:
    async with tested.connected("Requesters") as requesting, tested.connected("Responder") as responding:
        replies = tested.new_destination("queue")
        await requesting.preload(replies, BodyMaker(9, 64, 100).make(0, 100), persistent=False)
        await _check_replies(requesting, responding, tested.new_destination("queue"), replies)


async def _check_replies(
    requesting: DriverConnection, responding: DriverConnection, requests: str, replies: str
) -> None:
    """Three concurrent requesters: each request must get its own reply."""
    responder = await responding.responder(requests, prefetch=10, persistent=False)
    answers = _Answers()

    async def request(number: int) -> None:
        requester = await requesting.requester(requests, replies, persistent=False)
        for seq in range(20):
            body = b"%d:%d" % (number, seq)
            reply = await asyncio.wait_for(requester.request(body, f"{number}-{seq}"), _TIMEOUT_SECONDS)
            if reply.body != b"re:" + body:
                raise NotConformingError(f"the reply to {body!r} was {reply.body[:40]!r}")
        await requester.close()

    responder.start(answers)
    try:
        requested = asyncio.gather(*(request(number) for number in range(3)))
        done, _ = await asyncio.wait((answers.failed, requested), return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            task.result()
    finally:
        await responder.stop()
    await responder.close()


class _Answers:
    """Replies to each request by its body."""

    def __init__(self) -> None:
        self.failed: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def on_requests(self, requests: RequestBatch) -> list[bytes]:
        return [b"re:" + body for body in requests.bodies]

    def on_confirmed(self) -> None:
        """These replies are not persistent."""

    def on_failure(self, error: Exception) -> None:
        self.failed.set_exception(error)


async def _depth(tested: SystemUnderTest) -> None:
    async with tested.connected() as connection:
        name = tested.new_destination("queue")
        await NumberedProducer().send(connection, name, 25, wait=True)
        deadline = time.monotonic() + _TIMEOUT_SECONDS
        while (depth := await tested.running.depth(name)) != 25 and time.monotonic() < deadline:
            await asyncio.sleep(0.05)
        if depth != 25:
            raise NotConformingError(f"the depth of a queue with 25 messages is {depth}")
    await tested.running.remove(name)


CHECKS: Final[Mapping[str, Callable[[SystemUnderTest], Awaitable[None]]]] = {
    "queues": _queues,
    "topics": _topics,
    "competing consumers": _competing,
    "persistent": partial(_exchange, persistent=True),
    "confirmed": partial(_exchange, persistent=False),
    "transactions": _transactions,
    "client acknowledgement": _client_acknowledgement,
    "lazy acknowledgement": _lazy_acknowledgement,
    "properties": _properties,
    "priority": partial(_exchange_with, headers=MessageHeaders(priority=np.arange(10, dtype=np.int32))),
    "expiry": partial(_exchange_with, headers=MessageHeaders(expires_s=3600.0)),
    "keys": partial(_exchange_with, headers=MessageHeaders(key=np.array(["a", "b"] * 5))),
    "selectors": _selectors,
    "durable subscriptions": _durable,
    "request/reply": _request_reply,
    "retrieval by correlation id": _retrieval,
    "depth": _depth,
}


async def expect(receiver: Receiver, expected: list[Range]) -> None:
    """Receive exactly these messages in this order, or raise NotConformingError."""
    messages = sum(count for _, _, count, _ in expected)
    received: list[Range] = []
    while sum(count for _, _, count, _ in received) < messages:
        for arrived in message_ranges((await _next(receiver, messages, received)).bodies):
            producer, first_seq, count, size_bytes = arrived
            last = received[-1] if received else None
            if last is not None and (last[0], last[1] + last[2]) == (producer, first_seq):
                received[-1] = (producer, last[1], last[2] + count, last[3] + size_bytes)
            else:
                received.append(arrived)
    if received != expected:
        raise NotConformingError(f"it should have received {expected}, and got {received[:5]}")


async def expect_none(receiver: Receiver) -> None:
    try:
        arrival = await asyncio.wait_for(receiver.receive(), _QUIET_SECONDS)
    except TimeoutError:
        return
    raise NotConformingError(f"{len(arrival.bodies)} messages came that should not")


async def _next(receiver: Receiver, messages: int, received: list[Range]) -> ReceivedBatch:
    try:
        return await asyncio.wait_for(receiver.receive(), _TIMEOUT_SECONDS)
    except TimeoutError:
        raise NotConformingError(
            f"of {messages} messages only {sum(count for _, _, count, _ in received)} came"
        ) from None


async def _receive_all(receivers: list[Receiver], messages: int) -> list[int]:
    """The sequence numbers of the messages that the receivers got."""
    received: list[int] = []

    async def collect(receiver: Receiver) -> None:
        while True:
            for _, first_seq, count, _ in message_ranges((await receiver.receive()).bodies):
                received.extend(range(first_seq, first_seq + count))

    tasks = [asyncio.ensure_future(collect(receiver)) for receiver in receivers]
    deadline = time.monotonic() + _TIMEOUT_SECONDS
    while len(received) < messages and time.monotonic() < deadline and not any(task.done() for task in tasks):
        await asyncio.sleep(0.05)
    for task in tasks:
        task.cancel()
    for result in await asyncio.gather(*tasks, return_exceptions=True):
        if isinstance(result, Exception):
            raise result
    return received
