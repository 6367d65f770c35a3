"""The asyncio API, against a real broker in the same loop."""

import asyncio
from pathlib import Path

import pytest
from broker.server.talking import client, in_loop, local

from mqlab.broker.server.listen import running
from mqlab.client import aio
from mqlab.client.errors import ClosedError, RefusedError
from mqlab.wire.bodies import encode


def numbers(begin: int, end: int) -> list[bytes]:
    return [b"%d" % n for n in range(begin, end)]


async def receive(consumer: aio.Consumer, count: int) -> list[bytes]:
    return [(await consumer.receive(timeout=5)).body for _ in range(count)]


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
            came += (await consumer.receive_batch(timeout=5)).bodies().tolist()
            frames += 1
        assert came == numbers(0, 20_000)
        assert frames <= 20


@in_loop
async def test_a_lone_message_leaves_with_the_next_turn_of_the_loop() -> None:
    async with running(local()) as (_, (address,)):
        session = await (await client(address)).session()
        consumer, producer = await session.consumer("queue:q"), await session.producer("queue:q")
        await producer.send(b"alone")
        assert (await consumer.receive(timeout=5)).body == b"alone"


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
async def test_closing_a_producer_waits_for_its_confirmations(tmp_path: Path) -> None:
    async with running(local(data=tmp_path, disk_marks=100)) as (_, (address,)):
        session = await (await client(address)).session()
        producer = await session.producer("queue:q")
        sends = [asyncio.ensure_future(producer.send(body, persistent=True)) for body in numbers(0, 5)]
        await asyncio.sleep(0)
        await producer.close()
        await asyncio.gather(*sends)
        with pytest.raises(ClosedError):
            await producer.send(b"late")


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
async def test_whoever_asked_may_have_gone() -> None:
    """A cancelled question, refused or answered, disturbs nothing."""
    async with running(local()) as (_, (address,)):
        connection = await client(address)
        session = await connection.session()
        for question in (session.producer("bad name"), session.producer("queue:q"), connection.status()):
            asking = asyncio.ensure_future(question)
            await asyncio.sleep(0)
            asking.cancel()
        for _ in range(3):
            assert (await asyncio.wait_for(connection.status(), 5))["connections"] == 1
        await (await session.producer("queue:q")).send(b"1")
        assert await receive(await session.consumer("queue:q"), 1) == [b"1"]


@in_loop
async def test_a_cancelled_receive_loses_nothing() -> None:
    async with running(local()) as (_, (address,)):
        session = await (await client(address)).session()
        producer, consumer = await session.producer("queue:q"), await session.consumer("queue:q")
        came: list[bytes] = []
        for body in numbers(0, 100):
            waiting = asyncio.ensure_future(consumer.receive())
            await asyncio.sleep(0)
            await producer.send(body)
            for _ in range(int(body) % 5):
                await asyncio.sleep(0)
            if not waiting.cancel():
                came.append((await waiting).body)
            else:
                await asyncio.wait([waiting])
                if not waiting.cancelled():
                    came.append(waiting.result().body)
            while len(came) <= int(body):
                came.append((await consumer.receive(timeout=5)).body)
        assert came == numbers(0, 100)


@in_loop
async def test_a_lost_connection_wakes_sends_and_receives(tmp_path: Path) -> None:
    async with running(local(data=tmp_path, disk_marks=10)) as (broker, (address,)):
        connection = await client(address)
        session = await connection.session()
        producer, consumer = await session.producer("queue:q"), await session.consumer("queue:other")
        waiting = [
            asyncio.ensure_future(producer.send(b"x", persistent=True)),
            asyncio.ensure_future(consumer.receive()),
            asyncio.ensure_future(connection.session()),
        ]
        await asyncio.sleep(0)
        for one in [*broker.connections]:
            one.drop()
        results = await asyncio.gather(*waiting, return_exceptions=True)
        assert [type(result) for result in results] == [ClosedError] * 3
        for action in (producer.send(b"x"), producer.close(), consumer.receive()):
            with pytest.raises(ClosedError):
                await action


@in_loop
async def test_a_held_producer_hears_of_a_lost_connection() -> None:
    async with running(local(queue_limit=100, producer_window=100)) as (broker, (address,)):
        session = await (await client(address)).session()
        producer = await session.producer("queue:q")
        await producer.send_batch(encode([b"x" * 200]))
        waiting = asyncio.ensure_future(producer.send_batch(encode([b"x" * 200])))
        await asyncio.sleep(0.01)
        assert not waiting.done()
        for one in [*broker.connections]:
            one.drop()
        with pytest.raises(ClosedError):
            await waiting


@in_loop
async def test_closing_a_session_ends_what_waits_in_it() -> None:
    async with running(local()) as (_, (address,)):
        session = await (await client(address)).session()
        consumer = await session.consumer("queue:q")
        waiting = asyncio.ensure_future(consumer.receive())
        await asyncio.sleep(0)
        await session.close()
        with pytest.raises(ClosedError):
            await waiting
        assert [message async for message in consumer] == []


@in_loop
async def test_a_session_lets_its_sends_leave_before_it_closes() -> None:
    async with running(local()) as (_, (address,)):
        connection = await client(address)
        session = await connection.session()
        producer = await session.producer("queue:q")
        for body in numbers(0, 10):
            await producer.send(body)
        await session.close()
        assert (await connection.status())["messages"] == 10


@in_loop
async def test_a_connection_lets_its_sends_leave_before_it_closes() -> None:
    async with running(local()) as (broker, (address,)):
        async with await aio.connect(str(address)) as connection:
            producer = await (await connection.session()).producer("queue:q")
            for body in numbers(0, 10):
                await producer.send(body)
        while broker.connections:
            await asyncio.sleep(0.001)
        assert broker.core.queues["q"].messages == 10


@in_loop
async def test_a_transaction_moves_messages_from_queue_to_queue(tmp_path: Path) -> None:
    async with running(local(data=tmp_path)) as (_, (address,)):
        connection = await client(address)
        filler = await (await connection.session()).producer("queue:in")
        for body in numbers(0, 20):
            await filler.send(body, persistent=True)
        session = await connection.session(transacted=True)
        consumer, producer = await session.consumer("queue:in"), await session.producer("queue:out")
        for n in range(20):
            message = await consumer.receive(timeout=5)
            await producer.send(message.body, persistent=True)
            if n == 10:
                await session.rollback()
                break
            await session.commit()
        for _ in range(10):
            message = await consumer.receive(timeout=5)
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
        session = await connection.session(transacted=True)
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
        assert [await consumer.receive(timeout=5) for _ in range(2)] == [(b"1", True), (b"2", False)]


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


@in_loop
async def test_a_client_survives_nonsense_from_a_broker() -> None:
    """It ends with one clear error, not with a hang."""

    async def nonsense(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 400 Bad Request\r\nserver: something else\r\n\r\n")
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(nonsense, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    with pytest.raises(ClosedError):
        await asyncio.wait_for(aio.connect(f"tcp:127.0.0.1:{port}"), 5)
    server.close()
    await server.wait_closed()
