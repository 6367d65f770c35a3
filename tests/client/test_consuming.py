"""Receiving: one at a time or ahead, by id, again after a recover, only looking; and what cannot be asked for."""

import asyncio

import pytest

from broker.server.talking import client, in_loop, local, seen
from features.receiving import nothing_for, numbers, receive
from mqlab.broker.server.listen import running
from mqlab.client import aio
from mqlab.client.consuming import Acknowledge
from mqlab.client.errors import ClosedError, MessagingError, RefusedError
from mqlab.wire.bodies import encode

MODES = pytest.mark.parametrize("mode", ["auto", "dups_ok", "client", "individual", "transacted"])


async def filled(address: object, count: int = 10) -> aio.Connection:
    connection = await client(address)  # type: ignore[arg-type]
    producer = await (await connection.session()).producer("queue:q")
    await producer.send_batch(encode(numbers(0, count)), confirm=True)
    return connection


async def left(connection: aio.Connection) -> int:
    return int((await connection.status())["messages"])


# Prefetch 0


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
                message = await other.receive(timeout=30)
                assert seen(message) == (b"%d" % turns, False)
            else:
                assert waiting.result().body == b"%d" % turns
        await nothing_for(connection, other)


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
        waiting = asyncio.ensure_future(consumer.receive(timeout=30))
        await asyncio.sleep(0)
        for second in (consumer.receive(), consumer.receive_batch()):
            with pytest.raises(MessagingError, match="one at a time"):
                await second
        await (await session.producer("queue:q")).send(b"x")
        assert (await waiting).body == b"x"


# By id


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
        assert (await consumer.receive(timeout=30, correlation_id="c7")).body == b"7"
        assert (await consumer.receive(timeout=30, message_id=ids[3])).body == b"3"
        assert (await consumer.receive(timeout=30, correlation_id="c7")).body == b"17"
        for missing in ({"correlation_id": "c7"}, {"message_id": ids[3]}, {"correlation_id": "none"}):
            with pytest.raises(TimeoutError):
                await consumer.receive(timeout=0, **missing)
        waiting = asyncio.ensure_future(consumer.receive(timeout=30, correlation_id="new"))
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
            assert (await consumer.receive(timeout=30, correlation_id=f"{turns}")).body == b"%d" % turns
        assert given_up > 0
        other = await (await connection.session()).consumer("queue:q")
        assert await receive(other, given_up) == [b"up"] * given_up
        await nothing_for(connection, other)


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
        with pytest.raises(ValueError, match="one of them"):
            await asking.receive(timeout=1, message_id="ID:" + "0" * 32, correlation_id="x")
        assert (await connection.status())["connections"] == 1


# Again


@in_loop
async def test_recover_gives_again_what_is_not_acknowledged_marked_and_in_order() -> None:
    async with running(local()) as (_, (address,)):
        connection = await filled(address)
        session = await connection.session("client")
        consumer = await session.consumer("queue:q", prefetch=6)
        assert await receive(consumer, 2) == numbers(0, 2)
        session.acknowledge()
        for count in (2, 3):
            assert [message.delivery_count for message in [await consumer.receive(timeout=30) for _ in range(3)]] == [
                count - 1
            ] * 3
            await session.recover()
        came = [await consumer.receive(timeout=30) for _ in range(8)]
        assert [message.body for message in came] == numbers(2, 10)
        assert [message.delivery_count for message in came] == [3, 3, 3, 1, 1, 1, 1, 1]
        session.acknowledge()
        assert await left(connection) == 0


@pytest.mark.parametrize("prefetch", [0, 1, 4, 100])
@pytest.mark.parametrize("mode", ["auto", "dups_ok", "client", "individual"])
@in_loop
async def test_recover_at_any_point_loses_nothing(mode: Acknowledge, prefetch: int) -> None:
    async with running(local()) as (_, (address,)):
        connection = await filled(address, 30)
        session = await connection.session(mode)
        consumer = await session.consumer("queue:q", prefetch=prefetch)
        got: list[bytes] = []
        for taken in (1, 2, 3, 5):
            # One after the other without a turn of the loop, where they are at hand: the broker is not told yet.
            got += await receive(consumer, taken)
            await session.recover()
        got += await receive(consumer, 1)
        while len(set(got)) < 30:
            got += await receive(consumer, 1)
        assert set(got) == set(numbers(0, 30))
        # What came again came in its place.
        assert [*dict.fromkeys(got)] == numbers(0, 30)
        await consumer.close()
        # What auto and dups_ok were done with is gone, and no more than that.
        assert await left(connection) == (0 if mode in ("auto", "dups_ok") else 30)


@in_loop
async def test_a_consumer_has_no_more_room_after_a_rollback_than_before() -> None:
    async with running(local()) as (_, (address,)):
        connection = await filled(address, 100)
        session = await connection.session("transacted")
        consumer = await session.consumer("queue:q", prefetch=5)
        assert await receive(consumer, 2) == numbers(0, 2)
        await session.rollback()
        assert await receive(consumer, 1) == numbers(0, 1)
        other = await (await connection.session()).consumer("queue:q")
        assert await receive(other, 95) == numbers(5, 100)


