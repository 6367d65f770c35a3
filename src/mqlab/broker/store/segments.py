"""Segments: which journal files are still needed. A file goes when it and all before it hold nothing live."""

from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final
from weakref import WeakValueDictionary

from mqlab.broker.core.durability.records import Commit, Decide, Declare, Forget, Prepare, Put, Record, Remove
from mqlab.broker.store.message_locations import MessageLocations
from mqlab.broker.store.payloads.stored import PayloadFile

# Bytes of a put besides its messages, about.
_PUT_OVERHEAD_BYTES: Final = 64


def segment_path(folder: Path, number: int) -> Path:
    return folder / f"journal-{number:010d}"


def segment_numbers(folder: Path) -> list[int]:
    return sorted(int(path.name.removeprefix("journal-")) for path in folder.glob("journal-" + "[0-9]" * 10))


@dataclass(slots=True)
class _Segment:
    # Bytes of its records, and of those that put messages.
    size: int = 0
    put_size: int = 0
    # Bytes that a checkpoint of all its puts would write, and of the largest: one record for each queue.
    carry_size: int = 0
    largest_put: int = 0
    # Messages ever put there, the queues they are on, and the live ones of each queue that has any.
    rows: int = 0
    queues: set[int] = field(default_factory=set)
    live: dict[int, int] = field(default_factory=dict)
    # Transactions prepared there that are undecided, or whose decision is not in the header of a later file yet.
    undecided: int = 0

    @property
    def is_needed(self) -> bool:
        return self.undecided != 0 or bool(self.live)

    @property
    def needed_bytes(self) -> int:
        """An estimate that takes all messages to be of one size."""
        return self.put_size * sum(self.live.values()) // self.rows if self.rows else 0

    @property
    def max_checkpoint_bytes(self) -> int:
        """The most that a checkpoint writes, whatever the sizes of the live messages."""
        live = sum(self.live.values())
        return min(self.carry_size, self.largest_put * live) + _PUT_OVERHEAD_BYTES * live


@dataclass(slots=True)
class _Prepared:
    record: Prepare
    number: int


