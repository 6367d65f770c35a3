"""Which journal files are still needed: those with a message that nobody has consumed, and all after them."""

from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final
from weakref import WeakValueDictionary

from mqlab.broker.core.durability.records import Commit, Decide, Declare, Forget, Prepare, Put, Record, Remove
from mqlab.broker.store.message_locations import MessageLocations
from mqlab.broker.store.payloads.stored import PayloadFile

# What stands around the messages of a put, about.
_RECORD_SIZE: Final = 64


def segment_path(folder: Path, number: int) -> Path:
    return folder / f"journal-{number:010d}"


def segment_numbers(folder: Path) -> list[int]:
    return sorted(int(path.name.removeprefix("journal-")) for path in folder.glob("journal-" + "[0-9]" * 10))


@dataclass(slots=True)
class _Segment:
    # Bytes of its records, and of those that put messages.
    size: int = 0
    put_size: int = 0
    # The bytes that carrying these forward would take, all of them, and the largest: one record for each queue.
    carry_size: int = 0
    largest_put: int = 0
    # Messages ever put there, on which queues, and those that nobody has consumed, for each queue that has any.
    rows: int = 0
    queues: set[int] = field(default_factory=set)
    live: dict[int, int] = field(default_factory=dict)
    # Transactions prepared there that wait for their decision, or whose decision is not yet in the head of a file.
    undecided: int = 0

    @property
    def is_needed(self) -> bool:
        return self.undecided != 0 or bool(self.live)

    @property
    def needed_bytes(self) -> int:
        """About: its messages are taken to be of one size."""
        return self.put_size * max(0, sum(self.live.values())) // self.rows if self.rows else 0

    @property
    def most_needed_bytes(self) -> int:
        """No more are needed to carry it forward, whatever the sizes of its messages."""
        live = max(0, sum(self.live.values()))
        return min(self.carry_size, self.largest_put * live) + _RECORD_SIZE * live


@dataclass(slots=True)
class _Prepared:
    record: Prepare
    number: int


