"""What a spy knows of a producer or consumer: its part of every record, and what was not answered yet."""

from __future__ import annotations

from collections import deque
from typing import Any, Final

from mqlab.broker.core.model.sessions import Consumer, Producer
from mqlab.broker.server.trace.detail import More, about, ids_of
from mqlab.broker.server.trace.records import Subject
from mqlab.wire.native.bodies import Payload

# Where the records go. Operations on this queue are not recorded: who reads the trace would never come to its end.
TRACE_QUEUE: Final = "queue:mqlab.trace"


# An operation whose answer is still to come: a sequence number, or the id that was asked for; subject, when it began,
# messages, bytes, and more.
Unanswered = tuple[Any, Subject, int, int, int, More | None]


class Link:
    __slots__ = (
        "about", "acknowledge", "answered", "close", "consumer", "done", "get", "pushed", "put", "receive", "room",
        "unconfirmed", "waiting",
    )  # fmt: skip

    def __init__(self, connection: int, application: str, link: Producer | Consumer) -> None:
        destination = destination_of(link)

        def subject(operation: str) -> Subject:
            return Subject(connection, application, operation, destination)

        self.about = about(link.session.number, link.link)
        # Sends of a transaction are answered with its commit.
        self.answered = not link.session.transacted
        # A client may name a producer where a consumer belongs, and the other way round: that fails, and is recorded.
        self.put, self.close, self.receive = subject("put"), subject("close"), subject("get-by-id")
        self.acknowledge, self.room = subject("acknowledge"), subject("room")
        self.unconfirmed: deque[Unanswered] = deque()
        self.waiting: deque[Unanswered] = deque()
        self.consumer = consumer = link if isinstance(link, Consumer) else None
        self.get = subject("get" if consumer is None or consumer.browsing is None else "browse")
        # It had or has room: not everything that comes is what it asked for.
        self.pushed = consumer is not None and consumer.credit > 0
        # The delivery id up to which all is done.
        self.done = 0
        if consumer is not None:
            held = consumer.unacknowledged
            self.done = (held[0][0] if held else consumer.next_delivery) - 1

    def covered(self, up_to: int) -> int:
        """Messages that an acknowledgement up to this delivery id covers, before it is carried out."""
        if self.consumer is None:
            return 0
        return max(0, min(up_to, self.consumer.next_delivery - 1) - self.done)

    def asked_for(self, payload: Payload) -> Unanswered | None:
        """The receive by id that this delivery answers."""
        waiting = self.waiting
        if len(waiting) == 1 and not self.pushed:
            return waiting.pop()
        if payload.rows == 1:
            correlation_id, message_id = ids_of(payload)
            keys = (None if correlation_id is None else correlation_id.encode(), message_id)
            for at, one in enumerate(waiting):
                if one[0] in keys:
                    del waiting[at]
                    return one
        return None


def destination_of(link: Producer | Consumer) -> str:
    return link.destination.full_name if isinstance(link, Producer) else link.queue.full_name
