"""The asyncio API, against a real broker in the same loop."""

import asyncio
from itertools import islice
from pathlib import Path

import pytest

from broker.server.raw_client import client, in_loop, local, seen
from mqlab.client import aio
from mqlab.client.errors import RefusedError
from mqlab.client.headers import Headers
from mqlab.wire.native.bodies import encode

from .broker_helpers import running

pytestmark = pytest.mark.usefixtures("each_way")


def numbers(begin: int, end: int) -> list[bytes]:
    return [b"%d" % n for n in range(begin, end)]


async def receive(consumer: aio.Consumer, count: int) -> list[bytes]:
    return [(await consumer.receive(timeout=240)).body for _ in range(count)]


@in_loop
async def test_queue_and_topic() -> None:
    async with running(local()) as (_, (address,)):
        session = await (await client(address)).session()
        for destination in ("queue:q", "topic:t"):
            consumer, producer = await session.consumer(destination), await session.producer(destination)
            for body in numbers(0, 10):
                await producer.send(body)
            assert await receive(consumer, 10) == numbers(0, 10)


@in_loop
async def test_sends_that_are_ready_together_leave_together() -> None:
    async with running(local()) as (_, (address,)):
        session = await (await client(address)).session()
        consumer, producer = await session.consumer("queue:q", prefetch=100_000), await session.producer("queue:q")
        for body in numbers(0, 20_000):
            await producer.send(body)
        came: list[bytes] = []
        frames = 0
        while len(came) < 20_000:
            came += (await consumer.receive_batch(timeout=240)).bodies().tolist()
            frames += 1
        assert came == numbers(0, 20_000)
        assert frames <= 20


@pytest.mark.parametrize("headers", [{}, {"priority": 5}])
@in_loop
async def test_who_sends_in_a_loop_lets_others_have_their_turns(headers: Headers) -> None:
    turns = 0

    async def count() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    async with running(local()) as (_, (address,)):
        producer = await (await (await client(address)).session()).producer("topic:nobody")
        counting = asyncio.ensure_future(count())
        for _ in range(1000):
            if headers:
                await producer.send(b"x", **headers)
            else:
                await producer.send_batch(encode([b"x"]))
        counting.cancel()
    assert turns >= 5


@in_loop
async def test_a_single_message_leaves_with_the_next_turn_of_the_loop() -> None:
    async with running(local()) as (_, (address,)):
        session = await (await client(address)).session()
        consumer, producer = await session.consumer("queue:q"), await session.producer("queue:q")
        await producer.send(b"alone")
        assert (await consumer.receive(timeout=240)).body == b"alone"


@in_loop
async def test_order_is_kept_between_batches_and_single_messages(tmp_path: Path) -> None:
    async with running(local(data=tmp_path)) as (_, (address,)):
        session = await (await client(address)).session()
        consumer, producer = await session.consumer("queue:q"), await session.producer("queue:q")
        for n in range(0, 100, 5):
            await producer.send(b"%d" % n)
            await producer.send_batch(encode(numbers(n + 1, n + 3)))
            await producer.send(b"%d" % (n + 3), persistent=n % 2 == 0)
            await producer.send(b"%d" % (n + 4))
        assert await receive(consumer, 100) == numbers(0, 100)


@in_loop
async def test_many_confirmations_may_be_awaited_at_once(tmp_path: Path) -> None:
    async with running(local(data=tmp_path)) as (_, (address,)):
        connection = await client(address)
        session = await connection.session()
        producer, consumer = await session.producer("queue:q"), await session.consumer("queue:q")
        await asyncio.gather(*(producer.send(body, persistent=True) for body in numbers(0, 200)))
        assert await receive(consumer, 200) == numbers(0, 200)
        assert (await connection.status())["syncs"] < 100


@in_loop
async def test_answers_find_those_who_asked() -> None:
    async with running(local()) as (_, (address,)):
        connection = await client(address)
        told = await asyncio.gather(*(connection.status() for _ in range(10)))
        assert [one["connections"] for one in told] == [1] * 10
        sessions = await asyncio.gather(*(connection.session() for _ in range(10)))
        producers = await asyncio.gather(*(session.producer("queue:q") for session in sessions))
        assert len(producers) == 10


