"""Receiving one message at a time or with prefetch, and by id; abandoned receives."""

import asyncio

import pytest

from broker.server.raw_client import client, in_loop, local, seen
from client.broker_helpers import running
from client.queue_helpers import filled
from features.message_helpers import assert_no_messages, numbers, receive
from mqlab.client.consumer import Acknowledge
from mqlab.client.errors import MessagingError
from mqlab.client.message import Delivery
from mqlab.wire.native.bodies import encode

pytestmark = pytest.mark.usefixtures("each_way")

MODES = pytest.mark.parametrize("mode", ["auto", "dups_ok", "client", "individual", "transacted"])


@MODES
@in_loop
async def test_prefetch_0_takes_exactly_what_is_asked_for(mode: Acknowledge) -> None:
    async with running(local()) as (_, (address,)):
        connection = await filled(address)
        session = await connection.session(mode)
        consumer = await session.consumer("queue:q", prefetch=0)
        for n in range(5):
            assert await receive(consumer, 1) == [b"%d" % n]
            counters = (await connection.ask("show", name="queue:q"))["counters"]
            assert counters["delivered"] == n + 1
        other = await (await connection.session()).consumer("queue:q")
        assert await receive(other, 5) == numbers(5, 10)


@MODES
@in_loop
async def test_a_cancelled_receive_with_prefetch_0_loses_and_keeps_nothing(mode: Acknowledge) -> None:
    """Cancelled at every turn of the loop: the message is with the application, or on the queue for anybody."""
    async with running(local()) as (_, (address,)):
        connection = await client(address)
        session = await connection.session(mode)
        producer = await (await connection.session()).producer("queue:q")
        consumer = await session.consumer("queue:q", prefetch=0)
        other = await (await connection.session()).consumer("queue:q", prefetch=0)
        for turns in range(40):
            waiting = asyncio.ensure_future(consumer.receive())
            await producer.send_batch(encode([b"%d" % turns]))
            for _ in range(turns % 20):
                await asyncio.sleep(0)
            waiting.cancel()
            await asyncio.wait([waiting])
            if waiting.cancelled():
                message = await other.receive(timeout=240)
                assert seen(message) == (b"%d" % turns, False)
            else:
                assert waiting.result().body == b"%d" % turns
        await assert_no_messages(connection, other)


@in_loop
async def test_a_receive_with_prefetch_0_that_is_late_by_a_moment_loses_nothing() -> None:
    async with running(local()) as (_, (address,)):
        connection = await client(address)
        session = await connection.session()
        producer, consumer = await session.producer("queue:q"), await session.consumer("queue:q", prefetch=0)
        came: list[bytes] = []
        for n in range(100):
            await producer.send(b"%d" % n)
            while len(came) <= n:
                try:
                    came.append((await consumer.receive(timeout=0.0001 * (n % 3))).body)
                except TimeoutError:
                    continue
        assert came == numbers(0, 100)


@in_loop
async def test_waiting_receives_are_served_first_come_first_served() -> None:
    async with running(local()) as (_, (address,)):
        connection = await client(address)
        consumers = [await (await connection.session()).consumer("queue:q", prefetch=0) for _ in range(4)]
        waiting = []
        for consumer in consumers:
            waiting.append(asyncio.ensure_future(consumer.receive()))
            await connection.status()
        # The second one gives up: the others keep their turns.
        waiting[1].cancel()
        await asyncio.wait([waiting[1]])
        producer = await (await connection.session()).producer("queue:q")
        for body in numbers(0, 3):
            await producer.send(body)
        assert [(await waiting[n]).body for n in (0, 2, 3)] == numbers(0, 3)


@in_loop
async def test_only_one_receive_at_a_time_waits_at_a_consumer() -> None:
    """Two would take messages out of each other's hands."""
    async with running(local()) as (_, (address,)):
        session = await (await client(address)).session()
        consumer = await session.consumer("queue:q")
        waiting = asyncio.ensure_future(consumer.receive(timeout=240))
        await asyncio.sleep(0)
        for second in (consumer.receive(), consumer.receive_batch()):
            with pytest.raises(MessagingError, match="one at a time"):
                await second
        await (await session.producer("queue:q")).send(b"x")
        assert (await waiting).body == b"x"


