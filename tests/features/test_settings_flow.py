"""Knobs of the studies, one switched at a time: sizes, numbers of clients, limits, flow control."""

import asyncio
from pathlib import Path

import pytest

from broker.server.raw_client import client, in_loop, local
from mqlab.broker import limits
from mqlab.broker.config import settings_from
from mqlab.broker.policy import Policies, Policy, PolicyRule
from mqlab.broker.server.startup import running
from mqlab.broker.settings import Settings
from mqlab.client import aio
from mqlab.client.errors import ClosedError, RefusedError
from mqlab.wire.native.bodies import encode

from .message_helpers import assert_no_messages, receive

FRAME = 2 * 1024 * 1024


async def accepted(connection: aio.Connection, producer: aio.Producer, body: bytes, most: int) -> int:
    """How many single messages a destination takes before it refuses one, or holds its producer back."""
    for n in range(most):
        sending = asyncio.ensure_future(producer.send_batch(encode([body]), confirm=True))
        await asyncio.sleep(0)
        # What was sent is confirmed before the answer to a later question; what waits for credit is not.
        await connection.status()
        await asyncio.sleep(0)
        if not sending.done():
            sending.cancel()
            return n
        if isinstance(sending.exception(), RefusedError):
            return n
        sending.result()
    return most


@in_loop
async def test_default_out_of_the_box_configuration(tmp_path: Path) -> None:
    """Nothing is said but a port and a folder."""
    default = Settings()
    assert default.listen == ("tcp:127.0.0.1:7766",)
    assert (default.data, default.users, default.sync, default.policy) == (None, None, "on", Policy())
    async with running(local(data=tmp_path)) as (_, (address,)):
        assert address.is_local
        connection = await client(address)
        session = await connection.session()
        producer, consumer = await session.producer("queue:q"), await session.consumer("queue:q")
        await producer.send(b"1", persistent=True)
        await producer.send(b"2")
        assert await receive(consumer, 2) == [b"1", b"2"]
        policy = (await connection.ask("show", name="queue:q"))["policy"]
        assert (policy["queue_limit"], policy["when_full"], policy["save_extent"]) == (8 * 1024 * 1024, "hold", 0)