class Segments:
    """Counts the live messages of each segment.

    A record that removes a message, or writes it again at a checkpoint, counts when it is durable: a crash before that
    brings the message back, and then it must still be there.
    """

    def __init__(self) -> None:
        # The highest number that a queue ever had, and the bytes of all records.
        self.last_queue = 0
        self.length = 0
        # Files in which recovery has left payloads.
        self.payload_files: WeakValueDictionary[int, PayloadFile] = WeakValueDictionary()
        # By number, ascending.
        self._segments: dict[int, _Segment] = {}
        self._locations: dict[int, MessageLocations] = {}
        self._prepared: dict[str, _Prepared] = {}
        # Deleted queues that an undecided transaction names.
        self.deleted_queues: set[int] = set()
        # Segments with a transaction that was decided in the newest segment. The headers of the files between name
        # duplicate ids because of it, so a reader of these headers must also read the transaction.
        self._just_decided: list[int] = []
        self._lsn = 0
        # Removals by records: (lsn, function, arguments), to be called when that record is durable.
        self._when_durable: deque[tuple[int, Callable[..., None], tuple[object, ...]]] = deque()
        # During a checkpoint, puts of known ids move the messages to the newest segment.
        self._in_checkpoint = False

    def begin(self, number: int, size: int = 0) -> None:
        """Segment `number` begins, with so many bytes of records."""
        assert not self._segments or number == next(reversed(self._segments)) + 1, "a segment number is left out"
        self._segments[number] = _Segment(size)
        self.length += size
        self._when_durable += [(self._lsn, self._forget_prepare, (decided,)) for decided in self._just_decided]
        self._just_decided = []

    def append(self, record: Record, lsn: int, number: int, size: int) -> None:
        """The journal appends a record of so many bytes to segment `number`."""
        self._segments[number].size += size
        self.length += size
        self._lsn = lsn
        if isinstance(record, Put):
            self._put(record, lsn, number, size)
        elif isinstance(record, Remove):
            self._when_durable.append((lsn, self._remove, (record.queue, record.ranges)))
        elif isinstance(record, Commit):
            for put in record.puts:
                self._put(put, lsn, number, len(put.payload.data))
            self._when_durable.append((lsn, self._remove_all, (record.removes,)))
        elif isinstance(record, Prepare):
            self.prepare(record, lsn, number)
        elif isinstance(record, Decide):
            self._decide(record, lsn)
        elif isinstance(record, Declare):
            self.last_queue = max(self.last_queue, record.queue)
        elif isinstance(record, Forget):
            self._when_durable.append((lsn, self._delete_queue, (record.queue,)))

    def on_durable(self, lsn: int) -> None:
        """The records up to this one are durable: apply what they take away."""
        pending = self._when_durable
        while pending and pending[0][0] <= lsn:
            _, action, arguments = pending.popleft()
            action(*arguments)

    @property
    def first(self) -> int:
        """The number of the oldest segment, or 0."""
        return next(iter(self._segments), 0)

    @property
    def removable(self) -> int | None:
        """The oldest segment, if nothing in it is needed and it is not the newest."""
        if len(self._segments) == 1:
            return None
        oldest = next(iter(self._segments))
        return None if self._segments[oldest].is_needed else oldest

    def remove(self, number: int) -> None:
        assert number == self.first, "only the oldest segment may go"
        segment = self._segments.pop(number)
        self.length -= segment.size
        assert self.length == sum(other.size for other in self._segments.values()), "the journal's length is wrong"
        for queue in segment.queues:
            if queue in self._locations:
                self._locations[queue].remove_segment(number)

    # Checkpoints

    @property
    def needed_bytes(self) -> int:
        return sum(segment.needed_bytes for segment in self._segments.values())

    @property
    def oldest_needed(self) -> int | None:
        """The oldest segment, if it is not the newest and something in it is needed."""
        oldest = next(iter(self._segments))
        return oldest if len(self._segments) > 1 and self._segments[oldest].is_needed else None

    def is_only(self, number: int) -> bool:
        """Whether the store has no other segment."""
        return [*self._segments] == [number]

    def max_checkpoint_bytes(self, number: int) -> int:
        return self._segments[number].max_checkpoint_bytes

    def begin_checkpoint(self, number: int) -> tuple[dict[int, list[tuple[int, int]]], list[str]]:
        """The content that a checkpoint of a file writes again: ids [first, end) by queue, and prepared transactions.

        A transaction is prepared again, after the messages, also if it only removes some of them: no record that
        removes a message may be in an older segment than its put, since the older segment goes first.
        """
        self._in_checkpoint = True
        intervals = {queue: self._locations[queue].intervals(number) for queue in self._segments[number].live}
        return intervals, [xid for xid, prepared in self._prepared.items() if self._concerns(prepared, number)]

    def end_checkpoint(self) -> None:
        self._in_checkpoint = False

    def _concerns(self, prepared: _Prepared, number: int) -> bool:
        if prepared.number == number:
            return True
        for queue, ranges in prepared.record.removes:
            locations = self._locations.get(queue)
            if locations and any(segment == number for ids in ranges for segment, _ in locations.find(*ids)):
                return True
        return False

    # Additions by records

    def put(self, queue: int, first_id: int, rows: int, size: int, lsn: int, number: int, carry_size: int = 0) -> None:
        """Messages of so many bytes are in segment `number`; `carry_size`: bytes that a checkpoint writes for them."""
        if queue in self.deleted_queues:
            return
        segment = self._segments[number]
        segment.rows += rows
        segment.put_size += size
        carry_size = carry_size or size
        segment.carry_size += carry_size
        if carry_size > segment.largest_put:
            segment.largest_put = carry_size
        segment.live[queue] = segment.live.get(queue, 0) + rows
        segment.queues.add(queue)
        locations = self._locations.get(queue)
        if locations is None:
            locations = self._locations[queue] = MessageLocations()
            self.last_queue = max(self.last_queue, queue)
        if first_id >= locations.end:
            locations.add(first_id, rows, number)
            return
        if self._in_checkpoint:
            for old, moved in locations.find(first_id, rows):
                self._when_durable.append((lsn, self._take, (queue, old, moved)))
        locations.move(first_id, rows, number)

    def restore(self, queue: int, first_id: int, end: int, rows: int, size: int, number: int) -> None:
        """At start: `rows` messages with ids in [first_id, end), beyond all known of the queue, are in a segment."""
        self.put(queue, first_id, rows, size, 0, number)
        self._locations[queue].end = end

    def prepare(self, record: Prepare, lsn: int, number: int) -> None:
        for put in record.puts:
            self._put(put, lsn, number, len(put.payload.data))
        self._segments[number].undecided += 1
        before = self._prepared.get(record.xid)
        if before is not None:
            self._when_durable.append((lsn, self._forget_prepare, (before.number,)))
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
            self.deleted_queues.clear()
        self._just_decided.append(prepared.number)
        removes = prepared.record.removes if record.commit else _as_removes(prepared.record.puts)
        self._when_durable.append((lsn, self._remove_all, (removes,)))

    # Removals by records, once they are durable

    def _remove_all(self, removes: Iterable[Remove]) -> None:
        for queue, ranges in removes:
            self._remove(queue, ranges)

    def _remove(self, queue: int, ranges: Iterable[tuple[int, int]]) -> None:
        locations = self._locations.get(queue)
        if locations is None:
            return
        for first_id, rows in ranges:
            for number, removed in locations.find(first_id, rows):
                self._take(queue, number, removed)

    def _take(self, queue: int, number: int, rows: int) -> None:
        segment = self._segments.get(number)
        if segment is None or queue not in self._locations:
            return
        left = segment.live.get(queue, 0) - rows
        assert left >= 0, f"records remove {-left} messages of queue {queue} that are not in segment {number}"
        if left:
            segment.live[queue] = left
        else:
            segment.live.pop(queue, None)

    def _forget_prepare(self, number: int) -> None:
        if number in self._segments:
            segment = self._segments[number]
            segment.undecided -= 1
            assert segment.undecided >= 0, f"more transactions are decided than segment {number} prepared"

    def _delete_queue(self, queue: int) -> None:
        self._locations.pop(queue, None)
        if self._prepared:
            self.deleted_queues.add(queue)
        for segment in self._segments.values():
            segment.live.pop(queue, None)
            segment.queues.discard(queue)


def _as_removes(puts: Iterable[Put]) -> list[Remove]:
    return [Remove(queue, ((first_id, put.payload.rows),)) for put in puts for queue, first_id in put.targets]
