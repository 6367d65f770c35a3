"""The null server of AMQP 1.0 with the driver: all that it takes is confirmed, all that it delivers is whole."""

import pytest

pytest.importorskip("proton", reason="python-qpid-proton is not installed")

import numpy as np

from drivers.amqp10.null_server import Amqp10NullServer
from drivers.null_servers import against, check_confirming
from mqlab.drivers import DriverConnection, ReceiverOptions


# Numbers of deliveries and tags get longer on the way; a body of 3 MB comes in several frames.
@pytest.mark.parametrize(("rows", "size"), [(1, 12), (1500, 12), (3, 3_000_000)])
def test_what_is_waited_for_is_confirmed(rows: int, size: int) -> None:
    check_confirming("amqp10", Amqp10NullServer, "queue:q", rows, size)


# One of 100 kB comes in several frames, since the driver takes no longer ones.
@pytest.mark.parametrize(("size", "batch"), [(12, 1000), (300, 7), (100_000, 4)])
def test_bodies_come_whole_and_numbered_for_as_long_as_there_is_room(size: int, batch: int) -> None:
    async def play(connection: DriverConnection) -> None:
        receiver = await connection.receiver("queue:q", ReceiverOptions(16 * batch))
        came = 0
        while came < 20 * batch:
            found = (await receiver.receive()).bodies
            assert set(np.diff(found.offsets)) == {size}
            table = found.data.reshape(-1, size)
            numbers = table[:, 4:12].copy().view("<u8").reshape(-1)
            # From 0 on in each write.
            assert ((np.diff(numbers.astype(int)) == 1) | (numbers[1:] == 0)).all()
            assert not table[:, 12:].any()
            came += len(numbers)
        await receiver.close()

    against("amqp10", lambda: Amqp10NullServer(size, batch), play)
