"""The line of a queue: its spans in the order of their ids, linked, so that any of them can leave at once."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from mqlab.broker.core.model.messages import Span


class Cursor:
    """A place in a line: `at` is the last span that was passed, None before the first."""

    __slots__ = ("at",)

    def __init__(self) -> None:
        self.at: Span | None = None


class SpanList:
    """Spans of one priority: all ids of a span are lower than all of the next, whenever they came or came back."""

    __slots__ = ("_near", "cursors", "first", "last", "priority")

    def __init__(self, priority: int) -> None:
        self.priority = priority
        self.first: Span | None = None
        self.last: Span | None = None
        self.cursors: list[Cursor] = []
        # The span put in last before others: the next of many that come back stands just behind it.
        self._near: Span | None = None

    def insert(self, span: Span) -> Sequence[Span]:
        """Where its ids belong, in parts where others stand between them. Returns all spans that are new in line."""
        last = self.last
        if last is None or last.last_id < span.first_id:
            self._link(span, None)
            return (span,)
        return self._weave(span, self._behind(span.first_id))

    def unlink(self, span: Span) -> None:
        for cursor in self.cursors:
            if cursor.at is span:
                cursor.at = span.before
        if self._near is span:
            self._near = None
        if span.before is None:
            self.first = span.after
        else:
            span.before.after = span.after
        if span.after is None:
            self.last = span.before
        else:
            span.after.before = span.before
        span.span_list = span.before = span.after = None

    def look_again(self) -> None:
        """What was passed over may be wanted now."""
        for cursor in self.cursors:
            cursor.at = None

    def after(self, cursor: Cursor) -> Span | None:
        return self.first if cursor.at is None else cursor.at.after

    def __iter__(self) -> Iterator[Span]:
        """The span given out may be unlinked meanwhile, others not."""
        span = self.first
        while span is not None:
            following = span.after
            yield span
            span = following

    def until(self, end: int) -> Iterator[Span]:
        """Those with ids below `end`."""
        span = self.first
        while span is not None and span.first_id < end:
            yield span
            span = span.after

    def _behind(self, first_id: int) -> Span:
        """The first span that reaches beyond this id, looked for from the likeliest place; there is one."""
        assert self.first is not None
        assert self.last is not None
        places = (self.first, self.last, self._near or self.last)
        at = min(places, key=lambda one: abs(one.first_id - first_id))
        while at.last_id < first_id:
            assert at.after is not None
            at = at.after
        while at.before is not None and at.before.last_id > first_id:
            at = at.before
        return at

    def _weave(self, span: Span, behind: Span | None) -> list[Span]:
        new = []
        while behind is not None:
            if behind.first_id < span.first_id:
                # It stands on both sides of the span.
                new.append(self._link(behind.take_before(span.first_id), behind))
            if span.last_id < behind.first_id:
                break
            new.append(self._link(span.take_before(behind.first_id), behind))
            while behind is not None and behind.last_id < span.first_id:
                behind = behind.after
        new.append(self._link(span, behind))
        self._near = span
        return new

    def _link(self, span: Span, behind: Span | None) -> Span:
        before = self.last if behind is None else behind.before
        span.span_list, span.before, span.after = self, before, behind
        if before is None:
            self.first = span
        else:
            before.after = span
        if behind is None:
            self.last = span
        else:
            behind.before = span
            self._turn_back(span)
        return span

    def _turn_back(self, span: Span) -> None:
        """Whoever had passed the place of a new span must look at it."""
        for cursor in self.cursors:
            if cursor.at is not None and cursor.at.first_id > span.first_id:
                cursor.at = span.before
