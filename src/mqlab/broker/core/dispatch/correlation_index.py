"""The correlation index: finds a message of a queue by its correlation id or message id."""

from bisect import bisect_right, insort
from collections.abc import Iterable, Iterator
from typing import Final, Literal, NamedTuple

from mqlab.broker.core.model.messages import Span
from mqlab.wire.native.bodies import SINGLE
from mqlab.wire.native.columns import Value, decode_batch, decode_single

Field = Literal["correlation_id", "id"]

# An index is rebuilt when entries of messages that have left outnumber the others by so much. Not by more: such
# entries keep payloads in memory.
_SLACK: Final = 64


class Key(NamedTuple):
    field: Field
    value: Value


def keys(span: Span, field: Field) -> Iterator[tuple[int, Value]]:
    """Row and value of each message of the span that has such an id."""
    payload = span.whole()
    if payload.form & SINGLE:
        value = decode_single(payload).values.get(field)
        if value is not None:
            yield 0, value
        return
    batch = decode_batch(payload)
    if field in batch.schema.names:
        values = batch.column(field).to_pylist()
        for row in span.index:
            if values[row] is not None:
                yield int(row), values[row]


class CorrelationIndex:
    """Finds a message in a time that does not depend on the depth of the queue.

    Entries of messages that have left stay until `take` meets them. Each message is a number here, not an object: a
    million objects would slow the garbage collector down.
    """

    def __init__(self, field: Field, spans: Iterable[Span]) -> None:
        self.field = field
        # The message's id on the queue, or several in order, for each value.
        self._ids: dict[Value, int | list[int]] = {}
        self._entries = 0
        # The spans of a batch by the id of its first row, and these ids in order.
        self._spans: dict[int, list[Span]] = {}
        self._bases: list[int] = []
        for span in spans:
            self.add(span)

    def add(self, span: Span) -> None:
        has_ids = False
        for row, value in keys(span, self.field):
            has_ids = True
            self._entries += 1
            before = self._ids.get(value)
            if before is None:
                self._ids[value] = span.base + row
            elif isinstance(before, int):
                self._ids[value] = sorted((before, span.base + row))
            else:
                insort(before, span.base + row)
        if has_ids:
            self._add_span(span)

    def replace(self, made: Span) -> None:
        """A span took the place of others with the same messages."""
        bases = self._bases
        begin, end = bisect_right(bases, made.base), bisect_right(bases, made.last_id)
        for base in bases[begin:end]:
            del self._spans[base]
        del bases[begin:end]
        self._add_span(made)

    def take(self, value: Value) -> tuple[Span, int] | None:
        """The oldest message with that id, as span and row; the index forgets it."""
        while (ids := self._ids.pop(value, None)) is not None:
            if isinstance(ids, int):
                number = ids
            else:
                number = ids.pop(0)
                if ids:
                    self._ids[value] = ids
            self._entries -= 1
            span = self._span_of(number)
            if span is not None:
                return span, number - span.base
        return None

    def is_stale(self, messages: int) -> bool:
        """Whether most entries are of messages that have left a queue with so many messages: it should be rebuilt."""
        return max(self._entries, len(self._bases)) > 2 * messages + _SLACK

    def _span_of(self, number: int) -> Span | None:
        """The span in a list that has this message. A single message is about to leave, so its entry is dropped."""
        at = bisect_right(self._bases, number) - 1
        if at < 0:
            return None
        base = self._bases[at]
        for span in self._spans[base]:
            if span.span_list is not None and number - base in span.index:
                if span.payload.rows == 1:
                    del self._bases[at], self._spans[base]
                return span
        return None

    def _add_span(self, span: Span) -> None:
        spans = self._spans.get(span.base)
        if spans is None:
            self._spans[span.base] = [span]
            insort(self._bases, span.base)
        elif all(other is not span for other in spans):
            spans[:] = [other for other in spans if other.span_list is not None]
            spans.append(span)


def scan(spans: Iterable[Span], key: Key) -> tuple[Span, int] | None:
    """The same without an index: look at every message from the head of the queue on."""
    for span in spans:
        for row, value in keys(span, key.field):
            if value == key.value:
                return span, row
    return None
