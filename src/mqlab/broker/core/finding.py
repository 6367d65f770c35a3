"""Receives by id on one queue: who waits for which message, and where the messages are."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from typing import TYPE_CHECKING

from mqlab.broker import limits
from mqlab.broker.core.errors import RefusedError
from mqlab.broker.core.links import Consumer
from mqlab.broker.core.messages import Span
from mqlab.broker.core.retrieval import Field, Index, Key, keys, scan
from mqlab.wire.columns import Value

if TYPE_CHECKING:
    from mqlab.broker.core.queue import Queue


class Finding:
    """An index is built when somebody first asks for a message by such an id, and kept from then on."""

    def __init__(self, queue: Queue) -> None:
        self._queue = queue
        self.indexes: dict[Field, Index] = {}
        self._wanted: dict[Field, dict[Value, deque[Consumer]]] = {}

    def receive(self, consumer: Consumer, key: Key) -> None:
        """At once, or when it comes; who asked first is served first."""
        found = self._find(key)
        if found is not None:
            self._queue.give(consumer, self._take_row(*found))
            return
        field, value = key
        if isinstance(value, str | bytes) and len(value) > limits.RECEIVE_ID:
            raise RefusedError(f"a receive waits for an id of at most {limits.RECEIVE_ID} characters")
        consumer.session.account.add_receive()
        consumer.receives += 1
        wanted = self._wanted.setdefault(field, {})
        if value in wanted:
            wanted[value].append(consumer)
        else:
            wanted[value] = deque((consumer,))

    def taker(self, headers: Mapping[str, Value]) -> Consumer | None:
        """Who waits for a message with these headers, and then no longer does."""
        for field, wanted in self._wanted.items():
            value = headers.get(field)
            if value is not None and value in wanted:
                return _first(wanted, value)
        return None

    def forget(self, consumer: Consumer) -> None:
        """It no longer waits for any message."""
        if not consumer.receives:
            return
        consumer.session.account.receives -= consumer.receives
        consumer.receives = 0
        for wanted in self._wanted.values():
            for value in [value for value, waiting in wanted.items() if consumer in waiting]:
                left = deque(one for one in wanted.pop(value) if one is not consumer)
                if left:
                    wanted[value] = left

    def came(self, span: Span) -> None:
        """Messages stand in line: somebody may wait for just them, and what is left of them can be found."""
        for field, wanted in self._wanted.items():
            if wanted:
                self._serve(span, field, wanted)
        if span.line is None:
            return
        for field, index in [*self.indexes.items()]:
            if index.is_worn(self._queue.messages):
                self.indexes[field] = Index(field, self._queue.spans())
            else:
                index.add(span)

    def replaced(self, span: Span) -> None:
        """The span took the place of others in line."""
        for index in self.indexes.values():
            index.replace(span)

    def _find(self, key: Key) -> tuple[Span, int] | None:
        queue = self._queue
        while True:
            if queue.policy.retrieval == "scan":
                found = scan(queue.spans(), key)
            else:
                field, value = key
                index = self.indexes.get(field)
                if index is None:
                    index = self.indexes[field] = Index(field, queue.spans())
                found = index.find(value)
            if found is None or not 0 < found[0].expires <= queue.desk.now:
                return found
            span, row = found
            if queue.drop_expired(span) and row in span.index:
                return found

    def _serve(self, span: Span, field: Field, wanted: dict[Value, deque[Consumer]]) -> None:
        for row, value in [*keys(span, field)]:
            if value in wanted and span.line is not None and row in span.index:
                self._queue.give(_first(wanted, value), self._take_row(span, row))

    def _take_row(self, span: Span, row: int) -> Span:
        """One message leaves the line."""
        if span.rows == 1:
            self._queue.unlink(span)
            return span
        at = span.index.index(row) if isinstance(span.index, range) else int(span.index.searchsorted(row))
        return span.take_at(at)


def _first(wanted: dict[Value, deque[Consumer]], value: Value) -> Consumer:
    """Who of those that wait for it asked first, and no longer waits."""
    waiting = wanted[value]
    consumer = waiting.popleft()
    consumer.receives -= 1
    consumer.session.account.receives -= 1
    if not waiting:
        del wanted[value]
    return consumer
