"""Queues, and topics as sets of queues: each subscription of a topic has one."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from heapq import merge

from mqlab.broker.core.effects import Deliver, Effect
from mqlab.broker.core.links import Consumer, Producer
from mqlab.broker.core.messages import Span

# A full destination accepts again when it has fallen to this share of its limit: without the gap each message
# taken would release a producer for one message, with a frame for each.
RELEASE_SHARE = 0.75


class Queue:
    """Messages in the order of their ids, and the consumers that compete for them."""

    def __init__(self, number: int, name: str, limit: int, *, stored: bool) -> None:
        self.number = number
        self.name = name
        self.limit = limit
        # Its persistent messages go to the journal. A non-durable subscription ends with its consumer: nothing to keep.
        self.stored = stored
        self.next_id = 1
        self.spans: deque[Span] = deque()
        self.consumers: deque[Consumer] = deque()
        self.producers: set[Producer] = set()
        # Of all messages not yet acknowledged, delivered or not.
        self.messages = 0
        self.size = 0
        self.full = False
        # The topic it is a subscription of, until it is closed.
        self.topic: Topic | None = None
        self.closed = False

    def new_ids(self, rows: int) -> int:
        first = self.next_id
        self.next_id += rows
        return first

    def reserve(self, span: Span) -> None:
        """The queue answers for these messages from now on, be they visible yet or not."""
        self.messages += span.rows
        self.size += span.size
        if self.size >= self.limit:
            self.full = True

    def release(self, span: Span) -> None:
        self.messages -= span.rows
        self.size -= span.size
        if self.full and self.size <= self.limit * RELEASE_SHARE:
            self.full = False

    def put(self, span: Span, effects: list[Effect]) -> None:
        """Make reserved messages visible."""
        self.spans.append(span)
        self.dispatch(effects)

    def put_back(self, spans: Iterable[Span], effects: list[Effect]) -> None:
        """Messages that were delivered in vain go to where their ids belong."""
        returned = sorted(spans, key=_first_id)
        if not self.spans or not returned or returned[-1].first_id < self.spans[0].first_id:
            self.spans.extendleft(reversed(returned))
        else:
            self.spans = deque(merge(returned, self.spans, key=_first_id))
        self.dispatch(effects)

    def dispatch(self, effects: list[Effect]) -> None:
        """Give what there is to those who have room, in turn."""
        while self.spans:
            consumer = self._next_ready()
            if consumer is None:
                return
            span = self.spans.popleft()
            if span.rows > consumer.credit:
                span, rest = span.split(consumer.credit)
                self.spans.appendleft(rest)
            first = consumer.next_delivery
            consumer.next_delivery += span.rows
            consumer.credit -= span.rows
            consumer.unacknowledged.append((first, span))
            effects.append(Deliver(consumer, first, span))

    def _next_ready(self) -> Consumer | None:
        consumers = self.consumers
        if len(consumers) == 1:
            return consumers[0] if consumers[0].ready else None
        for _ in range(len(consumers)):
            consumer = consumers[0]
            consumers.rotate(-1)
            if consumer.ready:
                return consumer
        return None


class Topic:
    """Every subscription gets every message that is sent while it exists."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.subscriptions: list[Queue] = []
        self.producers: set[Producer] = set()

    @property
    def full(self) -> bool:
        """The slowest subscription decides: the others wait for it, since nothing may be dropped."""
        return any(queue.full for queue in self.subscriptions)


def _first_id(span: Span) -> int:
    return span.first_id
