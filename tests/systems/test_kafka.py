import asyncio

import numpy as np
import pytest
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType

from mqlab.drivers import DRIVERS, DriverError, ReceiverOptions, Sender
from mqlab.drivers.kafka.client import topic_of
from mqlab.systems import system

from .hanging_system import check_hanging
from .real_system import CHECKS, Real, real

pytestmark = pytest.mark.needs_system("kafka")
up = real("kafka:memory=256M")

BODIES = np.arange(36, dtype=np.uint8).reshape(3, 12)


@pytest.mark.parametrize("feature", CHECKS)
def test_it_does_what_it_says(up: Real, feature: str) -> None:
    up.check(feature)


def test_a_consumer_goes_on_where_the_last_one_acknowledged(up: Real) -> None:
    async def exchange() -> None:
        name = up.tested.new_destination("queue")
        async with up.tested.connected() as connection:
            sender = await connection.sender(name, persistent=True, transacted=False)
            await sender.send(BODIES, wait=True)
            receiver = await connection.receiver(name, ReceiverOptions(2))
            assert (await receiver.receive()).bodies.tolist() == [row.tobytes() for row in BODIES[:2]]
            await receiver.receive()
        async with up.tested.connected() as connection:
            receiver = await connection.receiver(name, ReceiverOptions(2))
            assert (await receiver.receive()).bodies.tolist() == [BODIES[2].tobytes()]

    up.run(exchange())


def test_what_was_not_committed_is_not_received(up: Real) -> None:
    async def exchange() -> None:
        name = up.tested.new_destination("topic")
        async with up.tested.connected() as connection:
            receiver = await connection.receiver(name, ReceiverOptions(10))
            left = await connection.sender(name, persistent=True, transacted=True)
            await left.send(BODIES, wait=False)
            await left.close()
            sender = await connection.sender(name, persistent=True, transacted=True)
            await sender.send(BODIES[:1], wait=False)
            await sender.commit()
            assert (await receiver.receive()).bodies.tolist() == [BODIES[0].tobytes()]

    up.run(exchange())


def test_what_it_lacks_is_refused(up: Real) -> None:
    async def exchange() -> None:
        async with up.tested.connected() as connection:
            with pytest.raises(DriverError, match="position"):
                await connection.receiver("queue:q", ReceiverOptions(1, "client"))
            with pytest.raises(DriverError, match="properties"):
                await connection.receiver("queue:q", ReceiverOptions(1, selector="a = 1"))

    up.run(exchange())


def test_a_message_that_is_too_large_is_heard(up: Real) -> None:
    async def exchange() -> None:
        async with up.tested.connected() as connection:
            sender = await connection.sender(up.tested.new_destination("topic"), persistent=False, transacted=False)
            with pytest.raises(DriverError, match="Kafka"):
                await sender.send(np.zeros((1, 65 << 20), dtype=np.uint8), wait=True)

    up.run(exchange())


def test_a_message_that_the_broker_does_not_take_is_heard(up: Real) -> None:
    async def exchange() -> None:
        async with up.tested.connected() as connection:
            name = up.tested.new_destination("topic")
            sender = await connection.sender(name, persistent=False, transacted=False)
            await asyncio.to_thread(limit, up.running.address.removeprefix("tcp:"), topic_of(name))
            with pytest.raises(DriverError, match="did not accept"):
                await asyncio.wait_for(send_on(sender), 240)

    async def send_on(sender: Sender) -> None:
        """The broker has agreed to the limit, and will soon observe it."""
        while True:
            await sender.send(np.zeros((1, 1000), dtype=np.uint8), wait=True)

    def limit(server: str, topic: str) -> None:
        entry = ConfigEntry("max.message.bytes", "100", incremental_operation=AlterConfigOpType.SET)
        resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=[entry])
        admin = AdminClient({"bootstrap.servers": server, "log_level": 0})
        admin.incremental_alter_configs([resource])[resource].result()

    up.run(exchange())


def test_one_that_hangs_is_not_waited_for_without_an_end(up: Real, monkeypatch: pytest.MonkeyPatch) -> None:
    check_hanging(up, monkeypatch)


def test_nobody_is_there() -> None:
    async def connect() -> None:
        await DRIVERS["kafka"]("tcp:127.0.0.1:1").connect()

    with pytest.raises(DriverError, match="cannot connect to tcp:127"):
        asyncio.run(connect())


def test_without_sync_it_is_stamped() -> None:
    assert system("kafka").describe()["stamps"] == []
    assert system("kafka:sync=no").describe()["stamps"]
