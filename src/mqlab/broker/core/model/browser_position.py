"""The position of a browser in a queue."""

from mqlab.broker.core.model.messages import Span
from mqlab.broker.core.model.queue import Queue
from mqlab.broker.core.model.span_list import SpanList


class BrowserPosition:
    """It holds no messages: those that leave the queue before the browser comes to them are not shown, nor are those
    that came after it was opened."""

    __slots__ = ("_at", "_queue", "_span_list", "closed", "end", "is_due", "passed")

    def __init__(self, queue: Queue) -> None:
        self._queue = queue
        # It shows ids before `end`, and has passed all up to `passed` of its list.
        self.end = queue.next_id
        self.passed = 0
        self._span_list: SpanList | None = queue.span_lists[0]
        # The last span that it has passed, which may have left meanwhile.
        self._at: Span | None = None
        # The next slice is arranged.
        self.is_due = False
        self.closed = False

    def next_span(self) -> Span | None:
        """The next span, of which it may have passed a part already; None: it has passed all."""
        while (span_list := self._span_list) is not None:
            at = self._at
            span = at.after if at is not None and at.span_list is span_list else span_list.first
            if span is not None and span.first_id < self.end:
                return span
            lower = (other for other in self._queue.span_lists if other.priority < span_list.priority)
            self._span_list, self._at, self.passed = next(lower, None), None, 0
        return None

    def pass_rows(self, span: Span, last: int) -> None:
        """It is done with the rows of the span up to that id."""
        self.passed = max(self.passed, last)
        if span.span_list is not None and span.last_id <= last:
            self._at = span