@in_loop
async def test_individual_acknowledgement_in_any_order() -> None:
    async with running(local()) as (_, (address,)):
        connection = await filled(address)
        session = await connection.session("individual")
        consumer = await session.consumer("queue:q")
        messages = [await consumer.receive(timeout=30) for _ in range(6)]
        for n in (4, 1, 4):
            consumer.acknowledge(messages[n])
        assert await left(connection) == 8
        consumer.acknowledge(await consumer.receive_batch(timeout=30))
        assert await left(connection) == 4
        await session.recover()
        again = [await consumer.receive(timeout=30) for _ in range(4)]
        assert [seen(message) for message in again] == [(b"%d" % n, True) for n in (0, 2, 3, 5)]
        # All at once, if no message is named.
        session.acknowledge()
        assert await left(connection) == 0


# Browsing


@in_loop
async def test_a_browser_sees_what_is_there_in_order_and_takes_nothing() -> None:
    async with running(local()) as (_, (address,)):
        connection = await filled(address, 3000)
        session = await connection.session()
        producer = await session.producer("queue:q")
        await producer.send(b"first", priority=9, properties={"colour": "red"})
        browser = await session.browser("queue:q")
        await producer.send(b"too late")
        assert [message.body async for message in browser] == [b"first", *numbers(0, 3000)]
        await browser.close()
        red = await session.browser("queue:q", selector="colour = 'red'")
        assert [seen(message) async for message in red] == [(b"first", False)]
        empty = await session.browser("queue:empty")
        assert [message async for message in empty] == []
        assert await left(connection) == 3002
        consumer = await session.consumer("queue:q")
        assert seen(await consumer.receive(timeout=30)) == (b"first", False)


@in_loop
async def test_a_browser_is_not_taken_for_done_when_the_connection_is_lost() -> None:
    async with running(local()) as (broker, (address,)):
        connection = await filled(address, 5000)
        browser = await (await connection.session()).browser("queue:q")
        for one in [*broker.connections]:
            one.drop()
        with pytest.raises(ClosedError, match="lost"):
            [message async for message in browser]


# Errors


@in_loop
async def test_what_a_session_cannot_do_is_a_clear_error_and_nothing_happens() -> None:
    async with running(local(redelivery_limit=0)) as (_, (address,)):
        connection = await filled(address, 1)
        with pytest.raises(ValueError, match="acknowledge: 'sometimes' is none of auto"):
            await connection.session("sometimes")  # type: ignore[arg-type]
        for mode in ("auto", "dups_ok", "client", "individual"):
            session = await connection.session(mode)  # type: ignore[arg-type]
            consumer = await session.consumer("queue:q")
            assert (await consumer.receive(timeout=30)).body == b"0"
            for action in (session.commit, session.rollback, lambda session=session: session.prepare("x")):
                with pytest.raises(MessagingError, match="transacted"):
                    await action()
            await session.recover()
            assert (await consumer.receive(timeout=30)).redelivered
            await session.recover()
            await session.close()
        with pytest.raises(MessagingError, match="rollback"):
            await (await connection.session("transacted")).recover()
        assert await left(connection) == 1


@pytest.mark.parametrize(
    ("destination", "wish", "words"),
    [
        ("queue:q", {"durable": "d"}, "for subscriptions to topics"),
        ("queue:q", {"shared": "s"}, "for subscriptions to topics"),
        ("queue:q", {"no_local": True}, "for subscriptions to topics"),
        ("topic:t", {"exclusive": True}, "for queues"),
        ("topic:t", {"durable": "one", "shared": "other"}, "one name"),
        ("queue:a.*", {}, "subscriptions to topics"),
        ("topic:a.#.b", {}, "only at the end"),
        ("topic:t", {"selector": "a ="}, "selector"),
        ("queue:q", {"selector": "a LIKE 5"}, "selector"),
    ],
)
@in_loop
async def test_what_a_consumer_cannot_be_is_refused(destination: str, wish: dict[str, object], words: str) -> None:
    async with running(local()) as (_, (address,)):
        connection = await client(address)
        session = await connection.session()
        with pytest.raises(RefusedError, match=words):
            await session.consumer(destination, **wish)  # type: ignore[arg-type]
        assert (await connection.status())["subscriptions"] == 0


@in_loop
async def test_unsubscribe_ends_a_subscription_that_nobody_uses() -> None:
    async with running(local()) as (_, (address,)):
        connection = await aio.connect(str(address), client_id="me")
        other = await client(address)
        session = await connection.session()
        consumer = await session.consumer("topic:t", durable="mine")
        with pytest.raises(RefusedError, match="in use"):
            await connection.unsubscribe("mine")
        with pytest.raises(RefusedError, match="in use"):
            await session.consumer("topic:t", durable="mine")
        await consumer.close()
        with pytest.raises(RefusedError, match="another topic"):
            await session.consumer("topic:other", durable="mine")
        # It is this client's: nobody else knows it.
        with pytest.raises(RefusedError, match="no durable subscription"):
            await other.unsubscribe("mine")
        await connection.unsubscribe("mine")
        with pytest.raises(RefusedError, match="no durable subscription"):
            await connection.unsubscribe("mine")
        assert (await connection.status())["subscriptions"] == 0
        await connection.close()
