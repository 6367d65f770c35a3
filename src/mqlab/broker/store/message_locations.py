"""Message locations: in which segment each message of a queue lies."""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator


class MessageLocations:
    """Maps the ids of a queue to segments, by borders: an id is in the segment of the last border before it.

    Ids ascend with the segments, so there are few borders. Only a checkpoint breaks the order: it moves some ids of an
    old segment to the newest.
    """

    __slots__ = ("_firsts", "_segments", "end")

    def __init__(self) -> None:
        # Borders: the first id, ascending, and the segment from there on.
        self._firsts: list[int] = []
        self._segments: list[int] = []
        # No id from here on is in use.
        self.end = 0

    def add(self, first_id: int, rows: int, number: int) -> None:
        """Add ids beyond all others."""
        assert first_id >= self.end, "ids do not ascend"
        self.end = first_id + rows
        if not self._segments or self._segments[-1] != number:
            self._firsts.append(first_id)
            self._segments.append(number)

    def find(self, first_id: int, rows: int) -> Iterable[tuple[int, int]]:
        """The segments of these ids, and how many of the ids are in each."""
        if self._firsts and first_id >= self._firsts[-1]:
            return ((self._segments[-1], rows),)
        return self._search(first_id, rows)

    def _search(self, first_id: int, rows: int) -> Iterator[tuple[int, int]]:
        at, end = bisect_right(self._firsts, first_id) - 1, first_id + rows
        if at < 0:
            at = 0
            first_id = min(end, self._firsts[0]) if self._firsts else end
        while first_id < end:
            border = self._firsts[at + 1] if at + 1 < len(self._firsts) else end
            until = min(end, border)
            yield self._segments[at], until - first_id
            first_id, at = until, at + 1

    def move(self, first_id: int, rows: int, number: int) -> None:
        """Move these ids, wherever they are, to segment `number`."""
        firsts, segments, end = self._firsts, self._segments, first_id + rows
        begin_at, end_at = bisect_left(firsts, first_id), bisect_left(firsts, end)
        borders = [] if begin_at and segments[begin_at - 1] == number else [(first_id, number)]
        is_border = end_at < len(firsts) and firsts[end_at] == end
        if end < self.end and not is_border and end_at and segments[end_at - 1] != number:
            borders.append((end, segments[end_at - 1]))
        firsts[begin_at:end_at] = [first for first, _ in borders]
        segments[begin_at:end_at] = [segment for _, segment in borders]
        self.end = max(self.end, end)

    def intervals(self, number: int) -> list[tuple[int, int]]:
        """All ids of a segment, as [first, end)."""
        borders = zip(self._firsts, [*self._firsts[1:], self.end], self._segments, strict=True)
        return [(first, end) for first, end, segment in borders if segment == number]

    def remove_segment(self, number: int) -> None:
        """Forget a removed segment. Its ids are not looked up any more, so they may count to those before them."""
        kept: list[tuple[int, int]] = []
        for first, segment in zip(self._firsts, self._segments, strict=True):
            if segment != number and (not kept or kept[-1][1] != segment):
                assert not kept or first > kept[-1][0], "borders do not ascend"
                kept.append((first, segment))
        self._firsts = [first for first, _ in kept]
        self._segments = [segment for _, segment in kept]
