"""How a consumer gets what it wants: by id, by selector, as a listener, ahead of its application."""

import asyncio
import threading
from collections.abc import Iterator

import pytest

from broker.server.raw_client import client, in_loop, local
from client.broker_helpers import serving
from mqlab.broker.core.dispatch import correlation_index
from mqlab.broker.core.model.messages import Span
from mqlab.broker.server.startup import running
from mqlab.client import Message, aio, connect
from mqlab.client.errors import RefusedError
from mqlab.client.headers import Int
from mqlab.wire.native.bodies import encode
from mqlab.wire.native.columns import Value

from .message_helpers import assert_no_messages, numbers, receive


async def preload(session: aio.Session, count: int) -> None:
    """Replies that nobody will retrieve."""
    producer = await session.producer("queue:replies")
    for n in range(count):
        await producer.send(b"old %d" % n, correlation_id=f"old-{n}")
    await producer.close()


async def echo(session: aio.Session, count: int) -> None:
    requests = await session.consumer("queue:requests")
    for _ in range(count):
        request = await requests.receive(timeout=240)
        await session.reply(request, request.body)
    await requests.close()


@in_loop
async def test_preloaded_queue_unretrieved_messages() -> None:
    async with running(local()) as (_, (address,)):
        connection = await client(address)
        session = await connection.session()
        await preload(session, 1000)
        server = asyncio.ensure_future(echo(await connection.session(), 20))
        requester = await session.requester("queue:requests", reply_to="queue:replies")
        for body in numbers(0, 20):
            assert (await requester.request(body, timeout=240)).body == body
        await server
        await requester.close()
        # They lie there as before, in their order.
        browser = await session.browser("queue:replies")
        assert [message.body async for message in browser] == [b"old %d" % n for n in range(1000)]


@in_loop
async def test_retrieval_by_correlation_id_against_queue_scan(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same messages are found; with an index each is looked at once, with a scan all of them each time."""
    looks = 0
    real = correlation_index.keys

    def counting(span: Span, field: correlation_index.Field) -> Iterator[tuple[int, Value]]:
        nonlocal looks
        looks += span.rows
        return real(span, field)

    monkeypatch.setattr(correlation_index, "keys", counting)
    found: dict[str, int] = {}
    for setting in ("indexed", "scan"):
        async with running(local(retrieval=setting)) as (_, (address,)):
            connection = await client(address)
            session = await connection.session()
            await preload(session, 300)
            producer = await session.producer("queue:replies")
            consumer = await session.consumer("queue:replies", prefetch=0)
            looks = 0
            for n in range(10):
                await producer.send(b"new %d" % n, correlation_id=f"new-{n}")
                got = await consumer.receive(timeout=240, correlation_id=f"new-{n}")
                assert (got.body, got.correlation_id) == (b"new %d" % n, f"new-{n}")
            assert (await consumer.receive(timeout=240, correlation_id="old-150")).body == b"old 150"
            found[setting] = looks
            await consumer.close()
            assert (await connection.status())["messages"] == 299
    # 300 for building the index, one for each that came later, against 300 for every receive.
    assert found["indexed"] <= 300 + 10
    assert found["scan"] >= 300 * 10


@in_loop
async def test_message_selectors() -> None:
    async with running(local()) as (_, (address,)):
        connection = await client(address)
        session = await connection.session()
        consumer = await session.consumer("queue:q", selector="colour = 'red' AND size BETWEEN 2 AND 3")
        subscriber = await session.consumer("topic:t", selector="JMSPriority > 5 OR colour IS NULL")
        queue, topic = await session.producer("queue:q"), await session.producer("topic:t")
        for n, colour in enumerate(("red", "blue") * 3):
            for producer in (queue, topic):
                await producer.send(b"%d" % n, properties={"colour": colour, "size": Int(n)}, priority=n + 2)
        await topic.send(b"plain", correlation_id="x")
        assert await receive(consumer, 1) == [b"2"]
        assert await receive(subscriber, 3) == [b"4", b"5", b"plain"]
        await assert_no_messages(connection, consumer, subscriber)
        # On a queue the others stay for others; a subscription never had them.
        everything = await session.consumer("queue:q")
        assert sorted(await receive(everything, 5)) == [b"0", b"1", b"3", b"4", b"5"]
        with pytest.raises(RefusedError, match="selector"):
            await session.consumer("queue:q", selector="colour = ")


def test_asynchronous_receive_listener() -> None:
    """Nobody asks: the listener is called for each message, one at a time, in order."""
    with serving(local()) as served, connect(served.address) as connection, connect(served.address) as other:
        came: list[tuple[bytes, str]] = []
        all_came = threading.Event()

        def listener(message: Message) -> None:
            came.append((message.body, threading.current_thread().name))
            if len(came) == 500:
                all_came.set()

        consumer = connection.session().consumer("queue:q")
        consumer.listen(listener)
        producer = other.session().producer("queue:q")
        for body in numbers(0, 500):
            producer.send(body)
        assert all_came.wait(240)
        assert [body for body, _ in came] == numbers(0, 500)
        assert {name for _, name in came} == {"mqlab-listener"}
        consumer.close()
        # What the listener returned from is done.
        assert other.status()["messages"] == 0


@pytest.mark.parametrize(("prefetch", "ahead"), [(0, 0), (1, 1), (50, 50), (1000, 200)])
@in_loop
async def test_queue_prefetch(prefetch: int, ahead: int) -> None:
    """So many messages leave the queue before the application asks for one; the rest can go to others."""
    async with running(local()) as (_, (address,)):
        connection = await client(address)
        session = await connection.session()
        await (await session.producer("queue:q")).send_batch(encode(numbers(0, 200)), confirm=True)
        consumer = await session.consumer("queue:q", prefetch=prefetch)
        about = await connection.ask("show", name="queue:q")
        assert about["counters"]["delivered"] == ahead
        other = await (await (await client(address)).session()).consumer("queue:q", prefetch=1000)
        assert await receive(other, 200 - ahead) == numbers(ahead, 200)
        if ahead:
            assert await receive(consumer, ahead) == numbers(0, ahead)
        await assert_no_messages(connection, consumer)
