"""What a spy knows of a producer or consumer: its part of every record, and what was not answered yet."""

from __future__ import annotations

from collections import deque
from typing import Any, Final

from mqlab.broker.core.links import Consumer, Producer
from mqlab.broker.server.tracing.detail import More, about, ids_of
from mqlab.broker.server.tracing.records import Subject
from mqlab.wire.bodies import Payload

# Where the records go. Operations on this queue are not recorded: who reads the trace would never come to its end.
TRACE_QUEUE: Final = "queue:mqlab.trace"


# An operation whose answer is still to come: a sequence number, or the id that was asked for; subject, when it began,
# messages, bytes, and more.
Unanswered = tuple[Any, Subject, int, int, int, More | None]


class Link:
    __slots__ = (
        "about", "acknowledge", "answered", "close", "done", "get", "pushed", "put", "receive", "room",
        "unconfirmed", "waiting",
    )  # fmt: skip

    def __init__(self, connection: int, application: str, link: Producer | Consumer) -> None:
        def subject(operation: str) -> Subject:
            return Subject(connection, application, operation, destination_of(link))

        self.about = about(link.session.number, link.link)
        # Sends of a transaction are answered with its commit.
        self.answered = not link.session.transacted
        self.close = subject("close")
        self.unconfirmed: deque[Unanswered] = deque()
        self.waiting: deque[Unanswered] = deque()
        if isinstance(link, Producer):
            self.put = subject("put")
            return
        self.get = subject("get" if link.browsing is None else "browse")
        self.receive, self.acknowledge, self.room = subject("get-by-id"), subject("acknowledge"), subject("room")
        # It had or has room: not everything that comes is what it asked for.
        self.pushed = link.credit > 0
        # The delivery id up to which all is done.
        self.done = (link.unacknowledged[0][0] if link.unacknowledged else link.next_delivery) - 1

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
