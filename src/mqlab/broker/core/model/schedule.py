"""Spans by the time at which something happens to them: they are due, or expire."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from heapq import heapify, heappop, heappush
from itertools import count

from mqlab.broker.core.model.messages import Span


class Agenda:
    __slots__ = ("_heap", "_tie")

    def __init__(self) -> None:
        # Spans with the same time come in the order in which they were noted.
        self._heap: list[tuple[int, int, Span]] = []
        self._tie = count()

    def __len__(self) -> int:
        return len(self._heap)

    def __iter__(self) -> Iterator[Span]:
        """In no order."""
        return (span for _, _, span in self._heap)

    @property
    def next_time(self) -> int | None:
        return self._heap[0][0] if self._heap else None

    def note(self, when: int, span: Span) -> None:
        heappush(self._heap, (when, next(self._tie), span))

    def take_until(self, now: int, most: int) -> Iterator[Span]:
        """Those whose time has come leave, the earliest first, but no more than `most`."""
        while self._heap and self._heap[0][0] <= now and most > 0:
            most -= 1
            yield heappop(self._heap)[2]

    def in_order(self) -> list[Span]:
        """In the order in which they were noted."""
        return [span for _, _, span in sorted(self._heap, key=lambda one: one[1])]

    def take_all(self) -> list[Span]:
        spans = self.in_order()
        self._heap.clear()
        return spans

    def keep(self, is_needed: Callable[[int, Span], bool]) -> None:
        """Forget all but those for whose time and span this holds."""
        self._heap = [one for one in self._heap if is_needed(one[0], one[2])]
        heapify(self._heap)
