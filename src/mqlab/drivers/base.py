"""The interface between a role and a protocol. Everything moves in batches; a message alone is a batch of one."""

from abc import ABC, abstractmethod
from typing import NamedTuple

import numpy as np

from mqlab.wire.bodies import Bodies

# Bodies of one size: row i is message i.
Matrix = np.ndarray[tuple[int, int], np.dtype[np.uint8]]


class DriverError(Exception):
    """The system cannot be reached, refused, or went away. What was not confirmed may or may not have arrived."""


class Arrival(NamedTuple):
    """Messages that one consumer got together."""

    bodies: Bodies
    redelivered: bool


class Sender(ABC):
    """What a producer uses. All methods raise DriverError."""

    @abstractmethod
    async def send(self, bodies: Matrix, *, wait: bool) -> None:
        """Send these messages; with `wait`, return when the system has confirmed them. The array may be reused."""

    @abstractmethod
    async def commit(self) -> None:
        """End the transaction, and return when that is safe."""

    @abstractmethod
    async def close(self) -> None:
        """Return when the system has taken everything that was sent."""


class Receiver(ABC):
    """What a consumer uses. All methods raise DriverError."""

    @abstractmethod
    async def receive(self) -> Arrival:
        """The next messages. What was received before is acknowledged, unless the session is transacted."""

    @abstractmethod
    async def commit(self) -> None: ...

    @abstractmethod
    async def close(self) -> None: ...


class Connection(ABC):
    @abstractmethod
    async def sender(self, destination: str, *, persistent: bool, transacted: bool) -> Sender:
        """A session of its own with one producer."""

    @abstractmethod
    async def receiver(self, destination: str, *, prefetch: int, transacted: bool) -> Receiver:
        """A session of its own with one consumer that has room for `prefetch` messages."""

    @abstractmethod
    async def close(self) -> None: ...


class Driver(ABC):
    """One protocol."""

    def __init__(self, address: str) -> None:
        self.address = address

    @abstractmethod
    async def connect(self) -> Connection: ...
