"""Delivery ids that a client has not acknowledged, as ranges: usually one."""

from bisect import bisect_left
from collections.abc import Iterable

IdRange = tuple[int, int]


class UnacknowledgedRanges:
    """First and last id of each range, in order, none of them touching another."""

    def __init__(self) -> None:
        self._ranges: list[IdRange] = []

    def add(self, first: int, last: int) -> None:
        """Ids that are not in it."""
        at = bisect_left(self._ranges, (first, last))
        begin, end = at, at
        if at and self._ranges[at - 1][1] + 1 == first:
            begin, first = at - 1, self._ranges[at - 1][0]
        if at < len(self._ranges) and self._ranges[at][0] == last + 1:
            end, last = at + 1, self._ranges[at][1]
        self._ranges[begin:end] = [(first, last)]

    def add_all(self, ranges: Iterable[IdRange]) -> None:
        for first, last in ranges:
            self.add(first, last)

    def take(self, first: int, last: int) -> list[IdRange]:
        """Those of these ids that are in it leave it."""
        begin = end = bisect_left(self._ranges, (first,))
        if begin and self._ranges[begin - 1][1] >= first:
            begin -= 1
        taken, kept = [], []
        while end < len(self._ranges) and self._ranges[end][0] <= last:
            end += 1
        for low, high in self._ranges[begin:end]:
            taken.append((max(low, first), min(high, last)))
            if low < first:
                kept.append((low, first - 1))
            if high > last:
                kept.append((last + 1, high))
        self._ranges[begin:end] = kept
        return taken


def count(ranges: Iterable[IdRange]) -> int:
    return sum(last - first + 1 for first, last in ranges)


def runs_of(ids: Iterable[int]) -> list[IdRange]:
    """Consecutive ids put together, in their order."""
    found: list[IdRange] = []
    first = last = -1
    for one in ids:
        if one == last + 1 and first >= 0:
            last = one
            continue
        if first >= 0:
            found.append((first, last))
        first = last = one
    if first >= 0:
        found.append((first, last))
    return found
