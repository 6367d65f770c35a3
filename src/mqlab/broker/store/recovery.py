"""What the journal says after a stop of any kind: every durable record, or a clear report of why not."""

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import groupby
from operator import attrgetter
from pathlib import Path

from mqlab.broker.core.records import Prepare
from mqlab.broker.store.evidence import torn_bytes, was_on_disk
from mqlab.broker.store.files import Files
from mqlab.broker.store.memory import give_back
from mqlab.broker.store.parts import extent
from mqlab.broker.store.replay import RecoveredQueue, Replay, Unreadable
from mqlab.broker.store.segments import Segments, numbers_in, path_of
from mqlab.broker.store.stored import Home, Reader

__all__ = ["DamagedJournalError", "Recovered", "RecoveredQueue", "recover"]


class DamagedJournalError(Exception):
    """Something that was on disk can no longer be read. The files are left as they are."""


@dataclass
class Recovered:
    queues: dict[int, RecoveredQueue]
    segments: Segments
    lsn: int
    next_file: int
    # Transactions that wait for their decision.
    prepared: dict[str, Prepare] = field(default_factory=dict)
    # Ids given by producers that must be known again, by the name of the destination, oldest first.
    remembered: dict[str, list[str]] = field(default_factory=dict)
    # The highest number that a queue ever had.
    last_queue: int = 0
    # Bytes of a record that was still on its way when the broker stopped; nobody was told that it was safe.
    torn: int = 0


def recover(folder: Path, files: Files, keep_in_memory: int) -> Recovered:
    """Reads all files of the journal and cuts off a torn tail. Raises DamagedJournalError.

    Payloads beyond `keep_in_memory` bytes stay in the journal, and messages have a stand-in that loads them. A file
    is read at a time: so much memory is needed besides. What was read is synced: after a crash of the broker alone it
    may be in the operating system's memory only.
    """
    recovery = _Recovery(folder, files, Replay(keep_in_memory))
    numbers = numbers_in(folder)
    with _no_collection():
        for number in numbers:
            recovery.read(number, first=number == numbers[0], last=number == numbers[-1])
            # What is kept of a file lies around the memory it was read into: the next may not fit into that gap.
            give_back()
        found = recovery.found()
    for number in numbers_in(folder):
        files.sync_path(path_of(folder, number))
    files.sync_folder(folder)
    return found


@contextmanager
def _no_collection() -> Iterator[None]:
    """Millions of tuples are made and none is garbage: looking for some again and again would take half of the time."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


class _Recovery:
    def __init__(self, folder: Path, files: Files, replay: Replay) -> None:
        self._folder = folder
        self._files = files
        self._replay = replay
        self._reader = Reader(files)
        self._sizes: dict[int, int] = {}
        self._homes: dict[int, Home] = {}
        self._next_file = 1
        self._torn = 0

    def read(self, number: int, *, first: bool, last: bool) -> None:
        path = path_of(self._folder, number)
        if not first and number != self._next_file:
            raise DamagedJournalError(f"{path_of(self._folder, self._next_file)}: this journal file is missing")
        data = self._data(path)
        self._next_file = number + 1
        self._homes[number] = home = Home(path, self._reader)
        try:
            size = self._replay.read_file(data, number, home, first=first)
        except Unreadable as why:
            lsn, size = self._replay.lsn + 1, why.at
            if not last or why.lost or was_on_disk(data, size, lsn):
                raise DamagedJournalError(
                    f"{path}: byte {why.at}: record {lsn} was on disk and cannot be read: {why}. "
                    "The files are left as they are."
                ) from why
            self._cut(path, number, size, torn_bytes(data, size))
        if size:
            self._sizes[number] = size - self._replay.head_size
        if last and size:
            # The space that was reserved for what is never going to be written.
            self._files.trim(path, size)

    def _data(self, path: Path) -> bytes:
        try:
            return self._files.read(path)
        except OSError as error:
            raise DamagedJournalError(f"{path}: cannot be read: {error}. The files are left as they are.") from error

    def _cut(self, path: Path, number: int, at: int, torn: int) -> None:
        """Drop the unreadable end, which was still on its way when the broker stopped."""
        self._torn = torn
        if at:
            self._files.truncate(path, at)
        else:
            self._files.remove(path)
            self._next_file = number

    def found(self) -> Recovered:
        replay = self._replay
        replay.settle()
        return Recovered(
            replay.queues, self._segments(), replay.lsn, self._next_file,
            prepared={xid: one.record for xid, one in replay.prepared.items()}, remembered=replay.remembering.found(),
            last_queue=replay.last_queue, torn=self._torn,
        )  # fmt: skip

    def _segments(self) -> Segments:
        """From what is left: exactly what each file is needed for."""
        segments, replay = Segments(), self._replay
        for number, size in self._sizes.items():
            segments.begin(number, size)
        for queue, recovered in replay.queues.items():
            for number, group in groupby(recovered.parts, key=attrgetter("number")):
                parts = [*group]
                segments.restore(queue, parts[0].begin, parts[-1].end, *extent(parts), number)
        for one in replay.prepared.values():
            segments.forgotten |= {queue for put in one.record.puts for queue, _ in put.targets} - replay.queues.keys()
            segments.prepare(one.record, replay.lsn, one.number)
        segments.last_queue = replay.last_queue
        segments.homes.update(self._homes)
        return segments
