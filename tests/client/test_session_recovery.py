"""Session recovery, and individual acknowledgement."""

import pytest

from broker.server.raw_client import in_loop, local, seen
from features.message_helpers import numbers, receive
from mqlab.client.consumer import Acknowledge

from .broker_helpers import running
from .queue_helpers import filled, left

pytestmark = pytest.mark.usefixtures("each_way")


@in_loop
async def test_recover_gives_again_what_is_not_acknowledged_marked_and_in_order() -> None:
    async with running(local()) as (_, (address,)):
        connection = await filled(address)
        session = await connection.session("client")
        consumer = await session.consumer("queue:q", prefetch=6)
        assert await receive(consumer, 2) == numbers(0, 2)
        session.acknowledge()
        for count in (2, 3):
            assert [message.delivery_count for message in [await consumer.receive(timeout=240) for _ in range(3)]] == [
                count - 1
            ] * 3
            await session.recover()
        came = [await consumer.receive(timeout=240) for _ in range(8)]
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
        messages = [await consumer.receive(timeout=240) for _ in range(6)]
        for n in (4, 1, 4):
            consumer.acknowledge(messages[n])
        assert await left(connection) == 8
        consumer.acknowledge(await consumer.receive_batch(timeout=240))
        assert await left(connection) == 4
        await session.recover()
        again = [await consumer.receive(timeout=240) for _ in range(4)]
        assert [seen(message) for message in again] == [(b"%d" % n, True) for n in (0, 2, 3, 5)]
        # All at once, if no message is named.
        session.acknowledge()
        assert await left(connection) == 0
