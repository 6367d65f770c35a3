"""What is promised of a message: persistence, acknowledgement, transactions, once-only delivery."""

import asyncio
from pathlib import Path

import pytest

from broker.server.raw_client import client, in_loop, local, seen
from mqlab.broker.server.startup import running
from mqlab.client import aio
from mqlab.client.consumer import Acknowledge
from mqlab.client.errors import RefusedError
from mqlab.wire.address import Address
from mqlab.wire.native.bodies import encode

from .message_helpers import assert_no_messages, numbers, receive


async def messages_on(connection: aio.Connection, queue: str) -> int:
    found = await connection.ask("show", name=queue)
    return int(found["messages"])


@in_loop
async def test_express_non_persistent_reliable_delivery(tmp_path: Path) -> None:
    async with running(local(data=tmp_path)) as (_, (address,)):
        connection = await client(address)
        session = await connection.session()
        producer = await session.producer("queue:q")
        before = await connection.status()
        for body in numbers(0, 50):
            await producer.send(body)
        # Reliable: a lost connection of a consumer loses nothing. Express: the disk knows nothing of it.
        lost = await aio.connect(str(address))
        assert await receive(await (await lost.session("client")).consumer("queue:q"), 20) == numbers(0, 20)
        await lost.drop()
        consumer = await session.consumer("queue:q")
        came = [await consumer.receive(timeout=240) for _ in range(30)]
        assert [message.body for message in came] == numbers(0, 30)
        assert not any(message.persistent for message in came)
        after = await connection.status()
        assert (after["syncs"], after["journal_bytes"]) == (before["syncs"], before["journal_bytes"])
    async with running(local(data=tmp_path)) as (_, (address,)):
        assert (await (await client(address)).status())["messages"] == 0


@in_loop
async def test_persistent_recoverable_guaranteed_delivery(tmp_path: Path) -> None:
    async with running(local(data=tmp_path)) as (_, (address,)):
        connection = await client(address)
        producer = await (await connection.session()).producer("queue:q")
        for n in range(10):
            before = await connection.status()
            await producer.send(b"%d" % n, persistent=n % 2 == 0)
            after = await connection.status()
            # When the send of a persistent one returns, the disk has it.
            assert after["syncs"] - before["syncs"] == (1 if n % 2 == 0 else 0)
    async with running(local(data=tmp_path)) as (_, (address,)):
        connection = await client(address)
        consumer = await (await connection.session()).consumer("queue:q")
        came = [await consumer.receive(timeout=240) for _ in range(5)]
        assert [(seen(message), message.persistent) for message in came] == [
            ((b"%d" % n, True), True) for n in range(0, 10, 2)
        ]
        await assert_no_messages(connection, consumer)
    async with running(local()) as (_, (address,)):
        producer = await (await (await client(address)).session()).producer("queue:q")
        with pytest.raises(RefusedError, match="without a data folder"):
            await producer.send(b"x", persistent=True)


@in_loop
async def test_durable_subscription(tmp_path: Path) -> None:
    async def subscribed(connection: aio.Connection) -> tuple[aio.Consumer, aio.Consumer]:
        session = await connection.session()
        return await session.consumer("topic:t", durable="mine"), await session.consumer("topic:t")

    async with running(local(data=tmp_path)) as (_, (address,)):
        connection = await client(address)
        producer = await (await connection.session()).producer("topic:t")
        lasting, passing = await subscribed(connection)
        await producer.send(b"0", persistent=True)
        for consumer in (lasting, passing):
            assert await receive(consumer, 1) == [b"0"]
            await consumer.close()
        await producer.send(b"1", persistent=True)
        lasting, passing = await subscribed(connection)
        assert await receive(lasting, 1) == [b"1"]
        await assert_no_messages(connection, passing)
        await lasting.close()
        await producer.send(b"2", persistent=True)
        await producer.send(b"3")
    async with running(local(data=tmp_path)) as (_, (address,)):
        connection = await client(address)
        producer = await (await connection.session()).producer("topic:t")
        await producer.send(b"4", persistent=True)
        lasting, passing = await subscribed(connection)
        assert await receive(lasting, 2) == [b"2", b"4"]
        await assert_no_messages(connection, lasting, passing)
        await lasting.close()
        await connection.unsubscribe("mine")
        await producer.send(b"5", persistent=True)
        await assert_no_messages(connection, *(await subscribed(connection)))


