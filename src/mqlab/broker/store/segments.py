"""Which journal files are still needed: those with a message that nobody has consumed, and all after them."""

from bisect import bisect_right
from collections import deque
from collections.abc import Iterable
from pathlib import Path

from mqlab.broker.core.records import Commit, Put, Record, Remove


def path_of(folder: Path, number: int) -> Path:
    return folder / f"journal-{number:010d}"


def numbers_in(folder: Path) -> list[int]:
    return sorted(int(path.name.removeprefix("journal-")) for path in folder.glob("journal-" + "[0-9]" * 10))


class Segments:
    """Counts the unconsumed messages of each file. Ids of a queue grow with the files, so two numbers find a file."""

    def __init__(self) -> None:
        self._live: dict[int, int] = {}
        # For each queue: the first id it has in a file, and that file; in step, both ascending.
        self._firsts: dict[int, list[int]] = {}
        self._files: dict[int, list[int]] = {}
        self._removes: deque[tuple[int, tuple[Remove, ...]]] = deque()

    def begin(self, number: int) -> None:
        self._live[number] = 0

    def note(self, record: Record, lsn: int, number: int) -> None:
        """The record goes to file `number`."""
        puts = record.puts if isinstance(record, Commit) else (record,) if isinstance(record, Put) else ()
        removes = record.removes if isinstance(record, Commit) else (record,) if isinstance(record, Remove) else ()
        for put in puts:
            self._put(put, number)
        if removes:
            self._removes.append((lsn, removes))

    def durable(self, lsn: int) -> None:
        """What the records up to this one removed is gone for good: before, a crash could bring it back."""
        while self._removes and self._removes[0][0] <= lsn:
            for remove in self._removes.popleft()[1]:
                self._remove(remove.queue, remove.ranges)

    def take_unneeded(self) -> int | None:
        """A file that can go: the oldest one, if it holds no live message and is not the newest."""
        oldest = min(self._live)
        if self._live[oldest] or len(self._live) == 1:
            return None
        del self._live[oldest]
        return oldest

    def _put(self, put: Put, number: int) -> None:
        self._live[number] += put.payload.rows
        files = self._files.setdefault(put.queue, [])
        if not files or files[-1] != number:
            files.append(number)
            self._firsts.setdefault(put.queue, []).append(put.first_id)

    def _remove(self, queue: int, ranges: Iterable[tuple[int, int]]) -> None:
        firsts, files = self._firsts.get(queue, []), self._files.get(queue, [])
        for first_id, rows in ranges:
            # A range is part of one put, and a put lies in one file.
            at = bisect_right(firsts, first_id) - 1
            if at >= 0 and files[at] in self._live:
                self._live[files[at]] -= rows
