"""The parts of an AMQP connection that its sessions and links share."""

import json
from collections.abc import Callable
from typing import Final, NamedTuple, Protocol

from mqlab.broker.server.adapter.commands import NativeCommands
from mqlab.broker.server.amqp.errors import LinkError
from mqlab.broker.server.amqp.messages.packer import MessagePacker
from mqlab.broker.server.amqp.producers import AmqpProducers
from mqlab.broker.server.amqp.transactions import AmqpTransactions
from mqlab.json_values import JsonObject
from mqlab.wire.amqp10.frames import FRAME_HEADER, frame
from mqlab.wire.native.frames import Frame, Kind

# The native session of subscriptions that belong to no client id.
_GLOBAL: Final = 2


class NativeConsumer(Protocol):
    """A link to a receiving client, as the connection sees it."""

    def opened(self) -> None: ...

    def refused(self, error: LinkError) -> None: ...

    def deliver(self, frame: Frame) -> None: ...

    def origin(self, name: str) -> None: ...

    def browsed(self) -> None: ...

    def cancelled(self) -> None: ...


class FoundSubscription(NamedTuple):
    """A durable subscription that exists."""

    topic: str
    shared: bool


class AmqpContext:
    """`find_subscription` looks for a durable subscription by its name; True: of no client id."""

    def __init__(
        self,
        commands: NativeCommands,
        write: Callable[[bytes], None],
        stays_single: Callable[[int], bool],
        find_subscription: Callable[[str, bool], FoundSubscription | None],
        message_limit: int,
        unfinished_limit: int,
        clock_ms: Callable[[], int],
    ) -> None:
        self.commands = commands
        self.producers = AmqpProducers(commands, stays_single)
        self.packer = MessagePacker()
        self.transactions = AmqpTransactions(commands, self.producers)
        self.find_subscription = find_subscription
        self.message_limit = message_limit
        # Bytes of the deliveries that have not arrived completely, of all links, and the most.
        self.unfinished_bytes, self.unfinished_limit = 0, unfinished_limit
        self.clock_ms = clock_ms
        # The largest frame that the client accepts.
        self.frame_limit = 512
        # By the number of their native link.
        self.consumers: dict[int, NativeConsumer] = {}
        self._write = write
        self._has_global_session = False
        # Callbacks of admin requests by their number.
        self._requests: dict[int, Callable[[JsonObject], None]] = {}
        self._last_request = 0

    def ask(self, request: JsonObject, answered: Callable[[JsonObject], None]) -> None:
        """Make an admin request; `answered` gets the answer, or an object with `error`."""
        self._last_request += 1
        self._requests[self._last_request] = answered
        self.commands.add(Kind.ASK, json.dumps(request).encode(), first=self._last_request)

    def answered(self, frame: Frame) -> None:
        self._requests.pop(frame.first)(frame.json())

    def write(self, channel: int, body: bytes) -> None:
        self._write(frame(channel, body))

    def write_parts(self, channel: int, head: bytes, message: bytes) -> None:
        """Write a frame whose body has two parts."""
        self._write(b"".join((FRAME_HEADER.pack(8 + len(head) + len(message), 2, 0, channel), head, message)))

    def end_writing(self) -> None:
        """The last frame is written: what the broker still does for open links is not told."""
        self._write = lambda _: None

    def global_session(self) -> int:
        """The native session whose subscriptions belong to no client id."""
        if not self._has_global_session:
            self._has_global_session = True
            self.commands.add_json(Kind.OPEN_SESSION, {"transacted": False, "shared": True}, session=_GLOBAL)
        return _GLOBAL
