"""Browsers, subscriptions, and invalid options of sessions and consumers."""

import pytest

from broker.option_types import SubscriptionValues
from broker.server.raw_client import client, in_loop, local, seen
from features.message_helpers import numbers
from mqlab.client import aio
from mqlab.client.errors import ClosedError, MessagingError, RefusedError

from .broker_helpers import running
from .queue_helpers import filled, left

pytestmark = pytest.mark.usefixtures("each_way")


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
        assert seen(await consumer.receive(timeout=240)) == (b"first", False)


@in_loop
async def test_a_browser_is_not_taken_for_done_when_the_connection_is_lost() -> None:
    async with running(local()) as (broker, (address,)):
        connection = await filled(address, 5000)
        browser = await (await connection.session()).browser("queue:q")
        for one in [*broker.connections]:
            one.drop()
        with pytest.raises(ClosedError, match="lost"):
            [message async for message in browser]


@in_loop
async def test_what_a_session_cannot_do_is_a_clear_error_and_nothing_happens() -> None:
    async with running(local(redelivery_limit=0)) as (_, (address,)):
        connection = await filled(address, 1)
        with pytest.raises(ValueError, match="acknowledge: 'sometimes' is none of auto"):
            await connection.session("sometimes")  # type: ignore[arg-type] # the test shows that it is refused
        for mode in ("auto", "dups_ok", "client", "individual"):
            session = await connection.session(mode)
            consumer = await session.consumer("queue:q")
            assert (await consumer.receive(timeout=240)).body == b"0"
            for action in (session.commit, session.rollback, lambda session=session: session.prepare("x")):
                with pytest.raises(MessagingError, match="transacted"):
                    await action()
            await session.recover()
            assert (await consumer.receive(timeout=240)).redelivered
            await session.recover()
            await session.close()
        with pytest.raises(MessagingError, match="rollback"):
            await (await connection.session("transacted")).recover()
        assert await left(connection) == 1


@pytest.mark.parametrize(
    ("destination", "options", "words"),
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
async def test_what_a_consumer_cannot_be_is_refused(destination: str, options: SubscriptionValues, words: str) -> None:
    async with running(local()) as (_, (address,)):
        connection = await client(address)
        session = await connection.session()
        with pytest.raises(RefusedError, match=words):
            await session.consumer(destination, **options)
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
        await (await session.consumer("topic:other", durable="mine")).close()
        # It is this client's: nobody else knows it.
        with pytest.raises(RefusedError, match="no durable subscription"):
            await other.unsubscribe("mine")
        await connection.unsubscribe("mine")
        with pytest.raises(RefusedError, match="no durable subscription"):
            await connection.unsubscribe("mine")
        assert (await connection.status())["subscriptions"] == 0
        await connection.close()
