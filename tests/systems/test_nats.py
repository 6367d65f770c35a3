import asyncio

import numpy as np
import pytest

from drivers.answers import Answers
from mqlab.drivers import DriverError, ReceiverOptions
from mqlab.systems import system

from .hanging_system import check_hanging
from .lost_connection import check_lost_connection
from .real_system import CHECKS, Real, real

pytestmark = pytest.mark.needs_system("nats")
up = real("nats")

BODIES = np.arange(36, dtype=np.uint8).reshape(3, 12)


@pytest.mark.parametrize("feature", CHECKS)
def test_it_does_what_it_says(up: Real, feature: str) -> None:
    up.check(feature)


def test_one_that_hangs_is_not_waited_for_without_an_end(up: Real, monkeypatch: pytest.MonkeyPatch) -> None:
    check_hanging(up, monkeypatch)


def test_what_the_consumer_of_a_lost_connection_held_comes_again(up: Real) -> None:
    check_lost_connection(up)


def test_persistent_messages_of_a_queue_wait_for_a_consumer(up: Real) -> None:
    async def exchange() -> None:
        name = up.tested.new_destination("queue")
        async with up.tested.connected() as connection:
            sender = await connection.sender(name, persistent=True, transacted=False)
            await sender.send(BODIES, wait=True)
            await sender.close()
        async with up.tested.connected() as connection:
            receiver = await connection.receiver(name, ReceiverOptions(10))
            assert len((await receiver.receive()).bodies) == 3
        # They were not acknowledged: the connection went away before it asked for more.
        async with up.tested.connected() as connection:
            receiver = await connection.receiver(name, ReceiverOptions(10))
            got: list[bytes] = []
            while len(got) < 3:
                arrival = await receiver.receive()
                assert arrival.redelivered
                got += arrival.bodies.tolist()
            assert sorted(got) == [row.tobytes() for row in BODIES]

    up.run(exchange())


def test_persistent_messages_of_a_topic_go_to_those_who_are_there(up: Real) -> None:
    async def exchange() -> None:
        async with up.tested.connected() as connection:
            name = up.tested.new_destination("topic")
            sender = await connection.sender(name, persistent=True, transacted=False)
            await sender.send(BODIES, wait=True)
            receivers = [await connection.receiver(name, ReceiverOptions(2)) for _ in range(2)]
            await sender.send(BODIES[:1], wait=True)
            for receiver in receivers:
                assert (await receiver.receive()).bodies.tolist() == [BODIES[0].tobytes()]
                await receiver.close()
            await sender.close()

    up.run(exchange())


@pytest.mark.parametrize("persistent", [True, False])
def test_requesters_of_one_connection_ask_at_once(up: Real, persistent: bool) -> None:
    async def exchange() -> None:
        async with up.tested.connected() as asking, up.tested.connected() as answering:
            requests, replies = up.tested.new_destination("queue"), up.tested.new_destination("queue")
            responder, answers = await answering.responder(requests, prefetch=4, persistent=persistent), Answers()
            responder.start(answers)
            requesters = [await asking.requester(requests, replies, persistent=persistent) for _ in range(4)]
            asked = [one.request(b"%d" % n, f"{n}.x") for n, one in enumerate(requesters)]
            assert [reply.body for reply in await asyncio.gather(*asked)] == [b"re:%d" % n for n in range(4)]
            for requester in requesters:
                await requester.close()
            await responder.stop()
            await responder.close()
            assert answers.confirmed == (len(answers.batches) if persistent else 0)

    up.run(exchange())


def test_what_it_lacks_is_refused(up: Real) -> None:
    async def exchange() -> None:
        async with up.tested.connected() as connection:
            with pytest.raises(DriverError, match="no transactions"):
                await connection.sender("queue:q", persistent=True, transacted=True)
            with pytest.raises(DriverError, match="selectors"):
                await connection.receiver("queue:q", ReceiverOptions(1, selector="a = 1"))
            with pytest.raises(DriverError, match="client"):
                await connection.receiver("queue:q", ReceiverOptions(1, "client"))

    up.run(exchange())


def test_without_sync_it_is_stamped() -> None:
    assert system("nats").describe()["stamps"] == []
    assert system("nats:sync=no").describe()["stamps"]
