"""The probe of the sync check: a few persistent messages, each sent when the one before is confirmed."""

import time

from mqlab.drivers import DRIVERS, ReceiverOptions
from mqlab.runner.agents.bodies import BodyMaker

_SIZE_BYTES = 1024
_PRODUCER = 0


async def probe(
    driver: str, address: str, options: dict[str, str], destination: str, messages: int
) -> list[list[float]]:
    """When each was sent and confirmed, by the wall clock. It also receives them. Raises DriverError."""
    connection = await DRIVERS[driver](address, options).connect("Probe")
    try:
        receiver = await connection.receiver(destination, ReceiverOptions(messages))
        sender = await connection.sender(destination, persistent=True, transacted=False)
        maker, times = BodyMaker(_PRODUCER, _SIZE_BYTES, 1), []
        for seq in range(messages):
            body = maker.make(seq, 1)
            sent = time.time()
            await sender.send(body, wait=True)
            times.append([sent, time.time()])
        await sender.close()
        unreceived = messages
        while unreceived > 0:
            unreceived -= len((await receiver.receive()).bodies)
        await receiver.close()
    finally:
        await connection.close()
    return times
