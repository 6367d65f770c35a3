"""Delivery ids that a client has not acknowledged, as ranges (usually one)."""

from bisect import bisect_left
from collections.abc import Iterable

IdRange = tuple[int, int]


class UnacknowledgedRanges:
    """First and last id of each range, in order; ranges do not touch each other."""

    def __init__(self) -> None:
        self._ranges: list[IdRange] = []

    def add(self, first: int, last: int) -> None:
        """Add ids that it does not contain."""
        index = bisect_left(self._ranges, (first, last))
        begin, end = index, index
        if index and self._ranges[index - 1][1] + 1 == first:
            begin, first = index - 1, self._ranges[index - 1][0]
        if index < len(self._ranges) and self._ranges[index][0] == last + 1:
            end, last = index + 1, self._ranges[index][1]
        self._ranges[begin:end] = [(first, last)]

    def add_all(self, ranges: Iterable[IdRange]) -> None:
        for first, last in ranges:
            self.add(first, last)

    def take(self, first: int, last: int) -> list[IdRange]:
        """Remove and return those of the ids that it contains."""
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


def ranges_of(ids: Iterable[int]) -> list[IdRange]:
    """Consecutive ids as ranges, in order."""
    ranges: list[IdRange] = []
    first = last = -1
    for number in ids:
        if number == last + 1 and first >= 0:
            last = number
            continue
        if first >= 0:
            ranges.append((first, last))
        first = last = number
    if first >= 0:
        ranges.append((first, last))
    return ranges
