"""Spans by the time at which they become due or expire."""

from collections.abc import Callable, Iterator
from heapq import heapify, heappop, heappush
from itertools import count

from mqlab.broker.core.model.messages import Span


class Schedule:
    __slots__ = ("_heap", "_tie")

    def __init__(self) -> None:
        # Spans with the same time leave in the order in which they were added.
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

    def add(self, when: int, span: Span) -> None:
        heappush(self._heap, (when, next(self._tie), span))

    def take_until(self, now: int, most: int) -> Iterator[Span]:
        """Take the spans whose time has come, the earliest first, but no more than `most`."""
        while self._heap and self._heap[0][0] <= now and most > 0:
            most -= 1
            yield heappop(self._heap)[2]

    def in_order(self) -> list[Span]:
        """In the order in which they were added."""
        return [span for _, _, span in sorted(self._heap, key=lambda entry: entry[1])]

    def take_all(self) -> list[Span]:
        spans = self.in_order()
        self._heap.clear()
        return spans

    def retain(self, is_needed: Callable[[int, Span], bool]) -> None:
        """Drop all but the spans for which `is_needed(time, span)` holds."""
        self._heap = [entry for entry in self._heap if is_needed(entry[0], entry[2])]
        heapify(self._heap)
