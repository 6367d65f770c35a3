"""Iterating over the messages of a consumer, or over their bodies alone."""

from abc import ABC, abstractmethod
from collections.abc import Iterator

from mqlab.client.errors import ClosedError
from mqlab.client.message import Message, UnreadMessages


class MessageIteration(ABC):
    """Gives the unread messages of a delivery one by one, and receives the next delivery after them."""

    # The exception that ends an iteration.
    end_error: type[ClosedError] = ClosedError

    def __init__(self, *, acknowledges_soon: bool) -> None:
        # Messages of the current delivery.
        self.unread = UnreadMessages()
        # Whether a receive must schedule the acknowledgement of the messages before.
        self.acknowledge_due = acknowledges_soon

    @abstractmethod
    async def receive(self) -> Message:
        """The next message."""

    @abstractmethod
    def acknowledge_soon(self) -> None:
        """Schedule the acknowledgement of all messages but the last one."""

    def bodies(self) -> "BodyIterator":
        """Iterate over bodies alone. Each is received and acknowledged as its message would be."""
        return BodyIterator(self)

    def ready_bodies(self) -> Iterator[bytes]:
        """Iterate over the bodies of messages that have arrived: never waits, and ends when none is left."""
        while len(self.unread):
            if self.acknowledge_due:
                self.acknowledge_soon()
            yield from self.unread.bodies

    def __aiter__(self) -> "MessageIteration":
        return self

    async def __anext__(self) -> Message:
        for message in self.unread.messages:
            if self.acknowledge_due:
                self.acknowledge_soon()
            return message
        try:
            return await self.receive()
        except self.end_error:
            raise StopAsyncIteration from None


class BodyIterator:
    """The bodies of a consumer's messages."""

    def __init__(self, consumer: MessageIteration) -> None:
        self._consumer = consumer

    def __aiter__(self) -> "BodyIterator":
        return self

    async def __anext__(self) -> bytes:
        consumer = self._consumer
        for body in consumer.unread.bodies:
            if consumer.acknowledge_due:
                consumer.acknowledge_soon()
            return body
        return (await consumer.__anext__()).body