async def died_in_a_batch(address: Address, mode: Acknowledge) -> tuple[int, list[tuple[bytes, bool]]]:
    """Five of ten messages that came together are received. What is left then, and what comes to others after."""
    watching = await client(address)
    await (await (await watching.session()).producer("queue:q")).send_batch(encode(numbers(0, 10)), confirm=True)
    lost = await aio.connect(str(address))
    await receive(await (await lost.session(mode)).consumer("queue:q"), 5)
    await lost.status()
    left = await messages_on(watching, "queue:q")
    await lost.drop()
    consumer = await (await watching.session()).consumer("queue:q")
    came = [seen(await consumer.receive(timeout=240)) for _ in range(left)]
    await assert_no_messages(watching, consumer)
    return left, came


@in_loop
async def test_automatic_acknowledgement() -> None:
    """What was received is done when the next one is asked for: only the last one is in doubt."""
    async with running(local()) as (_, (address,)):
        left, came = await died_in_a_batch(address, "auto")
        assert left == 6
        assert came == [(body, True) for body in numbers(4, 10)]


@in_loop
async def test_dups_ok_acknowledgement() -> None:
    """The broker is told lazily, a delivery at a time: fewer words, and more that comes again."""
    async with running(local()) as (_, (address,)):
        left, came = await died_in_a_batch(address, "dups_ok")
        assert left == 10
        assert came == [(body, True) for body in numbers(0, 10)]
        # The next delivery is asked for: now it knows.
        connection = await client(address)
        session = await connection.session("dups_ok")
        producer, consumer = await session.producer("queue:other"), await session.consumer("queue:other")
        await producer.send_batch(encode(numbers(0, 10)), confirm=True)
        await receive(consumer, 10)
        assert await messages_on(connection, "queue:other") == 10
        with pytest.raises(TimeoutError):
            await consumer.receive(timeout=0)
        assert await messages_on(connection, "queue:other") == 0


@in_loop
async def test_client_acknowledgement() -> None:
    async with running(local()) as (_, (address,)):
        connection = await client(address)
        session = await connection.session("client")
        one, two = await session.consumer("queue:one"), await session.consumer("queue:two")
        for name in ("queue:one", "queue:two"):
            await (await session.producer(name)).send_batch(encode(numbers(0, 5)), confirm=True)
        await receive(one, 3)
        await receive(two, 2)
        assert (await connection.status())["messages"] == 10
        # One word for all that the session has received, from whichever consumer.
        session.acknowledge()
        assert (await connection.status())["messages"] == 5
        await receive(one, 1)
        await one.close()
        await two.close()
        again = [await (await connection.session()).consumer(name) for name in ("queue:one", "queue:two")]
        assert [seen(await again[0].receive(timeout=240)) for _ in range(2)] == [(b"3", True), (b"4", False)]
        assert [seen(await again[1].receive(timeout=240)) for _ in range(3)] == [
            (body, False) for body in numbers(2, 5)
        ]


