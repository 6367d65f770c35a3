"""A connection to a real system that is reset: what its consumer had not acknowledged comes again."""

from contextlib import suppress

from mqlab.drivers import DriverError, ReceiverOptions
from mqlab.runner.capability import driver_class
from mqlab.runner.checks.feature_checks import NumberedProducer
from mqlab.runner.faults.line import open_line
from mqlab.runner.faults.proxy import LineState

from .real_system import Real

_MESSAGES = 3
# A system that does not notice the end of a connection waits for so long.
_REDELIVER_AFTER_S = 1.0


def check_lost_connection(up: Real) -> None:
    """All messages come again, those that a consumer had got with the redelivered mark."""
    up.run(_lost_connection(up))


async def _lost_connection(up: Real) -> None:
    tested = up.tested
    name, how = tested.new_destination("queue"), ReceiverOptions(10, redeliver_after_s=_REDELIVER_AFTER_S)
    bodies = NumberedProducer().bodies(_MESSAGES)
    async with tested.connected("Sender") as connection:
        sender = await connection.sender(name, persistent=True, transacted=False)
        await sender.send(bodies, wait=True)
        await sender.close()
    async with open_line(up.running.address) as line:
        lost = await driver_class(up.system)(line.address, up.running.options).connect("Lost")
        receiver = await lost.receiver(name, how)
        held = (await receiver.receive()).bodies.tolist()
        await line.change(LineState(accepts=False))
        with suppress(DriverError):
            while True:
                held += (await receiver.receive()).bodies.tolist()
        with suppress(DriverError):
            await lost.close()
    arrived: dict[bytes, bool] = {}
    async with tested.connected("Next") as connection:
        receiver = await connection.receiver(name, how)
        while len(arrived) < _MESSAGES:
            arrival = await receiver.receive()
            arrived |= dict.fromkeys(arrival.bodies.tolist(), arrival.redelivered)
    assert sorted(arrived) == sorted(row.tobytes() for row in bodies)
    assert all(arrived[body] for body in held)
