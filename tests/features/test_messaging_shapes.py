"""Who talks to whom: pairs, fan-out, competition, request and reply. Through the real client and a real broker."""

import asyncio
from collections import Counter
from pathlib import Path

import pytest

from broker.server.raw_client import client, in_loop, local
from mqlab.broker.server.startup import running
from mqlab.client import aio
from mqlab.wire.native.bodies import encode

from .message_helpers import assert_no_messages, numbers, receive


async def serve(session: aio.Session, requests: aio.Consumer, count: int) -> None:
    for _ in range(count):
        request = await requests.receive(timeout=240)
        await session.reply(request, b"re " + request.body)


@in_loop
async def test_request_reply_requester_waits_for_its_reply() -> None:
    async with running(local()) as (_, (address,)):
        connection, other = await client(address), await client(address)
        answering = await other.session()
        requests = await answering.consumer("queue:prices")
        one, two = [await (await connection.session()).requester("queue:prices") for _ in range(2)]
        gold, iron = asyncio.ensure_future(one.request(b"gold")), asyncio.ensure_future(two.request(b"iron"))
        asked = {(message := await requests.receive(timeout=240)).body: message for _ in range(2)}
        await answering.reply(asked[b"iron"], b"1")
        assert (await iron).body == b"1"
        # Its own reply has not come, whatever came for others.
        await connection.status()
        assert not gold.done()
        await answering.reply(asked[b"gold"], b"60")
        reply = await gold
        assert (reply.body, reply.correlation_id) == (b"60", asked[b"gold"].correlation_id)


@in_loop
async def test_continuous_send_no_reply() -> None:
    async with running(local()) as (_, (address,)):
        connection = await client(address)
        session = await connection.session()
        producer = await session.producer("queue:q")
        for body in numbers(0, 1000):
            # Ends without having waited for anybody: no turn of the loop, so no word from the broker.
            with pytest.raises(StopIteration):
                producer.send(body).send(None)
        consumer = await session.consumer("queue:q")
        assert await receive(consumer, 1000) == numbers(0, 1000)


@in_loop
async def test_point_to_point_queue() -> None:
    async with running(local()) as (_, (address,)):
        connection = await client(address)
        session = await connection.session()
        producer = await session.producer("queue:q")
        await producer.send_batch(encode(numbers(0, 10)), confirm=True)
        # It waits for a consumer, however late, and each message is for one of them.
        one, two = await session.consumer("queue:q", prefetch=5), await session.consumer("queue:q")
        assert await receive(one, 5) == numbers(0, 5)
        assert await receive(two, 5) == numbers(5, 10)
        await assert_no_messages(connection, one, two)


@in_loop
async def test_publish_subscribe_topic() -> None:
    async with running(local()) as (_, (address,)):
        connection = await client(address)
        session = await connection.session()
        producer = await session.producer("topic:news.sport")
        await producer.send_batch(encode([b"nobody subscribed yet"]), confirm=True)
        names = ("topic:news.sport", "topic:news.*", "topic:#", "topic:news.art")
        *interested, other = [await session.consumer(name) for name in names]
        await producer.send_batch(encode(numbers(0, 3)), confirm=True)
        late = await session.consumer("topic:news.sport")
        for consumer in interested:
            assert await receive(consumer, 3) == numbers(0, 3)
        await assert_no_messages(connection, *interested, other, late)
        # A topic keeps nothing for itself.
        assert (await connection.status())["messages"] == 0


@pytest.mark.parametrize("kind", ["queue", "topic"])
@in_loop
async def test_one_pair_per_destination_many_pairs(kind: str) -> None:
    async with running(local()) as (_, (address,)):
        connections = [await client(address) for _ in range(4)]

        async def pair(number: int) -> list[bytes]:
            session = await connections[number % 4].session()
            consumer = await session.consumer(f"{kind}:pair.{number}")
            producer = await (await connections[-number % 4].session()).producer(f"{kind}:pair.{number}")
            for n in range(50):
                await producer.send(b"%d of %d" % (n, number))
            return await receive(consumer, 50)

        came = await asyncio.gather(*map(pair, range(40)))
        assert came == [[b"%d of %d" % (n, number) for n in range(50)] for number in range(40)]
        assert (await connections[0].status())["messages"] <= 40  # the last of each, not acknowledged yet


@in_loop
async def test_fan_out_one_publisher_to_many_subscribers() -> None:
    async with running(local()) as (_, (address,)):
        connections = [await client(address) for _ in range(15)]
        consumers = [await (await connection.session()).consumer("topic:t") for connection in connections]
        producer = await (await (await client(address)).session()).producer("topic:t")
        for body in numbers(0, 200):
            await producer.send(body)
        for consumer in consumers:
            assert await receive(consumer, 200) == numbers(0, 200)


