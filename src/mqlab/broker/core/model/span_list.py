"""Lists of spans in the order of their ids, linked, so that a span can leave in constant time."""

from collections.abc import Iterator, Sequence

from mqlab.broker.core.model.messages import Span


class SpanCursor:
    """A position in a list: `at` is the last span that was passed, None before the first."""

    __slots__ = ("at",)

    def __init__(self) -> None:
        self.at: Span | None = None


class SpanList:
    """Spans of one priority of a queue: all ids of a span are lower than all of the next one."""

    __slots__ = ("_near", "cursors", "first", "last", "priority")

    def __init__(self, priority: int) -> None:
        self.priority = priority
        self.first: Span | None = None
        self.last: Span | None = None
        self.cursors: list[SpanCursor] = []
        # The span inserted last between others: the next of many that come back belongs just behind it.
        self._near: Span | None = None

    def insert(self, span: Span) -> Sequence[Span]:
        """Insert a span by its ids, in parts where other ids lie between. Returns the new spans of the list."""
        last = self.last
        if last is None or last.last_id < span.first_id:
            self._link(span, None)
            return (span,)
        return self._weave(span, self._behind(span.first_id))

    def unlink(self, span: Span) -> None:
        assert span.span_list is self, "a span leaves the list that it is in"
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

    def reset_cursors(self) -> None:
        """Consumers look again at spans that they passed over."""
        for cursor in self.cursors:
            cursor.at = None

    def after(self, cursor: SpanCursor) -> Span | None:
        return self.first if cursor.at is None else cursor.at.after

    def __iter__(self) -> Iterator[Span]:
        """The caller may unlink the span it was given, but no other."""
        span = self.first
        while span is not None:
            following = span.after
            yield span
            span = following

    def until(self, end: int) -> Iterator[Span]:
        """Spans with ids below `end`."""
        span = self.first
        while span is not None and span.first_id < end:
            yield span
            span = span.after

    def _behind(self, first_id: int) -> Span:
        """The first span that reaches beyond this id, searched from the nearest known span; there is one."""
        assert self.first is not None
        assert self.last is not None
        places = (self.first, self.last, self._near or self.last)
        at = min(places, key=lambda span: abs(span.first_id - first_id))
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
                # It has ids on both sides of the span.
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
        assert span.span_list is None, "a span is in one list at most"
        span.span_list, span.before, span.after = self, before, behind
        if before is None:
            self.first = span
        else:
            before.after = span
        if behind is None:
            self.last = span
        else:
            behind.before = span
            self._rewind_cursors(span)
        return span

    def _rewind_cursors(self, span: Span) -> None:
        """Cursors that have passed the position of a new span go back to it."""
        for cursor in self.cursors:
            if cursor.at is not None and cursor.at.first_id > span.first_id:
                cursor.at = span.before
