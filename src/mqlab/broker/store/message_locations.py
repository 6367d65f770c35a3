"""In which journal file each message of a queue lies."""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator


class MessageLocations:
    """Ids of a queue grow with the files, so a few borders tell the file of an id: that of the last border before it.

    Only a checkpoint breaks the order: it moves some ids of an old file to the newest.
    """

    __slots__ = ("_files", "_firsts", "end")

    def __init__(self) -> None:
        # Borders: the first id, and the file from there on; in step, ids ascending.
        self._firsts: list[int] = []
        self._files: list[int] = []
        # No id from here on is in use.
        self.end = 0

    def add(self, first_id: int, rows: int, number: int) -> None:
        """Ids beyond all others."""
        self.end = first_id + rows
        if not self._files or self._files[-1] != number:
            self._firsts.append(first_id)
            self._files.append(number)

    def find(self, first_id: int, rows: int) -> Iterable[tuple[int, int]]:
        """The files of these ids, and how many of them lie in each."""
        if self._firsts and first_id >= self._firsts[-1]:
            return ((self._files[-1], rows),)
        return self._look_for(first_id, rows)

    def _look_for(self, first_id: int, rows: int) -> Iterator[tuple[int, int]]:
        at, end = bisect_right(self._firsts, first_id) - 1, first_id + rows
        if at < 0:
            at = 0
            first_id = min(end, self._firsts[0]) if self._firsts else end
        while first_id < end:
            border = self._firsts[at + 1] if at + 1 < len(self._firsts) else end
            until = min(end, border)
            yield self._files[at], until - first_id
            first_id, at = until, at + 1

    def move(self, first_id: int, rows: int, number: int) -> None:
        """These ids, which may lie anywhere, lie in file `number` now."""
        firsts, files, end = self._firsts, self._files, first_id + rows
        begin_at, end_at = bisect_left(firsts, first_id), bisect_left(firsts, end)
        borders = [] if begin_at and files[begin_at - 1] == number else [(first_id, number)]
        is_border = end_at < len(firsts) and firsts[end_at] == end
        if end < self.end and not is_border and end_at and files[end_at - 1] != number:
            borders.append((end, files[end_at - 1]))
        firsts[begin_at:end_at] = [first for first, _ in borders]
        files[begin_at:end_at] = [file for _, file in borders]
        self.end = max(self.end, end)

    def intervals(self, number: int) -> list[tuple[int, int]]:
        """All ids of a file, as [first, end)."""
        borders = zip(self._firsts, [*self._firsts[1:], self.end], self._files, strict=True)
        return [(first, end) for first, end, file in borders if file == number]

    def drop(self, number: int) -> None:
        """The file is gone. Nobody asks for its ids any more, so they may count as those before them."""
        kept: list[tuple[int, int]] = []
        for first, file in zip(self._firsts, self._files, strict=True):
            if file != number and (not kept or kept[-1][1] != file):
                kept.append((first, file))
        self._firsts = [first for first, _ in kept]
        self._files = [file for _, file in kept]