@in_loop
async def test_a_message_is_received_by_its_id_or_its_correlation_id_now_or_when_it_comes() -> None:
    async with running(local()) as (_, (address,)):
        connection = await client(address)
        session = await connection.session()
        producer = await session.producer("queue:q")
        for n in range(20):
            await producer.send(b"%d" % n, correlation_id=f"c{n % 10}")
        consumer = await session.consumer("queue:q", prefetch=0)
        browser = await session.browser("queue:q")
        ids = [message.id async for message in browser]
        assert (await consumer.receive(timeout=240, correlation_id="c7")).body == b"7"
        assert (await consumer.receive(timeout=240, message_id=ids[3])).body == b"3"
        assert (await consumer.receive(timeout=240, correlation_id="c7")).body == b"17"
        for missing in ({"correlation_id": "c7"}, {"message_id": ids[3]}, {"correlation_id": "none"}):
            with pytest.raises(TimeoutError):
                await consumer.receive(timeout=0, **missing)
        waiting = asyncio.ensure_future(consumer.receive(timeout=240, correlation_id="new"))
        await connection.status()
        await producer.send(b"old", correlation_id="c1")
        await producer.send(b"new", correlation_id="new")
        assert (await waiting).body == b"new"
        # The others lie where they lay.
        rest = [b"%d" % n for n in range(20) if n not in (3, 7, 17)]
        assert await receive(consumer, 18) == [*rest, b"old"]


@MODES
@in_loop
async def test_receives_by_id_that_are_given_up_never_answer_another(mode: Acknowledge) -> None:
    async with running(local()) as (_, (address,)):
        connection = await client(address)
        session = await connection.session(mode)
        producer = await (await connection.session()).producer("queue:q")
        consumer = await session.consumer("queue:q", prefetch=0)
        given_up = 0
        for turns in range(40):
            waiting = asyncio.ensure_future(consumer.receive(correlation_id=f"up-{turns}"))
            await producer.send(b"up", correlation_id=f"up-{turns}")
            await producer.send(b"%d" % turns, correlation_id=f"{turns}")
            for _ in range(turns % 20):
                await asyncio.sleep(0)
            waiting.cancel()
            await asyncio.wait([waiting])
            given_up += waiting.cancelled()
            assert (await consumer.receive(timeout=240, correlation_id=f"{turns}")).body == b"%d" % turns
        assert given_up > 0
        other = await (await connection.session()).consumer("queue:q")
        assert await receive(other, given_up) == [b"up"] * given_up
        await assert_no_messages(connection, other)


@in_loop
async def test_receiving_by_id_needs_prefetch_0_and_a_proper_id() -> None:
    async with running(local()) as (_, (address,)):
        connection = await client(address)
        session = await connection.session()
        ahead, asking = await session.consumer("queue:q"), await session.consumer("queue:q", prefetch=0)
        with pytest.raises(ValueError, match="prefetch 0"):
            await ahead.receive(correlation_id="x")
        for wrong in ("ID:12", "ID:xyz", "", "ID:" + "0" * 33):
            with pytest.raises(ValueError, match="message id"):
                await asking.receive(timeout=1, message_id=wrong)
        with pytest.raises(ValueError, match="not both"):
            await asking.receive(timeout=1, message_id="ID:" + "0" * 32, correlation_id="x")
        assert (await connection.status())["connections"] == 1


@pytest.mark.parametrize("mode", ["auto", "client"])
@in_loop
async def test_acknowledging_in_small_pieces_does_not_divide_the_deliveries(mode: Acknowledge) -> None:
    """The consumer acknowledges as often as it is asked to, but grants credit in a few large pieces."""
    async with running(local()) as (_, (address,)):
        connection = await filled(address, 20_000)
        session = await connection.session(mode)
        consumer = await session.consumer("queue:q", prefetch=1000)
        sources: list[Delivery] = []
        for n in range(20_000):
            message = await consumer.receive(timeout=240)
            assert message.body == b"%d" % n
            if not sources or sources[-1] is not message.source:
                sources.append(message.source)
            if n % 7 == 0:
                session.acknowledge()
                await asyncio.sleep(0)
        assert len(sources) < 2 * 20_000 // 250


@in_loop
async def test_after_a_rollback_a_consumer_holds_no_more_than_its_prefetch() -> None:
    async with running(local()) as (_, (address,)):
        connection = await filled(address, 20)
        session = await connection.session("transacted")
        consumer = await session.consumer("queue:q", prefetch=100)
        await receive(consumer, 20)
        await session.rollback()
        await filled(address, 1000)
        for _ in range(200):
            await consumer.receive(timeout=240)
            await connection.status()  # what the broker has delivered is here
            assert len(consumer.unread) + sum(delivery.rows for delivery in consumer._deliveries) <= 100
