"""Redelivery after a client is killed, after repeated crashes, and in a two-phase commit."""

import asyncio
import sys
from pathlib import Path

import pytest

from broker.server.raw_client import client, in_loop, local, seen
from features.message_helpers import assert_no_messages, numbers, receive
from mqlab.broker.server.startup import running
from mqlab.client import RefusedError, aio, connect
from mqlab.wire.address import Address
from mqlab.wire.native.bodies import encode

from .broker_helpers import serving

# Takes two messages in a transaction, sends them on, and says so; then it would commit, if it lived.
CLIENT = """
import sys
from mqlab.client import connect
session = connect(sys.argv[1]).session("transacted")
consumer, producer = session.consumer("queue:in", prefetch=3), session.producer("queue:out")
for _ in range(2):
    producer.send(consumer.receive().body, persistent=True)
producer.flush()
print("ready", flush=True)
sys.stdin.read()
session.commit()
"""


@in_loop
async def test_a_client_that_is_killed_with_9_leaves_no_trace_of_its_transaction(tmp_path: Path) -> None:
    async with running(local(data=tmp_path)) as (broker, (address,)):
        connection = await client(address)
        session = await connection.session()
        producer = await session.producer("queue:in")
        await producer.send_batch(encode(numbers(0, 5)), persistent=True, confirm=True)
        pipe = asyncio.subprocess.PIPE
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-c", CLIENT, str(address), stdin=pipe, stdout=pipe
        )
        try:
            assert process.stdout is not None
            assert await process.stdout.readline() == b"ready\n"
        finally:
            process.kill()
            await process.wait()
        while len(broker.connections) > 1:
            await asyncio.sleep(0.001)
        out = await session.consumer("queue:out")
        consumer = await session.consumer("queue:in")
        assert [seen(await consumer.receive(timeout=240)) for _ in range(5)] == [
            (body, int(body) < 3) for body in numbers(0, 5)
        ]
        await assert_no_messages(connection, out, consumer)


@pytest.mark.parametrize("restart", [False, True])
@in_loop
async def test_each_death_counts_until_the_message_is_a_dead_letter(tmp_path: Path, restart: bool) -> None:
    """A restart forgets the count, never the mark: that it may have been delivered before counts for nobody's death."""
    settings = local(data=tmp_path, redelivery_limit=3)
    counts = []

    async def die(address: Address) -> None:
        lost = await aio.connect(str(address))
        consumer = await (await lost.session("client")).consumer("queue:q", prefetch=1)
        counts.append((await consumer.receive(timeout=240)).delivery_count)
        await lost.drop()

    async with running(settings) as (_, (address,)):
        producer = await (await (await client(address)).session()).producer("queue:q")
        for body in (b"poison", b"good"):
            await producer.send(body, persistent=True)
        await die(address)
        await die(address)
        if not restart:
            await die(address)
            await _poison_is_a_dead_letter(await client(address))
    async with running(settings) as (_, (address,)):
        if restart:
            for _ in range(3):
                await die(address)
        await _poison_is_a_dead_letter(await client(address))
    assert counts == ([1, 2, 2, 3, 4] if restart else [1, 2, 3])


async def _poison_is_a_dead_letter(connection: aio.Connection) -> None:
    """It may still be on its way, as one record from queue to queue: so a receive, which waits, and gives it back."""
    session = await connection.session("client")
    for name, body in (("queue:dead-letters", b"poison"), ("queue:q", b"good")):
        consumer = await session.consumer(name)
        assert await receive(consumer, 1) == [body]
        await assert_no_messages(connection, consumer)
        await consumer.close()


@pytest.mark.parametrize("commit", [True, False])
@pytest.mark.parametrize("restart", [True, False])
@in_loop
async def test_what_is_prepared_survives_every_death_and_waits(tmp_path: Path, restart: bool, commit: bool) -> None:
    async def decide(address: Address) -> None:
        connection = await client(address)
        session = await connection.session()
        consumer, out = await session.consumer("queue:in"), await session.consumer("queue:out")
        # What was not given to the lost client's application is there; what is prepared is neither here nor there.
        assert await receive(consumer, 1) == [b"2"]
        await assert_no_messages(connection, consumer, out)
        assert await connection.prepared() == ["x"]
        await (connection.commit("x") if commit else connection.rollback("x"))
        if commit:
            assert await receive(out, 2) == numbers(0, 2)
        else:
            assert [seen(await consumer.receive(timeout=240)) for _ in range(2)] == [(b"0", True), (b"1", True)]
        await assert_no_messages(connection, consumer, out)
        assert await connection.prepared() == []

    async with running(local(data=tmp_path)) as (broker, (address,)):
        lost = await aio.connect(str(address))
        filler = await (await lost.session()).producer("queue:in")
        await filler.send_batch(encode(numbers(0, 3)), persistent=True, confirm=True)
        session = await lost.session("transacted")
        consumer, producer = await session.consumer("queue:in"), await session.producer("queue:out")
        for body in await receive(consumer, 2):
            await producer.send(body, persistent=True)
        await session.prepare("x")
        await lost.drop()
        while broker.connections:
            await asyncio.sleep(0)
        if not restart:
            await decide(address)
            return
    async with running(local(data=tmp_path)) as (_, (address,)):
        await decide(address)


@pytest.mark.parametrize("commit", [True, False])
def test_two_phases_around_a_restart_in_the_blocking_api(tmp_path: Path, commit: bool) -> None:
    settings = local(data=tmp_path)
    with serving(settings) as served, connect(served.address) as connection:
        connection.session().producer("queue:in").send(b"in", persistent=True)
        session = connection.session("transacted")
        session.consumer("queue:in", prefetch=0).receive(timeout=240)
        session.producer("queue:out").send(b"out", persistent=True)
        session.prepare("x")
        with pytest.raises(RefusedError, match="prepared already"):
            session.prepare("x")
        # The session has begun a new transaction, which has nothing to do with it.
        session.rollback()
    with serving(settings) as served, connect(served.address) as connection:
        assert connection.prepared() == ["x"]
        (connection.commit if commit else connection.rollback)("x")
        for decide in (connection.commit, connection.rollback):
            with pytest.raises(RefusedError, match="no prepared transaction"):
                decide("x")
        browsers = (connection.session().browser(name) for name in ("queue:in", "queue:out"))
        found = [[seen(message) for message in browser] for browser in browsers]
        assert found == ([[], [(b"out", False)]] if commit else [[(b"in", True)], []])