class Segments:
    """Counts the unconsumed messages of each file.

    What a record takes away (a message consumed, or carried forward to a newer file) counts when the record is
    durable: before, a crash could bring it back, and then it must still be there.
    """

    def __init__(self) -> None:
        # The highest number of a queue there ever was, and the bytes of all records.
        self.last_queue = 0
        self.length = 0
        # Files that recovery has left payloads in.
        self.payload_files: WeakValueDictionary[int, PayloadFile] = WeakValueDictionary()
        self._files: dict[int, _Segment] = {}
        self._places: dict[int, MessageLocations] = {}
        self._prepared: dict[str, _Prepared] = {}
        # Queues that are gone, though a transaction that waits for its decision still names them.
        self.forgotten: set[int] = set()
        # Files with a transaction that was decided in the newest file. The heads of files between them say which ids
        # are remembered because of it, so whoever reads them must also know what it was that was decided.
        self._just_decided: list[int] = []
        self._lsn = 0
        self._later: deque[tuple[int, Callable[..., None], tuple[Any, ...]]] = deque()
        # Puts of ids that are known come from a checkpoint: the messages move to the newer file.
        self._carrying = False

    def begin(self, number: int, size: int = 0) -> None:
        """File `number` is there now, with so many bytes of records."""
        self._files[number] = _Segment(size)
        self.length += size
        self._later += [(self._lsn, self._decided, (one,)) for one in self._just_decided]
        self._just_decided = []

    def note(self, record: Record, lsn: int, number: int, size: int) -> None:
        """The record, of so many bytes, goes to file `number`."""
        self._files[number].size += size
        self.length += size
        self._lsn = lsn
        if isinstance(record, Put):
            self._put(record, lsn, number, size)
        elif isinstance(record, Remove):
            self._later.append((lsn, self._remove, (record.queue, record.ranges)))
        elif isinstance(record, Commit):
            for put in record.puts:
                self._put(put, lsn, number, len(put.payload.data))
            self._later.append((lsn, self._remove_all, (record.removes,)))
        elif isinstance(record, Prepare):
            self.prepare(record, lsn, number)
        elif isinstance(record, Decide):
            self._decide(record, lsn)
        elif isinstance(record, Declare):
            self.last_queue = max(self.last_queue, record.queue)
        elif isinstance(record, Forget):
            self._later.append((lsn, self._forget, (record.queue,)))

    def durable(self, lsn: int) -> None:
        """What the records up to this one took away is gone for good."""
        later = self._later
        while later and later[0][0] <= lsn:
            _, action, arguments = later.popleft()
            action(*arguments)

    @property
    def first(self) -> int:
        """The number of the oldest file, or 0."""
        return next(iter(self._files), 0)

    @property
    def removable(self) -> int | None:
        """A file that can go: the oldest one, if nothing in it is needed and it is not the newest."""
        if len(self._files) == 1:
            return None
        oldest = next(iter(self._files))
        return None if self._files[oldest].is_needed else oldest

    def removed(self, number: int) -> None:
        file = self._files.pop(number)
        self.length -= file.size
        for queue in file.queues:
            if queue in self._places:
                self._places[queue].drop(number)

    # Checkpoints

    @property
    def needed_bytes(self) -> int:
        return sum(file.needed_bytes for file in self._files.values())

    @property
    def oldest(self) -> int | None:
        """The oldest file, if it is not the newest and something in it is needed."""
        oldest = next(iter(self._files))
        return oldest if len(self._files) > 1 and self._files[oldest].is_needed else None

    def is_only(self, number: int) -> bool:
        """There is no other file."""
        return [*self._files] == [number]

    def most_needed_in(self, number: int) -> int:
        return self._files[number].most_needed_bytes

    def begin_checkpoint(self, number: int) -> tuple[dict[int, list[tuple[int, int]]], list[str]]:
        """What of a file must be carried forward: ids by queue, [first, end), and prepared transactions.

        A transaction is prepared again, after the messages, also if it only removes some of them: no record that
        removes a message may be in an older file than the one that puts it, since the older file goes first.
        """
        self._carrying = True
        intervals = {queue: self._places[queue].intervals(number) for queue in self._files[number].live}
        return intervals, [xid for xid, one in self._prepared.items() if self._touches(one, number)]

    def end_checkpoint(self) -> None:
        self._carrying = False

    def _touches(self, prepared: _Prepared, number: int) -> bool:
        if prepared.number == number:
            return True
        for queue, ranges in prepared.record.removes:
            places = self._places.get(queue)
            if places and any(file == number for one in ranges for file, _ in places.find(*one)):
                return True
        return False

    # What records do

    def put(self, queue: int, first_id: int, rows: int, size: int, lsn: int, number: int, carry_size: int = 0) -> None:
        """Messages with so many bytes lie in file `number`; `carry_size`: as they would be carried forward."""
        if queue in self.forgotten:
            return
        file = self._files[number]
        file.rows += rows
        file.put_size += size
        carry_size = carry_size or size
        file.carry_size += carry_size
        if carry_size > file.largest_put:
            file.largest_put = carry_size
        file.live[queue] = file.live.get(queue, 0) + rows
        file.queues.add(queue)
        places = self._places.get(queue)
        if places is None:
            places = self._places[queue] = MessageLocations()
            self.last_queue = max(self.last_queue, queue)
        if first_id >= places.end:
            places.add(first_id, rows, number)
            return
        if self._carrying:
            for old, moved in places.find(first_id, rows):
                self._later.append((lsn, self._take, (queue, old, moved)))
        places.move(first_id, rows, number)

    def restore(self, queue: int, first_id: int, end: int, rows: int, size: int, number: int) -> None:
        """At start: so many messages with ids [first_id, end), beyond all known of the queue, lie in file `number`."""
        self.put(queue, first_id, rows, size, 0, number)
        self._places[queue].end = end

    def prepare(self, record: Prepare, lsn: int, number: int) -> None:
        for put in record.puts:
            self._put(put, lsn, number, len(put.payload.data))
        self._files[number].undecided += 1
        before = self._prepared.get(record.xid)
        if before is not None:
            self._later.append((lsn, self._decided, (before.number,)))
        self._prepared[record.xid] = _Prepared(record, number)

    def _put(self, put: Put, lsn: int, number: int, size: int) -> None:
        targets, rows = put.targets, put.payload.rows
        for queue, first_id in targets:
            self.put(queue, first_id, rows, size // len(targets), lsn, number, size)

    def _decide(self, record: Decide, lsn: int) -> None:
        prepared = self._prepared.pop(record.xid, None)
        if prepared is None:
            return
        if not self._prepared:
            self.forgotten.clear()
        self._just_decided.append(prepared.number)
        gone = prepared.record.removes if record.commit else _as_removes(prepared.record.puts)
        self._later.append((lsn, self._remove_all, (gone,)))

    # What they do once they are durable

    def _remove_all(self, removes: Iterable[Remove]) -> None:
        for queue, ranges in removes:
            self._remove(queue, ranges)

    def _remove(self, queue: int, ranges: Iterable[tuple[int, int]]) -> None:
        places = self._places.get(queue)
        if places is None:
            return
        for first_id, rows in ranges:
            for number, found in places.find(first_id, rows):
                self._take(queue, number, found)

    def _take(self, queue: int, number: int, rows: int) -> None:
        file = self._files.get(number)
        if file is None or queue not in self._places:
            return
        # Below zero would be a mistake of somebody: then the file stays, and nothing is lost.
        left = file.live.pop(queue, 0) - rows
        if left:
            file.live[queue] = left

    def _decided(self, number: int) -> None:
        if number in self._files:
            self._files[number].undecided -= 1

    def _forget(self, queue: int) -> None:
        self._places.pop(queue, None)
        if self._prepared:
            self.forgotten.add(queue)
        for file in self._files.values():
            file.live.pop(queue, None)
            file.queues.discard(queue)


def _as_removes(puts: Iterable[Put]) -> list[Remove]:
    return [Remove(queue, ((first_id, put.payload.rows),)) for put in puts for queue, first_id in put.targets]