@in_loop
async def test_a_transaction_moves_messages_from_queue_to_queue(tmp_path: Path) -> None:
    async with running(local(data=tmp_path)) as (_, (address,)):
        connection = await client(address)
        filler = await (await connection.session()).producer("queue:in")
        for body in numbers(0, 20):
            await filler.send(body, persistent=True)
        session = await connection.session("transacted")
        consumer, producer = await session.consumer("queue:in"), await session.producer("queue:out")
        for n in range(20):
            message = await consumer.receive(timeout=240)
            await producer.send(message.body, persistent=True)
            if n == 10:
                await session.rollback()
                break
            await session.commit()
        for _ in range(10):
            message = await consumer.receive(timeout=240)
            await producer.send(message.body, persistent=True)
            await session.commit()
        out = await (await connection.session()).consumer("queue:out")
        assert await receive(out, 20) == numbers(0, 20)


@in_loop
async def test_a_rollback_in_the_midst_of_deliveries_loses_nothing() -> None:
    """Deliveries that were on their way when it was asked for come again, once each, in order."""
    async with running(local()) as (_, (address,)):
        connection = await client(address)
        producer = await (await connection.session()).producer("queue:q")
        session = await connection.session("transacted")
        consumer = await session.consumer("queue:q", prefetch=7)
        for body in numbers(0, 50):
            await producer.send(body)
        done: list[bytes] = []
        turn = 0
        while len(done) < 50:
            turn += 1
            taken = await receive(consumer, min(1 + turn % 3, 50 - len(done)))
            if turn % 4 == 0:
                await session.rollback()
            else:
                await session.commit()
                done += taken
        assert done == numbers(0, 50)


@in_loop
async def test_automatic_acknowledgement_comes_with_the_next_receive() -> None:
    """What is in the application's hands at a crash comes again, marked."""
    async with running(local()) as (_, (address,)):
        connection = await client(address)
        session = await connection.session()
        producer, consumer = await session.producer("queue:q"), await session.consumer("queue:q", prefetch=1)
        for body in numbers(0, 3):
            await producer.send(body)
        assert await receive(consumer, 2) == numbers(0, 2)
        assert (await connection.status())["messages"] == 2
        other = await client(address)
        await connection.close()
        consumer = await (await other.session()).consumer("queue:q")
        assert [seen(await consumer.receive(timeout=240)) for _ in range(2)] == [(b"1", True), (b"2", False)]


@in_loop
async def test_bodies_alone_are_received_and_acknowledged_as_messages_are() -> None:
    async with running(local()) as (_, (address,)):
        connection = await client(address)
        session = await connection.session()
        consumer, producer = await session.consumer("queue:q", prefetch=20), await session.producer("queue:q")
        await producer.send_batch(encode(numbers(0, 90)), confirm=True)
        bodies = consumer.bodies()
        came = [await anext(bodies) for _ in range(33)]
        came += await receive(consumer, 20)
        async for body in bodies:
            came.append(body)
            if len(came) == 80:
                break
        assert came == numbers(0, 80)
        await consumer.close()
        assert (await connection.status())["messages"] == 10


@in_loop
async def test_bodies_that_have_arrived_are_received_without_waiting() -> None:
    async with running(local()) as (_, (address,)):
        connection = await client(address)
        session = await connection.session()
        consumer, producer = await session.consumer("queue:q", prefetch=20), await session.producer("queue:q")
        assert [*consumer.ready_bodies()] == []
        await producer.send_batch(encode(numbers(0, 30)), confirm=True)
        came = [(await consumer.receive(timeout=240)).body, *islice(consumer.ready_bodies(), 5)]
        assert came == numbers(0, 6)
        came += consumer.ready_bodies()
        assert came == numbers(0, len(came))
        assert 6 < len(came) <= 20
        await consumer.close()
        assert (await connection.status())["messages"] == 30 - len(came)


@in_loop
async def test_an_unconfirmed_send_that_is_refused_is_told_to_whoever_uses_the_producer_next() -> None:
    async with running(local()) as (_, (address,)):
        connection = await client(address)
        producer = await (await connection.session()).producer("queue:q")
        await producer.send_batch(encode([b"1"]), persistent=True)
        await connection.status()  # the refusal is here by now
        with pytest.raises(RefusedError):
            await producer.send(b"2")
        await producer.send(b"3")
        await producer.close()
        assert (await connection.status())["messages"] == 1


@pytest.mark.parametrize("headers", [{}, {"correlation_id": "c"}])
@in_loop
async def test_sends_that_leave_together_are_dealt_to_the_consumers_one_by_one(headers: Headers) -> None:
    async with running(local()) as (_, (address,)):
        session = await (await client(address)).session()
        consumers = [await session.consumer("queue:q") for _ in range(4)]
        producer = await (await (await client(address)).session()).producer("queue:q")
        for number in range(8):
            await producer.send(b"%d" % number, **headers)
        for at, consumer in enumerate(consumers):
            assert [(await consumer.receive(timeout=240)).body for _ in range(2)] == [b"%d" % at, b"%d" % (at + 4)]