@pytest.mark.parametrize("size", [0, 1, 12, 1024, 2048, 1024 * 1024, FRAME])
@in_loop
async def test_message_size(tmp_path: Path, size: int) -> None:
    async with running(local(data=tmp_path, queue_limit=2 * FRAME, max_message_size=FRAME)) as (_, (address,)):
        connection = await client(address)
        session = await connection.session()
        producer, consumer = await session.producer("queue:q"), await session.consumer("queue:q")
        body = bytes(range(256)) * (size // 256) + b"x" * (size % 256)
        before = (await connection.status())["journal_bytes"]
        await producer.send_batch(encode([body]), persistent=True, confirm=True)
        status = await connection.status()
        assert status["bytes"] == size
        assert size < status["journal_bytes"] - before < size + 200
        assert (await consumer.receive(timeout=240)).body == body
        if size == FRAME:
            with pytest.raises(ClosedError, match=str(FRAME)):
                await producer.send_batch(encode([body + b"x"]), confirm=True)


@pytest.mark.parametrize(("producers", "consumers"), [(1, 1), (1, 10), (10, 1), (10, 10)])
@in_loop
async def test_number_of_producers_consumers_or_clients(producers: int, consumers: int) -> None:
    async with running(local()) as (_, (address,)):
        takers = [await (await client(address)).session() for _ in range(consumers)]
        senders = [await (await client(address)).session() for _ in range(producers)]
        receiving = [await session.consumer("topic:t") for session in takers]
        sending = [await session.producer("topic:t") for session in senders]
        watching = await client(address)
        assert (await watching.status())["connections"] == producers + consumers + 1
        found = (await watching.ask("list"))["destinations"]
        assert [one["producers"] for one in found] == [producers] * consumers
        for producer in sending:
            await producer.send(b"x")
        for consumer in receiving:
            assert await receive(consumer, producers) == [b"x"] * producers


@in_loop
async def test_one_connection_per_client() -> None:
    """Five sessions can share a connection or have one each; a client with a name has one."""
    async with running(local()) as (_, (address,)):
        shared = await client(address)
        own = [await client(address) for _ in range(5)]
        assert (await shared.status())["connections"] == 6
        for connections in ([shared] * 5, own):
            sessions = [await connection.session() for connection in connections]
            consumers = [await session.consumer("topic:t") for session in sessions]
            await (await sessions[0].producer("topic:t")).send(b"x")
            for consumer in consumers:
                assert await receive(consumer, 1) == [b"x"]
                await consumer.close()
        assert (await shared.status())["connections"] == 6
        named = await aio.connect(str(address), client_id="me")
        with pytest.raises(ClosedError, match="'me' is connected already"):
            await aio.connect(str(address), client_id="me")
        await named.close()


@pytest.mark.parametrize("most", [2, 5])
@in_loop
async def test_maximum_client_connections(most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "CONNECTIONS", most)
    async with running(local()) as (broker, (address,)):
        connections = [await client(address) for _ in range(most)]
        with pytest.raises(ClosedError, match=f"at most {most} connections"):
            await aio.connect(str(address))
        # The others are not disturbed, and there is room again when one leaves.
        for connection in connections:
            assert (await connection.status())["connections"] == most
        await connections[0].close()
        while len(broker.connections) == most:
            await asyncio.sleep(0)
        await (await client(address)).status()


@pytest.mark.parametrize("when_full", ["refuse", "hold"])
@pytest.mark.parametrize(
    ("setting", "taken"),
    [({"queue_limit": 1000}, 10), ({"queue_limit": 5000}, 50), ({"message_limit": 7}, 7), ({"message_limit": 20}, 20)],
)
@in_loop
async def test_queue_limit_in_bytes_or_messages(setting: dict[str, int], taken: int, when_full: str) -> None:
    """With hold a producer may be as far ahead as its window lets it: here, by nothing."""
    async with running(local(when_full=when_full, producer_window=1, **setting)) as (_, (address,)):
        connection = await client(address)
        session = await connection.session()
        assert await accepted(connection, await session.producer("queue:q"), b"x" * 100, 100) == taken
        about = await connection.ask("show", name="queue:q")
        assert (about["messages"], about["full"]) == (taken, True)


@in_loop
async def test_flow_control_of_senders() -> None:
    """Held at the limit, let go when there is room, and every episode can be seen."""
    async with running(local(queue_limit=10_000)) as (_, (address,)):
        connection, other = await client(address), await client(address)
        producer = await (await connection.session()).producer("queue:q")
        sending = asyncio.ensure_future(_send_all(producer, 60))
        while not (status := await other.status())["held_producers"]:
            await asyncio.sleep(0)
        assert (status["holds"], sending.done()) == (1, False)
        about = await other.ask("show", name="queue:q")
        assert (about["held_producers"], about["episodes"], about["full"]) == (1, [], True)
        consumer = await (await other.session()).consumer("queue:q", prefetch=1)
        assert await receive(consumer, 60) == [b"%-1000d" % n for n in range(60)]
        await sending
        status = await other.status()
        about = await other.ask("show", name="queue:q")
        assert status["held_producers"] == 0
        assert len(about["episodes"]) == status["holds"] > 0
        assert all(one["began"] <= one["ended"] for one in about["episodes"])
        assert status["held_ms"] == sum(one["ended"] - one["began"] for one in about["episodes"])
    async with running(local(queue_limit=100_000)) as (_, (address,)):
        connection = await client(address)
        await _send_all(await (await connection.session()).producer("queue:q"), 60)
        assert (await connection.status())["holds"] == 0


async def _send_all(producer: aio.Producer, count: int) -> None:
    for n in range(count):
        await producer.send_batch(encode([b"%-1000d" % n]), confirm=True)


def _topics(**values: object) -> Settings:
    """What holds for topics only."""
    rules = Policies((PolicyRule("topic:#", values),))
    return Settings(listen=("tcp:127.0.0.1:0",), producer_window=1, policies=rules)


@pytest.mark.parametrize("limit", [1000, 5000])
@in_loop
async def test_topic_buffer_sizes_output_queue_size_guar_queue_size(limit: int) -> None:
    """Each subscription has a buffer: the slowest one decides when the publisher waits, or loses its oldest."""
    for when_full in ("hold", "drop-oldest"):
        async with running(_topics(queue_limit=limit, when_full=when_full)) as (_, (address,)):
            connection = await client(address)
            session = await connection.session()
            slow = await session.consumer("topic:t", durable="slow")
            await slow.close()
            quick = await session.consumer("topic:t")
            producer = await session.producer("topic:t")
            taken = await accepted(connection, producer, b"x" * 100, 100)
            about = await connection.ask("show", name="subscription:slow")
            if when_full == "hold":
                assert taken == about["messages"] == limit // 100
            else:
                assert taken == 100
                assert about["messages"] + about["counters"]["dropped"] == 100
                assert about["bytes"] < limit
            # The buffer of one who keeps up has nothing to do with it, and queues have limits of their own.
            assert await receive(quick, taken) == [b"x" * 100] * taken
            assert await accepted(connection, await session.producer("queue:q"), b"x" * 100, 100) == 100


@in_loop
async def test_throughput_oriented_connection_factory_or_broker_file(tmp_path: Path) -> None:
    """A file of settings for one kind of load, and nothing else, changes what the broker does."""
    found = []
    fast = "sync: off\npolicies:\n  - {match: 'queue:fast', message_limit: 5}\n"
    for name, text in (("careful", ""), ("fast", fast)):
        path = tmp_path / f"{name}.yaml"
        path.write_text(f"data: {name}\nlisten: ['tcp:127.0.0.1:0']\nwhen_full: refuse\n{text}")
        async with running(settings_from(path)) as (_, (address,)):
            connection = await client(address)
            session = await connection.session()
            producer = await session.producer("queue:fast")
            await producer.send(b"x", persistent=True)
            syncs = (await connection.status())["syncs"]
            found.append((syncs, 1 + await accepted(connection, producer, b"x", 9)))
            consumer = await session.consumer("queue:fast")
            await receive(consumer, found[-1][1])
            await assert_no_messages(connection, consumer)
    assert found == [(1, 10), (0, 5)]
