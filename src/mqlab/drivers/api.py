"""The interface between a role and a protocol. Everything moves in batches; a message alone is a batch of one."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, ClassVar, Literal, NamedTuple

import numpy as np

from mqlab.errors import MqlabError
from mqlab.wire.native.bodies import Bodies

# Bodies of one size: row i is message i.
Matrix = np.ndarray[tuple[int, int], np.dtype[np.uint8]]
# A value for each message by the name of the property; the type of the array is the type of the property.
Properties = Mapping[str, "np.ndarray[tuple[int], np.dtype[Any]]"]
# When what was received is done. auto, dups_ok: when the next is asked for (dups_ok: told lazily); client: the driver
# says so after each arrival; transacted: with the commit.
Acknowledge = Literal["auto", "dups_ok", "client", "transacted"]


class DriverError(MqlabError):
    """The system cannot be reached, refused, or went away. What was not confirmed may or may not have arrived."""


@dataclass(frozen=True)
class Receiving:
    """How a consumer receives: it has room for `prefetch` messages; `durable` names its subscription, if that lasts."""

    prefetch: int
    acknowledge: Acknowledge = "auto"
    selector: str = ""
    durable: str = ""


class Arrival(NamedTuple):
    """Messages that one consumer got together."""

    bodies: Bodies
    redelivered: bool


class Reply(NamedTuple):
    body: bytes
    redelivered: bool


class Sender(ABC):
    """What a producer uses. All methods raise DriverError."""

    @abstractmethod
    async def send(self, bodies: Matrix, *, wait: bool, properties: Properties | None = None) -> None:
        """Send these messages; with `wait`, return when the system has confirmed them. The array may be reused."""

    @abstractmethod
    async def commit(self) -> None:
        """End the transaction, and return when that is safe."""

    async def taken(self, all_but: int) -> None:
        """Return when the system has taken all but at most so many of the messages that were sent.

        Of a driver that `tells_taken`, and not within a transaction.
        """
        raise DriverError(f"nothing tells what the system has taken, and what it has not ({all_but} messages)")

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


class Requester(ABC):
    """What a requester uses: one request at a time. All methods raise DriverError."""

    @abstractmethod
    async def request(self, body: bytes, correlation_id: str) -> Reply:
        """Send it, and wait for the reply with just this correlation id, whatever else lies on the reply queue."""

    @abstractmethod
    async def close(self) -> None: ...


class Responder(ABC):
    """What a responder uses. All methods raise DriverError."""

    @abstractmethod
    async def receive(self) -> Arrival:
        """The next requests. Those received before are acknowledged."""

    @abstractmethod
    async def reply(self, bodies: Sequence[bytes], *, wait: bool) -> None:
        """Answer all requests of the last arrival, in their order, each where its requester wants it."""

    @abstractmethod
    async def close(self) -> None:
        """Return when the system has taken all replies."""


class Connection(ABC):
    """A protocol that does not have one of these raises DriverError, and says so."""

    @abstractmethod
    async def sender(self, destination: str, *, persistent: bool, transacted: bool) -> Sender:
        """A session of its own with one producer."""

    @abstractmethod
    async def receiver(self, destination: str, how: Receiving) -> Receiver:
        """A session of its own with one consumer."""

    @abstractmethod
    async def requester(self, destination: str, reply_to: str, *, persistent: bool) -> Requester:
        """A session of its own that sends requests, and finds its replies on a queue that many may share."""

    @abstractmethod
    async def responder(self, destination: str, *, prefetch: int, persistent: bool) -> Responder:
        """A session of its own that receives requests and sends replies."""

    @abstractmethod
    async def subscribe(self, topic: str, how: Receiving) -> None:
        """Makes the durable subscription, and leaves it."""

    @abstractmethod
    async def unsubscribe(self, durable: str) -> None:
        """Ends a durable subscription that nobody uses now."""

    @abstractmethod
    async def preload(self, queue: str, bodies: Matrix, *, persistent: bool) -> None:
        """Put messages there with correlation ids that nobody asks for; return when the system has them."""

    @abstractmethod
    async def close(self) -> None: ...


class Driver(ABC):
    """One protocol. `options` say what a client must know beside the address: user, password, the jars of a library."""

    # Features of `mqlab.study.FEATURES` that the protocol, or this driver, has not, each with the reason.
    lacks: ClassVar[Mapping[str, str]] = {}
    # Bytes of bodies that a producer which waits for nothing hands over in one send. What is in a batch is under way at
    # once; more of it makes no protocol that sends message by message any faster. None: a batch is what moves.
    at_once: ClassVar[int | None] = 64 * 1024
    # Whether its senders know what the system has taken without waiting for each send. If not, how far ahead they are
    # is up to the system and to the buffers on the way.
    tells_taken: ClassVar[bool] = False

    def __init__(self, address: str, options: Mapping[str, str] = MappingProxyType({})) -> None:
        self.address = address
        self.options = options

    @abstractmethod
    async def connect(self, application: str = "") -> Connection:
        """`application` is what the system shows the client as, where it can."""
