"""A producer or consumer as a recorder sees it: the labels of its records, and its operations without an answer."""

from collections import deque
from typing import Final, TypeVar

from mqlab.broker.core.model.sessions import CoreConsumer, CoreProducer
from mqlab.broker.server.trace.detail import RawDetail, detail_prefix, ids_of
from mqlab.broker.server.trace.records import RecordLabels
from mqlab.wire.native.bodies import Payload

# The queue of the trace records. Operations on it are not recorded: a reader of the trace would never reach its end.
TRACE_QUEUE: Final = "queue:mqlab.trace"


# An operation that has no answer yet: the sequence number of a send or the id of a receive, labels, when it began,
# messages, bytes, and the detail.
Key = TypeVar("Key")
PendingOperation = tuple[Key, RecordLabels, int, int, int, RawDetail | None]


class TracedLink:
    __slots__ = (
        "acknowledge", "acknowledged_up_to", "close", "confirms", "consumer", "get", "had_credit", "prefix", "put",
        "receive", "receives", "room", "unconfirmed",
    )  # fmt: skip

    def __init__(self, connection: int, application: str, link: CoreProducer | CoreConsumer) -> None:
        destination = destination_of(link)

        def labels(operation: str) -> RecordLabels:
            return RecordLabels(connection, application, operation, destination)

        self.prefix = detail_prefix(link.session.number, link.link)
        # The broker confirms sends of a transaction with its commit.
        self.confirms = not link.session.transacted
        # A client may name a producer in place of a consumer, or the reverse: the command fails, and that is recorded.
        self.put, self.close, self.receive = labels("put"), labels("close"), labels("get-by-id")
        self.acknowledge, self.room = labels("acknowledge"), labels("room")
        self.unconfirmed: deque[PendingOperation[int]] = deque()
        self.receives: deque[PendingOperation[bytes]] = deque()
        self.consumer = consumer = link if isinstance(link, CoreConsumer) else None
        self.get = labels("get" if consumer is None or consumer.browser is None else "browse")
        # A consumer that had credit may get deliveries that answer no receive.
        self.had_credit = consumer is not None and consumer.credit > 0
        # The last delivery id of those without a gap that the consumer has acknowledged.
        self.acknowledged_up_to = 0
        if consumer is not None:
            unacknowledged = consumer.unacknowledged
            self.acknowledged_up_to = (unacknowledged[0][0] if unacknowledged else consumer.next_delivery) - 1

    def covered(self, up_to: int) -> int:
        """How many messages an acknowledgement up to this delivery id will cover."""
        if self.consumer is None:
            return 0
        return max(0, min(up_to, self.consumer.next_delivery - 1) - self.acknowledged_up_to)

    def take_receive(self, payload: Payload) -> PendingOperation[bytes] | None:
        """Remove and return the receive by id that this delivery answers."""
        receives = self.receives
        if len(receives) == 1 and not self.had_credit:
            return receives.pop()
        if payload.rows == 1:
            correlation_id, message_id = ids_of(payload)
            keys = (None if correlation_id is None else correlation_id.encode(), message_id)
            for index, receive in enumerate(receives):
                if receive[0] in keys:
                    del receives[index]
                    return receive
        return None


def destination_of(link: CoreProducer | CoreConsumer) -> str:
    return link.destination.full_name if isinstance(link, CoreProducer) else link.queue.full_name