@in_loop
async def test_many_publishers_and_many_subscribers_on_one_topic() -> None:
    async with running(local()) as (_, (address,)):
        connections = [await client(address) for _ in range(4)]
        consumers = [await (await connection.session()).consumer("topic:t") for connection in connections]

        async def publish(number: int) -> None:
            producer = await (await connections[number].session()).producer("topic:t")
            for n in range(100):
                await producer.send(b"%d %d" % (number, n))
                await asyncio.sleep(0)

        await asyncio.gather(*map(publish, range(4)))
        seen = [await receive(consumer, 400) for consumer in consumers]
        for number in range(4):
            own = [body for body in seen[0] if body.startswith(b"%d " % number)]
            assert own == [b"%d %d" % (number, n) for n in range(100)]
        # All see the same things happen in the same order.
        assert all(one == seen[0] for one in seen)


@in_loop
async def test_competing_consumers_on_one_queue() -> None:
    async with running(local()) as (_, (address,)):
        connections = [await client(address) for _ in range(4)]
        # The last one has room for two and never asks for more: it holds nobody up.
        consumers = [await (await one.session()).consumer("queue:q", prefetch=10) for one in connections[:3]]
        await (await connections[3].session()).consumer("queue:q", prefetch=2)
        producer = await (await connections[0].session()).producer("queue:q")
        for body in numbers(0, 600):
            await producer.send(body)
        came: Counter[bytes] = Counter()
        shares = [0, 0, 0]

        async def take(number: int) -> None:
            async for message in consumers[number]:
                came[message.body] += 1
                shares[number] += 1
                if came.total() == 598:
                    break

        takers = [asyncio.ensure_future(take(number)) for number in range(3)]
        await asyncio.wait(takers, return_when=asyncio.FIRST_COMPLETED)
        for taker in takers:
            taker.cancel()
        assert len(came) == 598
        assert set(came.values()) == {1}
        # Equal ones get about equal shares.
        assert min(shares) >= 150


@in_loop
async def test_many_senders_to_one_receiver() -> None:
    async with running(local()) as (_, (address,)):
        consumer = await (await (await client(address)).session()).consumer("queue:q")

        async def send(number: int) -> None:
            producer = await (await (await client(address)).session()).producer("queue:q")
            for n in range(100):
                await producer.send(b"%d %d" % (number, n))

        await asyncio.gather(*map(send, range(20)))
        came = await receive(consumer, 2000)
        for number in range(20):
            own = [body for body in came if body.startswith(b"%d " % number)]
            assert own == [b"%d %d" % (number, n) for n in range(100)]


@in_loop
async def test_one_queue_pair_shared_by_all_clients() -> None:
    async with running(local()) as (_, (address,)):
        connection = await client(address)
        answering = await connection.session()
        requests = await answering.consumer("queue:requests", prefetch=10)

        async def ask(number: int) -> list[bytes]:
            session = await (await client(address)).session()
            requester = await session.requester("queue:requests", reply_to="queue:replies")
            return [(await requester.request(b"%d/%d" % (number, n), timeout=240)).body for n in range(20)]

        server = asyncio.ensure_future(serve(answering, requests, 6 * 20))
        replies = await asyncio.gather(*map(ask, range(6)))
        await server
        assert replies == [[b"re %d/%d" % (number, n) for n in range(20)] for number in range(6)]
        assert {one["name"] for one in (await connection.ask("list"))["destinations"]} == {
            "queue:requests", "queue:replies",
        }  # fmt: skip


@in_loop
async def test_many_queues_or_queue_managers(tmp_path: Path) -> None:
    """Two brokers side by side, with many queues each, have nothing to do with one another."""
    async with running(local(data=tmp_path / "a")) as (_, (a,)), running(local(data=tmp_path / "b")) as (_, (b,)):
        brokers = [await client(a), await client(b)]
        for connection, word in zip(brokers, (b"a", b"b"), strict=True):
            session = await connection.session()
            producers = [await session.producer(f"queue:{number}") for number in range(100)]
            await asyncio.gather(
                *(producer.send(word + b"%d" % n, persistent=True) for n, producer in enumerate(producers))
            )
        for connection, word in zip(brokers, (b"a", b"b"), strict=True):
            assert ((status := await connection.status())["queues"], status["messages"]) == (100, 100)
            session = await connection.session()
            for number in (0, 42, 99):
                assert await receive(await session.consumer(f"queue:{number}"), 1) == [word + b"%d" % number]


@pytest.mark.parametrize("persistent", [False, True])
@in_loop
async def test_send_with_no_receiver_receive_from_a_filled_queue_with_no_sender(
    tmp_path: Path, persistent: bool
) -> None:
    async with running(local(data=tmp_path)) as (broker, (address,)):
        sender = await aio.connect(str(address))
        producer = await (await sender.session()).producer("queue:q")
        for n in range(0, 10_000, 500):
            await producer.send_batch(encode(numbers(n, n + 500)), persistent=persistent, confirm=persistent)
        await sender.close()
        while broker.connections:
            await asyncio.sleep(0)
        connection = await client(address)
        about = await connection.ask("show", name="queue:q")
        assert (about["messages"], about["producers"], about["consumers"]) == (10_000, 0, 0)
        consumer = await (await connection.session()).consumer("queue:q")
        assert await receive(consumer, 10_000) == numbers(0, 10_000)
