"""Looking at a queue without taking anything from it."""

from __future__ import annotations

from functools import partial
from typing import Any, Final

import numpy as np

from mqlab.broker import limits
from mqlab.broker.core.dispatch.selection import chosen
from mqlab.broker.core.effects import BrowseEnded, Continue, Deliver, Effect
from mqlab.broker.core.model.messages import Span
from mqlab.broker.core.model.queue import Queue
from mqlab.broker.core.model.sessions import Consumer
from mqlab.broker.core.model.span_list import SpanList

# What one look costs of a slice: with a selector, and for so many bytes that are shown.
_SELECTED: Final = 16
_BYTES: Final = 4096


class Browsing:
    """How far a browser has come in its queue. It holds no messages: those that leave the queue before it comes to
    them are not shown, nor are those that came after it was opened."""

    __slots__ = ("_at", "_end", "_passed", "_queue", "_span_list", "closed", "is_due")

    def __init__(self, queue: Queue) -> None:
        self._queue = queue
        self._end = queue.next_id
        self._span_list: SpanList | None = queue.span_lists[0]
        # The last span that it has passed, which may have left meanwhile, and its last id.
        self._at: Span | None = None
        self._passed = 0
        # The next slice is arranged.
        self.is_due = False
        self.closed = False

    def next_span(self) -> Span | None:
        """The next to look at, which it may have passed already; None: it has seen all."""
        while self._span_list is not None:
            at = self._at
            span = at.after if at is not None and at.span_list is self._span_list else self._span_list.first
            if span is not None and span.first_id < self._end:
                return span
            lower = (
                line
                for line in self._queue.span_lists
                if self._span_list is None or line.priority < self._span_list.priority
            )
            self._span_list, self._at, self._passed = next(lower, None), None, 0
        return None

    def rows_of(self, span: Span, consumer: Consumer) -> range | np.ndarray[Any, Any]:
        """Those that it has to show."""
        if span.last_id <= self._passed or not self._queue.drop_expired(span):
            return range(0)
        selector = consumer.selector
        if selector is None and self._passed < span.first_id and span.last_id < self._end:
            return span.index
        rows = np.asarray(span.index)
        flags = (rows + span.base > self._passed) & (rows + span.base < self._end)
        return rows[flags if selector is None else flags & chosen(selector, span)]

    def pass_rows(self, span: Span, last: int) -> None:
        """It is done with the rows of the span up to that id."""
        self._passed = max(self._passed, last)
        if span.span_list is not None and span.last_id <= last:
            self._at = span


def give_room(consumer: Consumer, messages: int, effects: list[Effect]) -> None:
    """For so many messages more: a browser is shown as much as it has room for, and told when it has seen all."""
    if consumer.browsing is None:
        consumer.queue.give_room(consumer, messages)
        return
    consumer.credit += messages
    if not consumer.browsing.is_due:
        _show(consumer, effects)


def _show(consumer: Consumer, effects: list[Effect]) -> None:
    """A slice of it."""
    browsing, looks = consumer.browsing, limits.SLICE
    assert browsing is not None
    browsing.is_due = False
    while looks > 0:
        if browsing.closed or consumer.paused:
            return
        span = browsing.next_span()
        if span is None:
            effects.append(BrowseEnded(consumer))
            return
        looks -= 1 if consumer.selector is None else _SELECTED
        last, rows = span.last_id, browsing.rows_of(span, consumer)
        if len(rows) and consumer.credit <= 0:
            return
        if len(rows) > consumer.credit:
            rows = rows[: consumer.credit]
            last = span.base + int(rows[-1])
        if len(rows):
            shown = span.of_rows(rows)
            effects.append(Deliver(consumer, consumer.next_delivery, shown))
            consumer.next_delivery += shown.rows
            consumer.credit -= shown.rows
            looks -= shown.size // _BYTES
        browsing.pass_rows(span, last)
    browsing.is_due = True
    effects.append(Continue(partial(_show, consumer, effects)))