@pytest.mark.parametrize("size", [1, 10, 100])
@in_loop
async def test_transacted_session_messages_per_transaction(tmp_path: Path, size: int) -> None:
    """Each transaction is one record and waits for the disk once, however much it moves, and between which queues."""
    count = 200
    async with running(local(data=tmp_path)) as (_, (address,)):
        connection = await client(address)
        filler = await (await connection.session()).producer("queue:in")
        await filler.send_batch(encode(numbers(0, count)), persistent=True, confirm=True)
        session = await connection.session("transacted")
        consumer = await session.consumer("queue:in")
        outs = [await session.producer("queue:even"), await session.producer("queue:odd")]
        before = await connection.status()
        for begin in range(0, count, size):
            for n in range(begin, begin + size):
                await outs[n % 2].send((await consumer.receive(timeout=240)).body, persistent=True)
            # The ones in the transaction are neither gone from one queue nor visible on the other.
            assert await messages_on(connection, "queue:in") == count - begin
            sums = [await messages_on(connection, name) for name in ("queue:even", "queue:odd")]
            assert sum(sums) == begin
            await session.commit()
        syncs = (await connection.status())["syncs"] - before["syncs"]
        assert syncs == count // size
        even, odd = [await (await connection.session()).consumer(name) for name in ("queue:even", "queue:odd")]
        assert await receive(even, count // 2) == [b"%d" % n for n in range(0, count, 2)]
        assert await receive(odd, count // 2) == [b"%d" % n for n in range(1, count, 2)]


@in_loop
async def test_global_transactions(tmp_path: Path) -> None:
    """A message goes from one broker to another in two phases, and both brokers stop in between."""
    settings = [local(data=tmp_path / name) for name in "ab"]
    async with running(settings[0]) as (_, (a,)), running(settings[1]) as (_, (b,)):
        here, there = await client(a), await client(b)
        filler = await (await here.session()).producer("queue:q")
        for body in (b"goes", b"stays"):
            await filler.send(body, persistent=True)
        for xid in ("first", "second"):
            receiving, sending = await here.session("transacted"), await there.session("transacted")
            message = await (await receiving.consumer("queue:q", prefetch=0)).receive(timeout=240)
            await (await sending.producer("queue:q")).send(message.body, persistent=True)
            await asyncio.gather(receiving.prepare(xid), sending.prepare(xid))
    async with running(settings[0]) as (_, (a,)), running(settings[1]) as (_, (b,)):
        here, there = await client(a), await client(b)
        assert [await one.prepared() for one in (here, there)] == [["first", "second"]] * 2
        consumers = [await (await one.session()).consumer("queue:q") for one in (here, there)]
        await assert_no_messages(here, consumers[0])
        await assert_no_messages(there, consumers[1])
        for one in (here, there):
            await one.commit("first")
            await one.rollback("second")
        assert seen(await consumers[0].receive(timeout=240)) == (b"stays", True)
        assert (await consumers[1].receive(timeout=240)).body == b"goes"
        await assert_no_messages(here, consumers[0])
        await assert_no_messages(there, consumers[1])
        assert [await one.prepared() for one in (here, there)] == [[], []]


@in_loop
async def test_once_only_delivery(tmp_path: Path) -> None:
    """A producer that does not know whether its send arrived sends again, with the same id."""
    settings = local(data=tmp_path, duplicate_window=3)
    async with running(settings) as (_, (address,)):
        producer = await (await (await client(address)).session()).producer("queue:q")
        for name in ("a", "b", "a", "b", "b"):
            await producer.send(name.encode(), persistent=True, duplicate_id=name)
    async with running(settings) as (_, (address,)):
        connection = await client(address)
        session = await connection.session()
        producer, consumer = await session.producer("queue:q"), await session.consumer("queue:q")
        for name in ("b", "c", "a"):
            await producer.send(name.encode(), persistent=True, duplicate_id=name)
        assert await receive(consumer, 3) == [b"a", b"b", b"c"]
        # The same id elsewhere, or without one, is another message.
        other = await session.producer("queue:other")
        await other.send(b"a", persistent=True, duplicate_id="a")
        await producer.send(b"c", persistent=True)
        assert await receive(consumer, 1) == [b"c"]
        assert await messages_on(connection, "queue:other") == 1
        # What is beyond the window is forgotten: that is the setting's price.
        for name in ("d", "e", "f", "a"):
            await producer.send(name.encode(), persistent=True, duplicate_id=name)
        assert await receive(consumer, 4) == [b"d", b"e", b"f", b"a"]
        await assert_no_messages(connection, consumer)
