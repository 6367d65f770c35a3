"""The null server of Kafka with the driver: all that it takes is confirmed, all that it delivers is whole."""

import numpy as np
import pytest

from drivers.kafka.null_server import KafkaNullServer
from drivers.null_servers import against, check_confirming
from mqlab.drivers import DriverConnection, ReceiverOptions


@pytest.mark.parametrize("destination", ["queue:q", "topic:t"])
@pytest.mark.parametrize(("rows", "size"), [(1, 12), (1500, 12), (3, 3_000_000)])
def test_what_is_waited_for_is_confirmed(destination: str, rows: int, size: int) -> None:
    check_confirming("kafka", KafkaNullServer, destination, rows, size)


@pytest.mark.parametrize(("size", "batch"), [(12, 1000), (300, 7), (100_000, 4)])
def test_bodies_come_whole_and_numbered_for_as_long_as_there_is_room(size: int, batch: int) -> None:
    async def play(connection: DriverConnection) -> None:
        # Of one partition, so that they have an order.
        receiver = await connection.receiver("topic:t", ReceiverOptions(16 * batch))
        came, last = 0, -1
        while came < 20 * batch:
            found = (await receiver.receive()).bodies
            assert set(np.diff(found.offsets)) == {size}
            table = found.data.reshape(-1, size)
            numbers = np.concatenate(([last], table[:, 4:12].copy().view("<i8").reshape(-1)))
            # From 0 on in each batch that the peer has.
            assert ((np.diff(numbers) == 1) | (numbers[1:] == 0)).all()
            assert not table[:, 12:].any()
            came, last = came + len(table), numbers[-1]
        await receiver.close()

    against("kafka", lambda: KafkaNullServer(size, batch), play)


def test_what_was_received_of_a_queue_is_acknowledged() -> None:
    async def play(connection: DriverConnection) -> None:
        receiver = await connection.receiver("queue:q", ReceiverOptions(100, "transacted"))
        for _ in range(3):
            assert len((await receiver.receive()).bodies)
            await receiver.commit()
        await receiver.close()

    against("kafka", lambda: KafkaNullServer(12, 10), play)
