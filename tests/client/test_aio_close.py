"""Closing, cancelling and lost connections in the asyncio API."""

import asyncio
from pathlib import Path

import pytest

from broker.server.raw_client import client, in_loop, local
from mqlab.client import aio
from mqlab.client.errors import ClosedError
from mqlab.wire.native.bodies import encode

from .broker_helpers import running

pytestmark = pytest.mark.usefixtures("each_way")


def numbers(begin: int, end: int) -> list[bytes]:
    return [b"%d" % n for n in range(begin, end)]


async def receive(consumer: aio.Consumer, count: int) -> list[bytes]:
    return [(await consumer.receive(timeout=240)).body for _ in range(count)]


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
            assert (await asyncio.wait_for(connection.status(), 240))["connections"] == 1
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
                came.append((await consumer.receive(timeout=240)).body)
        assert came == numbers(0, 100)


@in_loop
async def test_a_lost_connection_wakes_sends_and_receives(tmp_path: Path) -> None:
    async with running(local(data=tmp_path, disk_marks=10)) as (broker, (address,)):
        connection = await client(address)
        session = await connection.session()
        producer, consumer = await session.producer("queue:q"), await session.consumer("queue:other")
        transacted = await connection.session("transacted")
        await (await transacted.producer("queue:q")).send(b"y", persistent=True)
        waiting = [
            asyncio.ensure_future(producer.send(b"x", persistent=True)),
            asyncio.ensure_future(consumer.receive()),
            asyncio.ensure_future(transacted.commit()),
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
        assert broker.core.destinations.queues["q"].messages == 10


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
        await asyncio.wait_for(aio.connect(f"tcp:127.0.0.1:{port}"), 240)
    server.close()
    await server.wait_closed()
