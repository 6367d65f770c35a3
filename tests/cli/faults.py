"""Systems that do what a system must not: the embedded broker, behind drivers with a fault each.

Agents are processes of their own: `sitecustomize.py`, in a folder on their PYTHONPATH, has them import this file.
"""

import numpy as np

from mqlab.client import aio
from mqlab.drivers import DRIVERS, Driver, DriverConnection, ReceivedBatch, Receiver, ReceiverOptions
from mqlab.drivers.native.driver import NativeConnection, NativeDriver
from mqlab.systems import SYSTEMS, System
from mqlab.systems.embedded.system import Embedded
from mqlab.wire.native.bodies import Bodies

NUMBER = 3  # messages that meet the fault


def rows(bodies: Bodies, begin: int, end: int) -> Bodies:
    return Bodies(bodies.data, bodies.offsets[begin : end + 1])


def joined(*parts: Bodies) -> Bodies:
    sizes = np.concatenate([np.diff(part.offsets) for part in parts])
    data = np.concatenate([part.data[part.offsets[0] : part.offsets[-1]] for part in parts])
    return Bodies(data, np.concatenate(([0], np.cumsum(sizes))).astype(np.int32))


class Faulty(Receiver):
    """Spoils the first batch that is large enough for it."""

    def __init__(self, real: Receiver) -> None:
        self._real = real
        self._spoiled = False

    async def receive(self) -> ReceivedBatch:
        arrival = await self._real.receive()
        if self._spoiled or len(arrival.bodies) < 2 * NUMBER:
            return arrival
        self._spoiled = True
        return ReceivedBatch(self.spoil(arrival.bodies), arrival.redelivered)

    def spoil(self, bodies: Bodies) -> Bodies:
        raise NotImplementedError

    async def commit(self) -> None:
        await self._real.commit()

    async def close(self) -> None:
        await self._real.close()


class Drops(Faulty):
    def spoil(self, bodies: Bodies) -> Bodies:
        return rows(bodies, NUMBER, len(bodies))


class Doubles(Faulty):
    def spoil(self, bodies: Bodies) -> Bodies:
        return joined(bodies, rows(bodies, len(bodies) - NUMBER, len(bodies)))


class Reorders(Faulty):
    def spoil(self, bodies: Bodies) -> Bodies:
        return joined(rows(bodies, NUMBER, len(bodies)), rows(bodies, 0, NUMBER))


class Damages(Faulty):
    def spoil(self, bodies: Bodies) -> Bodies:
        data = bodies.data.copy()
        data[bodies.offsets[1 : NUMBER + 1] - 1] ^= 1  # the last byte of each
        return Bodies(data, bodies.offsets)


class FaultyConnection(NativeConnection):
    def __init__(self, connection: aio.Connection, fault: type[Faulty]) -> None:
        super().__init__(connection)
        self._fault = fault

    async def receiver(self, destination: str, how: ReceiverOptions) -> Receiver:
        return self._fault(await super().receiver(destination, how))


def driver_with(fault: type[Faulty]) -> type[Driver]:
    class FaultyDriver(NativeDriver):
        async def connect(self, application: str = "") -> DriverConnection:
            return FaultyConnection(await aio.connect(self.address, application=application), fault)

    return FaultyDriver


def system_with(fault: str) -> type[System]:
    return type(fault, (Embedded,), {"name": fault, "drivers": (fault,)})


FAULTS: dict[str, type[Faulty]] = {"drops": Drops, "doubles": Doubles, "reorders": Reorders, "damages": Damages}


def install() -> None:
    for name, fault in FAULTS.items():
        DRIVERS[name] = driver_with(fault)
        SYSTEMS[name] = system_with(name)
