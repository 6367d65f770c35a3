"""Receives by id on one queue: who waits for which message, and where the messages are."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Final

from mqlab.broker import limits
from mqlab.broker.core.dispatch.correlation_index import Field, Index, Key, keys, scan
from mqlab.broker.core.effects import Continue
from mqlab.broker.core.errors import RefusedError
from mqlab.broker.core.model.messages import Span
from mqlab.broker.core.model.sessions import Consumer
from mqlab.broker.core.model.span_list import Cursor, SpanList
from mqlab.wire.native.columns import Value

if TYPE_CHECKING:
    from mqlab.broker.core.model.queue import Queue

# What it costs of a slice to index a message that stands alone, and so many of a batch.
_INDEXED: Final = 4
_TEXTS: Final = (str, bytes)


class Finding:
    """An index is built when somebody first asks for a message by such an id, and kept from then on."""

    def __init__(self, queue: Queue) -> None:
        self._queue = queue
        self.indexes: dict[Field, Index] = {}
        self._wanted: dict[Field, dict[Value, deque[Consumer]]] = {}
        # Indexes that do not have all messages yet: how far they have come in each line.
        self._built: dict[Field, dict[SpanList, Cursor]] = {}

    def receive(self, consumer: Consumer, key: Key) -> None:
        """At once, or when it comes; who asked first is served first."""
        found = self._find(key)
        if found is not None:
            self._queue.give(consumer, self._take_row(*found))
            return
        field, value = key
        if isinstance(value, _TEXTS) and len(value) > limits.RECEIVE_ID:
            raise RefusedError(f"a receive waits for an id of at most {limits.RECEIVE_ID} characters")
        account = consumer.session.account
        if account.receives >= account.more_receives:
            account.charge_receives()
        account.receives += 1
        consumer.receives += 1
        wanted = self._wanted.setdefault(field, {})
        if value in wanted:
            wanted[value].append(consumer)
        else:
            wanted[value] = deque((consumer,))

    def taker(self, headers: Mapping[str, Value]) -> Consumer | None:
        """Who waits for a message with these headers, and then no longer does."""
        if self._built:
            # One that stands on the queue may have to come first.
            return None
        for field, wanted in self._wanted.items():
            value = headers.get(field)
            if value is not None and value in wanted:
                return _first(wanted, value)
        return None

    def forget(self, consumer: Consumer) -> None:
        """It no longer waits for any message."""
        if not consumer.receives:
            return
        account = consumer.session.account
        account.receives -= consumer.receives
        consumer.receives = 0
        if account.receives < account.fewer_receives:
            account.release_receives()
        for wanted in self._wanted.values():
            for value in [value for value, waiting in wanted.items() if consumer in waiting]:
                left = deque(one for one in wanted.pop(value) if one is not consumer)
                if left:
                    wanted[value] = left

    def came(self, span: Span) -> None:
        """Messages stand in line: somebody may wait for just them, and what is left of them can be found."""
        for field, wanted in self._wanted.items():
            # An index that is not complete comes to the span as well, and to what stands before it first.
            if wanted and field not in self._built:
                self._serve(span, field, wanted)
        if span.span_list is None:
            return
        for field, index in [*self.indexes.items()]:
            if field in self._built:
                continue
            if index.is_worn(self._queue.messages):
                self._build(field)
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
                    index = self._build(field)
                found = index.find(value)
            if found is None or not 0 < found[0].expires <= queue.context.now_ms:
                return found
            span, row = found
            if queue.drop_expired(span) and row in span.index:
                return found

    def _build(self, field: Field) -> Index:
        """A new index: at once or, of a deep queue, in slices. Receives wait until it comes to their message."""
        index = self.indexes[field] = Index(field, ())
        self._built[field] = {}
        self._build_on(field)
        return index

    def _build_on(self, field: Field) -> None:
        queue, cursors, index = self._queue, self._built[field], self.indexes[field]
        looks = limits.SLICE
        for line in queue.span_lists:
            if line not in cursors:
                cursors[line] = Cursor()
                line.cursors.append(cursors[line])
            cursor = cursors[line]
            while (span := line.after(cursor)) is not None:
                if looks <= 0:
                    queue.context.effects.append(Continue(partial(self._build_on, field)))
                    return
                looks -= _INDEXED + span.rows // _INDEXED
                cursor.at = span
                if self._wanted.get(field):
                    self._serve(span, field, self._wanted[field])
                if span.span_list is not None:
                    index.add(span)
        for line, cursor in cursors.items():
            line.cursors.remove(cursor)
        del self._built[field]

    def _serve(self, span: Span, field: Field, wanted: dict[Value, deque[Consumer]]) -> None:
        for row, value in [*keys(span, field)]:
            if value in wanted and span.span_list is not None and row in span.index:
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
    account = consumer.session.account
    account.receives -= 1
    if account.receives < account.fewer_receives:
        account.release_receives()
    if not waiting:
        del wanted[value]
    return consumer
