"""Receives by id: consumers that wait for a message with a correlation id or message id, and the indexes of a queue."""

from collections import deque
from collections.abc import Mapping
from functools import partial
from typing import Final

from mqlab.broker import limits
from mqlab.broker.core.dispatch.correlation_index import CorrelationIndex, Field, Key, keys, scan
from mqlab.broker.core.dispatch.delivery import deliver_span
from mqlab.broker.core.effects import Continue
from mqlab.broker.core.errors import CommandError
from mqlab.broker.core.model.messages import Span
from mqlab.broker.core.model.queue import Queue
from mqlab.broker.core.model.queue_consumer import QueueConsumer
from mqlab.broker.core.model.span_list import SpanCursor, SpanList
from mqlab.wire.native.columns import Value

# The cost in a slice of indexing a single message, or this many messages of a batch.
_INDEXED: Final = 4
_TEXTS: Final = (str, bytes)


def receive(queue: Queue, consumer: QueueConsumer, key: Key) -> None:
    """Deliver one message by its id: at once, or when it arrives. Raises CommandError."""
    if queue.receives is None:
        queue.set_receives(ReceivesById(queue))
    assert isinstance(queue.receives, ReceivesById)
    queue.receives.receive(consumer, key)


class ReceivesById:
    """The first receive by a kind of id builds an index, which stays."""

    def __init__(self, queue: Queue) -> None:
        self._queue = queue
        self.indexes: dict[Field, CorrelationIndex] = {}
        self._waiting: dict[Field, dict[Value, deque[QueueConsumer]]] = {}
        # Indexes that do not have all messages yet: how far they have come in each list.
        self._incomplete: dict[Field, dict[SpanList, SpanCursor]] = {}

    def receive(self, consumer: QueueConsumer, key: Key) -> None:
        """Deliver at once, or when the message arrives; the first consumer that asked gets it."""
        location = self._find(key)
        if location is not None:
            deliver_span(self._queue, consumer, self._take_row(*location))
            return
        field, value = key
        if isinstance(value, _TEXTS) and len(value) > limits.RECEIVE_ID:
            raise CommandError(f"a receive waits for an id of at most {limits.RECEIVE_ID} characters")
        account = consumer.account
        if account.receives >= account.more_receives:
            account.charge_receives()
        account.receives += 1
        consumer.receives += 1
        waiting_for = self._waiting.setdefault(field, {})
        if value in waiting_for:
            waiting_for[value].append(consumer)
        else:
            waiting_for[value] = deque((consumer,))

    def take_consumer(self, headers: Mapping[str, Value]) -> QueueConsumer | None:
        """The consumer that waits for a message with these headers; it stops waiting."""
        if self._incomplete:
            # A message on the queue may have to come first.
            return None
        for field, waiting_for in self._waiting.items():
            value = headers.get(field)
            if value is not None and value in waiting_for:
                return _first(waiting_for, value)
        return None

    def cancel(self, consumer: QueueConsumer) -> None:
        """The consumer no longer waits for any message."""
        if not consumer.receives:
            return
        account = consumer.account
        account.receives -= consumer.receives
        consumer.receives = 0
        if account.receives < account.fewer_receives:
            account.release_receives()
        for waiting_for in self._waiting.values():
            for value in [value for value, waiting in waiting_for.items() if consumer in waiting]:
                left = deque(other for other in waiting_for.pop(value) if other is not consumer)
                if left:
                    waiting_for[value] = left

    def on_entered(self, span: Span) -> None:
        """A span is new in a list: deliver messages that a consumer waits for, and index the others."""
        for field, waiting_for in self._waiting.items():
            # An incomplete index comes to the span as well, after those before it.
            if waiting_for and field not in self._incomplete:
                self._serve(span, field, waiting_for)
        if span.span_list is None:
            return
        for field, index in [*self.indexes.items()]:
            if field in self._incomplete:
                continue
            if index.is_stale(self._queue.messages):
                self._build(field)
            else:
                index.add(span)

    def on_replaced(self, span: Span) -> None:
        """The span took the place of others with the same messages."""
        for index in self.indexes.values():
            index.replace(span)

    def _find(self, key: Key) -> tuple[Span, int] | None:
        queue = self._queue
        while True:
            if queue.policy.retrieval == "scan":
                location = scan(queue.spans(), key)
            else:
                field, value = key
                index = self.indexes.get(field)
                if index is None:
                    index = self._build(field)
                location = index.take(value)
            if location is None or not 0 < location[0].expires <= queue.context.now_ms:
                return location
            span, row = location
            if queue.drop_expired(span) and row in span.index:
                return location

    def _build(self, field: Field) -> CorrelationIndex:
        """Build an index: at once or, of a deep queue, in slices. Receives wait until it comes to their message."""
        index = self.indexes[field] = CorrelationIndex(field, ())
        self._incomplete[field] = {}
        self._build_slice(field)
        return index

    def _build_slice(self, field: Field) -> None:
        queue, cursors, index = self._queue, self._incomplete[field], self.indexes[field]
        budget = limits.SLICE
        for span_list in queue.span_lists:
            if span_list not in cursors:
                cursors[span_list] = SpanCursor()
                span_list.cursors.append(cursors[span_list])
            cursor = cursors[span_list]
            while (span := span_list.after(cursor)) is not None:
                if budget <= 0:
                    queue.context.effects.append(Continue(partial(self._build_slice, field)))
                    return
                budget -= _INDEXED + span.rows // _INDEXED
                cursor.at = span
                if self._waiting.get(field):
                    self._serve(span, field, self._waiting[field])
                if span.span_list is not None:
                    index.add(span)
        for span_list, cursor in cursors.items():
            span_list.cursors.remove(cursor)
        del self._incomplete[field]

    def _serve(self, span: Span, field: Field, waiting_for: dict[Value, deque[QueueConsumer]]) -> None:
        for row, value in [*keys(span, field)]:
            if value in waiting_for and span.span_list is not None and row in span.index:
                deliver_span(self._queue, _first(waiting_for, value), self._take_row(span, row))

    def _take_row(self, span: Span, row: int) -> Span:
        """Take one message out of its list."""
        if span.rows == 1:
            self._queue.unlink(span)
            return span
        at = span.index.index(row) if isinstance(span.index, range) else int(span.index.searchsorted(row))
        return span.take_at(at)


def _first(waiting_for: dict[Value, deque[QueueConsumer]], value: Value) -> QueueConsumer:
    """The consumer that asked first; it stops waiting."""
    waiting = waiting_for[value]
    consumer = waiting.popleft()
    consumer.receives -= 1
    account = consumer.account
    account.receives -= 1
    if account.receives < account.fewer_receives:
        account.release_receives()
    if not waiting:
        del waiting_for[value]
    return consumer
