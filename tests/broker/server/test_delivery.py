"""The broker as a whole, over sockets: what a lost or slow connection means for messages and for others."""

import asyncio
from pathlib import Path

from mqlab.broker.server.startup import running
from mqlab.wire.native import frames as native
from mqlab.wire.native.bodies import encode
from mqlab.wire.native.frames import Flag, Kind

from .raw_client import Raw, client, in_loop, local, seen


@in_loop
async def test_what_a_lost_connection_held_goes_to_others_marked() -> None:
    async with running(local()) as (_, (address,)):
        lost = await Raw.connect(address)
        await lost.open_session()
        await lost.open_producer("queue:q")
        await lost.open_consumer("queue:q", room=10)
        lost.send(b"one", b"two", b"three")
        assert (await lost.read_until(Kind.DELIVER)).amount == 3
        lost.write(native.header(Kind.ACKNOWLEDGE, link=2, first=1))
        other = await (await (await client(address)).session()).consumer("queue:q")
        await lost.close()
        assert [seen(await other.receive()), seen(await other.receive())] == [(b"two", True), (b"three", True)]


@in_loop
async def test_a_lost_connection_rolls_its_transaction_back() -> None:
    async with running(local()) as (broker, (address,)):
        lost = await Raw.connect(address)
        await lost.open_session(transacted=True)
        await lost.open_producer("queue:q")
        lost.send(b"never")
        lost.write(native.frame(Kind.ASK, {"ask": "status"}, first=1))
        await lost.read_until(Kind.ANSWER)
        await lost.close()
        while broker.connections:
            await asyncio.sleep(0.001)
        assert broker.core.destinations.queues["q"].messages == 0
        assert broker.core.context.memory == 0


@in_loop
async def test_a_connection_that_does_not_read_is_given_no_more_and_others_are_served() -> None:
    """Its consumers get about what its socket takes, however much room they asked for and however many there are."""
    async with running(local(queue_limit=64_000_000, producer_window=16_000_000)) as (broker, (address,)):
        sender = await client(address)
        producer = await (await sender.session()).producer("queue:q")
        deaf = await Raw.connect(address)
        await deaf.open_session()
        await deaf.open_consumer("queue:q", link=1, room=1_000_000)
        deaf.transport.pause_reading()
        body = encode([b"x" * 1000] * 200)
        for _ in range(150):
            await producer.send_batch(body, confirm=True)
        queue = broker.core.destinations.queues["q"]
        given = sum(len(consumer.unacknowledged) for consumer in queue.consumers)
        assert 0 < given < 100
        # The broker reads no more of it meanwhile: a consumer that is opened now waits until its client reads.
        for link in range(2, 6):
            about = {"destination": "queue:q"}
            deaf.write(native.frame(Kind.OPEN_CONSUMER, about, session=1, link=link, amount=1_000_000))
        other = await (await (await client(address)).session()).consumer("queue:q", prefetch=10)
        assert (await other.receive()).body == b"x" * 1000
        assert [len(consumer.unacknowledged) for consumer in queue.consumers][:-1] == [given]
        deaf.transport.resume_reading()
        # What waited for it goes on when it reads again.
        rows = 0
        while rows < 150 * 200 - 10:
            rows += (await deaf.read_until(Kind.DELIVER)).amount


@in_loop
async def test_messages_survive_a_restart_in_order_and_marked(tmp_path: Path) -> None:
    async with running(local(data=tmp_path)) as (_, (address,)):
        session = await (await client(address)).session()
        producer = await session.producer("queue:q")
        for n in range(20):
            await producer.send(b"%d" % n, persistent=n % 2 == 0)
        consumer = await session.consumer("queue:q", prefetch=4)
        assert [(await consumer.receive()).body for _ in range(4)] == [b"0", b"1", b"2", b"3"]
        await consumer.close()
    async with running(local(data=tmp_path)) as (_, (address,)):
        consumer = await (await (await client(address)).session()).consumer("queue:q")
        came = [await consumer.receive() for _ in range(8)]
    assert [seen(one) for one in came] == [(b"%d" % n, True) for n in range(4, 20, 2)]


@in_loop
async def test_a_stop_in_good_order_leaves_nothing_torn(tmp_path: Path) -> None:
    """Also when sends are still on their way to disk."""
    async with running(local(data=tmp_path, disk_marks=250)) as (broker, (address,)):
        raw = await Raw.connect(address)
        await raw.open_session()
        await raw.open_producer("queue:q")
        for n in range(50):
            raw.send(b"%d" % n, first=n + 1, flags=Flag.PERSISTENT)
        while broker.core.destinations.queues["q"].messages < 50:
            await asyncio.sleep(0)
    async with running(local(data=tmp_path)) as (broker, _):
        assert broker.core.destinations.queues["q"].messages == 50


@in_loop
async def test_journal_files_of_consumed_messages_go(tmp_path: Path) -> None:
    async with running(local(data=tmp_path, segment_size=64 * 1024)) as (_, (address,)):
        session = await (await client(address)).session()
        producer, consumer = await session.producer("queue:q"), await session.consumer("queue:q")
        for _ in range(40):
            await producer.send_batch(encode([b"x" * 1000] * 40), persistent=True, confirm=True)
            await consumer.receive_batch()
        assert len(list(tmp_path.glob("journal-*"))) < 8


@in_loop
async def test_one_sync_serves_those_who_wait_together(tmp_path: Path) -> None:
    """On a disk of 250 turns a second, twenty who wait for each confirmation need about as many syncs as one."""
    async with running(local(data=tmp_path, disk_marks=250)) as (_, (address,)):
        connection = await client(address)

        async def twenty_times(number: int) -> None:
            producer = await (await connection.session()).producer(f"queue:{number}")
            for n in range(20):
                await producer.send(b"%d" % n, persistent=True)

        await asyncio.gather(*map(twenty_times, range(20)))
        syncs = (await connection.status())["syncs"]
    assert 20 <= syncs <= 60
