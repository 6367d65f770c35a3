"""Which journal files are still needed: those with a message that nobody has consumed, and all after them."""

from bisect import bisect_right
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

    def begin(self, number: int) -> None:
        self._live[number] = 0

    def note(self, record: Record, number: int) -> None:
        """The record was written to file `number`."""
        if isinstance(record, Put):
            self._put(record, number)
        elif isinstance(record, Remove):
            self._remove(record.queue, record.ranges)
        elif isinstance(record, Commit):
            for put in record.puts:
                self._put(put, number)
            for remove in record.removes:
                self._remove(remove.queue, remove.ranges)

    def take_unneeded(self) -> list[int]:
        """Files that can go: the oldest ones, as long as they hold no live message; never the newest."""
        gone = []
        for number in sorted(self._live)[:-1]:
            if self._live[number]:
                break
            gone.append(number)
            del self._live[number]
        return gone

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
