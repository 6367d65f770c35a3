"""The native connection inside an MQTT connection."""

from collections import deque
from typing import Protocol

from mqlab.broker.core import effects
from mqlab.broker.core.model.queue import Queue
from mqlab.broker.server.broker import Broker
from mqlab.broker.server.inprocess.connection import InProcessConnection
from mqlab.wire.native.frames import Kind


class ConnectionOwner(Protocol):
    """The MQTT connection, as its native connection sees it."""

    def unsent(self) -> list[tuple[int, int, int]]:
        """Link, first delivery id and number of messages that the client was not sent."""

    def dropped(self, *, taken_over: bool) -> None:
        """The broker ends the connection: tell the client why."""

    def lost(self) -> None:
        """The native connection has ended, and its consumers are closed."""


class MqttCoreConnection(InProcessConnection):
    """It also says which messages, by their ids on their queue, a delivery has."""

    def __init__(self, broker: Broker) -> None:
        super().__init__(broker)
        self.owner: ConnectionOwner | None = None
        # Of each DELIVER frame that the owner has not read: first id and number of messages, in ranges.
        self.message_ids: deque[list[tuple[int, int]]] = deque()

    def deliver(self, effect: effects.Deliver) -> None:
        self.message_ids.append(effect.span.ranges())
        super().deliver(effect)

    def check_send(self, destination: str) -> None:
        """Raises AccessDeniedError if the client must not send to the destination."""
        self.access.check_frame(Kind.OPEN_PRODUCER, destination=destination)

    def queue_of(self, link: int) -> Queue:
        return self._consumers[link].queue

    def drop(self, *, taken_over: bool = False) -> None:
        if self._transport is not None and self.owner is not None:
            self.owner.dropped(taken_over=taken_over)

    def connection_lost(self, error: Exception | None) -> None:
        owner, self.owner = self.owner, None
        if owner is not None:
            for link, first, rows in owner.unsent():
                if link in self._consumers:
                    self._core.requeue_rows(self._consumers[link], first, rows)
        super().connection_lost(error)
        self.message_ids.clear()
        if owner is not None:
            owner.lost()
