import asyncio

import numpy as np
import pytest

from drivers.answers import Answers
from mqlab.drivers import DriverError, ReceiverOptions
from mqlab.systems import SystemFailedError, system

from .hanging_system import check_hanging
from .lost_connection import check_lost_connection
from .real_system import CHECKS, Real, real

pytestmark = pytest.mark.needs_system("redis")
up = real("redis")

BODIES = np.arange(36, dtype=np.uint8).reshape(3, 12)


@pytest.mark.parametrize("feature", CHECKS)
def test_it_does_what_it_says(up: Real, feature: str) -> None:
    up.check(feature)


def test_one_that_hangs_is_not_waited_for_without_an_end(up: Real, monkeypatch: pytest.MonkeyPatch) -> None:
    check_hanging(up, monkeypatch)


def test_what_the_consumer_of_a_lost_connection_held_comes_again(up: Real) -> None:
    check_lost_connection(up)


def test_what_is_acknowledged_is_gone(up: Real) -> None:
    async def exchange() -> None:
        name = up.tested.new_destination("queue")
        async with up.tested.connected() as connection:
            sender = await connection.sender(name, persistent=True, transacted=False)
            await sender.send(BODIES, wait=True)
            assert await up.running.depth(name) == 3
            receiver = await connection.receiver(name, ReceiverOptions(2))
            assert len((await receiver.receive()).bodies) == 2
            assert len((await receiver.receive()).bodies) == 1
            assert await up.running.depth(name) == 1
        async with up.tested.connected() as connection:
            receiver = await connection.receiver(name, ReceiverOptions(2))
            arrival = await receiver.receive()
            assert (arrival.bodies.tolist(), arrival.redelivered) == ([BODIES[2].tobytes()], True)

    up.run(exchange())


def test_a_commit_takes_effect_while_the_receiver_waits(up: Real) -> None:
    async def exchange() -> None:
        name = up.tested.new_destination("queue")
        async with up.tested.connected() as connection:
            sender = await connection.sender(name, persistent=True, transacted=False)
            await sender.send(BODIES, wait=True)
            receiver = await connection.receiver(name, ReceiverOptions(10, "transacted"))
            assert len((await receiver.receive()).bodies) == 3
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(receiver.receive(), 0.05)
            assert await up.running.depth(name) == 3
            await receiver.commit()
            assert await up.running.depth(name) == 0

    up.run(exchange())


def test_what_was_not_committed_is_not_sent(up: Real) -> None:
    async def exchange() -> None:
        name = up.tested.new_destination("queue")
        async with up.tested.connected() as connection:
            sender = await connection.sender(name, persistent=True, transacted=True)
            await sender.send(BODIES, wait=False)
            await sender.close()
            assert await up.running.depth(name) == 0

    up.run(exchange())


def test_persistent_messages_of_a_topic_come_to_those_who_are_there(up: Real) -> None:
    async def exchange() -> None:
        async with up.tested.connected() as connection:
            name = up.tested.new_destination("topic")
            sender = await connection.sender(name, persistent=True, transacted=False)
            await sender.send(BODIES, wait=True)
            receivers = [await connection.receiver(name, ReceiverOptions(2)) for _ in range(2)]
            await sender.send(BODIES[:1], wait=True)
            for receiver in receivers:
                assert (await receiver.receive()).bodies.tolist() == [BODIES[0].tobytes()]

    up.run(exchange())


@pytest.mark.parametrize("persistent", [True, False])
def test_several_responders_answer(up: Real, persistent: bool) -> None:
    async def exchange() -> None:
        async with up.tested.connected() as asking, up.tested.connected() as answering:
            requests, shared = up.tested.new_destination("queue"), up.tested.new_destination("queue")
            responders = [await answering.responder(requests, prefetch=1, persistent=persistent) for _ in range(2)]
            for responder in responders:
                responder.start(Answers())
            requesters = [await asking.requester(requests, shared, persistent=persistent) for _ in range(4)]
            for turn in range(5):
                asked = [one.request(b"%d %d" % (n, turn), f"{n}-{turn}") for n, one in enumerate(requesters)]
                assert [reply.body for reply in await asyncio.gather(*asked)] == [
                    b"re:%d %d" % (n, turn) for n in range(4)
                ]
            for requester in requesters:
                await requester.close()
            for responder in responders:
                await responder.stop()
                await responder.close()

    up.run(exchange())


def test_a_request_without_a_responder_is_refused(up: Real) -> None:
    async def exchange() -> None:
        async with up.tested.connected() as connection:
            requester = await connection.requester(up.tested.new_destination("queue"), "queue:r", persistent=False)
            with pytest.raises(DriverError, match="no responder"):
                await requester.request(b"body", "1")

    up.run(exchange())


def test_a_queue_that_is_not_there_cannot_be_removed(up: Real) -> None:
    with pytest.raises(SystemFailedError, match="no queue:none"):
        up.run(up.running.remove("queue:none"))


def test_without_sync_it_is_stamped() -> None:
    assert system("redis").describe()["stamps"] == []
    assert system("redis:sync=no").describe()["stamps"]
