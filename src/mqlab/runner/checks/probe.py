"""A few persistent messages, one by one, each waited for: how a system confirms can then be seen."""

import time

from mqlab.drivers import DRIVERS, ReceiverOptions
from mqlab.runner.agents.bodies import BodyMaker

_SIZE = 1024
_NOBODY = 0


async def probe(
    driver: str, address: str, options: dict[str, str], destination: str, messages: int
) -> list[list[float]]:
    """When each left and when it was confirmed, by the wall clock. None is left there. Raises DriverError."""
    connection = await DRIVERS[driver](address, options).connect("Probe")
    try:
        receiver = await connection.receiver(destination, ReceiverOptions(messages))
        sender = await connection.sender(destination, persistent=True, transacted=False)
        maker, times = BodyMaker(_NOBODY, _SIZE, 1), []
        for seq in range(messages):
            body = maker.make(seq, 1)
            sent = time.time()
            await sender.send(body, wait=True)
            times.append([sent, time.time()])
        await sender.close()
        left = messages
        while left > 0:
            left -= len((await receiver.receive()).bodies)
        await receiver.close()
    finally:
        await connection.close()
    return times
