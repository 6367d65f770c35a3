"""What the records of a journal come to, read one after the other."""

from dataclasses import dataclass, field
from typing import Any, Final

import google_crc32c
import numpy as np

from mqlab.broker.core.messages import Span
from mqlab.broker.core.records import Decide, Declare, Forget, Prepare, Put, Record, Remember, Remove, Shut
from mqlab.broker.store import layout
from mqlab.broker.store.parts import Part, left_of
from mqlab.broker.store.records import FRAME_SIZE, Damaged, Frame, Head, Parts, PutAt, decode_head, frame_at, parse
from mqlab.broker.store.stored import Home, Stored
from mqlab.wire.bodies import COLUMNS, MalformedPayloadError, Payload
from mqlab.wire.columns import column

# Smaller payloads stay in memory: what would stand for them is no smaller.
_SMALL: Final = 256
# Up to here a copy costs less than a view.
_SHORT: Final = 1024
_LONGEST_PLAIN: Final = layout.FRAMED_PUT.size
_UNCOVERED: Final = layout.BEGIN.size
_KIND_AT: Final = FRAME_SIZE - 1
_framed_put, _framed_remove = layout.FRAMED_PUT.unpack_from, layout.FRAMED_REMOVE.unpack_from
# Half the time of making a named tuple goes into naming.
_new = tuple.__new__
_NOTHING: Final = np.empty(0, dtype=np.uint8)

Targets = tuple[tuple[int, int], ...]


class Unreadable(Exception):  # noqa: N818 - a fact; whether it is an error is decided by the evidence
    """The file cannot be read from this byte on."""

    def __init__(self, at: int, why: str) -> None:
        super().__init__(why)
        self.at = at


@dataclass
class RecoveredQueue:
    name: str
    next_id: int = 1
    options: dict[str, Any] = field(default_factory=dict)
    parts: list[Part] = field(default_factory=list)
    removed: list[tuple[int, int]] = field(default_factory=list)

    def spans(self) -> list[Span]:
        """What was put and never removed, in the order of the ids."""
        return [
            Span(
                one.payload, one.base, persistent=True, index=range(one.begin - one.base, one.end - one.base),
                origin=one.origin,
            )
            for one in self.parts
        ]  # fmt: skip


@dataclass
class PreparedAt:
    record: Prepare
    number: int
    lsn: int


class Replay:
    """`keep_in_memory`: bytes of payloads beyond which stand-ins are used."""

    def __init__(self, keep_in_memory: int) -> None:
        self.queues: dict[int, RecoveredQueue] = {}
        self.prepared: dict[str, PreparedAt] = {}
        self.last_queue = 0
        self.lsn = 0
        # Of the file read last.
        self.head_size = self.first_lsn = 0
        # Whether the last record says that the broker stopped in good order.
        self.shut = False
        # Destination, and ids that producers gave, or a payload that may have some (looked at only if it must be);
        # whether they are to be remembered, or did not happen after all.
        self._to_remember: list[tuple[str, tuple[str, ...] | Payload, bool]] = []
        self._keep_in_memory = keep_in_memory
        self._kept = 0
        # Puts and removes since the last settling, and parts that were left by that.
        self._noted = self._left = 0
        # The file being read.
        self._data, self._bytes = b"", _NOTHING
        self._number = 0
        self._home: Home

    def read_file(self, data: bytes, number: int, home: Home, *, first: bool) -> None:
        """All of a file; `first`: it may begin with any record. Raises Unreadable."""
        try:
            head = decode_head(data)
        except Damaged as why:
            raise Unreadable(0, str(why)) from why
        if head.number != number:
            raise Unreadable(0, f"it is journal file {head.number} under the name of another")
        if not first and head.first_lsn != self.lsn + 1:
            raise Unreadable(0, f"it begins with record {head.first_lsn} instead of {self.lsn + 1}")
        self._begin_file(head, data, number, home)
        self.head_size, self.first_lsn = head.size, head.first_lsn
        at = head.size
        try:
            while (at := self._plain_records(at)) < len(data):
                frame = frame_at(data, at)
                if frame.lsn != self.lsn + 1:
                    raise Damaged(f"record {frame.lsn} stands where {self.lsn + 1} must be")
                self._apply(frame)
                self.lsn, at = frame.lsn, frame.end
        except Damaged as why:
            raise Unreadable(at, str(why)) from why
        finally:
            # A file at a time is enough in memory.
            self._data, self._bytes = b"", _NOTHING
            if self._noted > self._left:
                self.settle()

    def settle(self) -> None:
        """Drop what is known to be gone. Not too often: it looks at all that is left."""
        if not self._noted:
            return
        queues = self.queues.values()
        for queue in queues:
            queue.parts, queue.removed = left_of(queue.parts, queue.removed), []
        self._noted, self._left = 0, sum(len(queue.parts) for queue in queues)
        if self._kept > self._keep_in_memory // 2:
            # Where several queues have a message, it is in memory once.
            held = {id(part.payload): part.payload for queue in queues for part in queue.parts}
            self._kept = sum(len(one.data) for one in held.values() if isinstance(one, Payload))

    def remembered(self) -> dict[str, list[str]]:
        """Ids of producers, by destination, oldest first."""
        found: dict[str, dict[str, None]] = {}
        for destination, source, happened in self._to_remember:
            ids = _duplicate_ids(source) if isinstance(source, Payload) else source
            known = found.setdefault(destination, {})
            if happened:
                # An id that was carried forward stays where it was.
                known |= dict.fromkeys(ids)
            else:
                for one in ids:
                    known.pop(one, None)
        return {destination: [*ids] for destination, ids in found.items() if ids}

    def _begin_file(self, head: Head, data: bytes, number: int, home: Home) -> None:
        self._data, self._number, self._home = data, number, home
        self._bytes = np.frombuffer(data, dtype=np.uint8)
        self.lsn = head.first_lsn - 1
        self.last_queue = max(self.last_queue, head.last_queue)
        for declared in head.declarations:
            self._declare(declared)
        # The head says all that must be remembered of the files before it.
        self._to_remember = [(*one, True) for one in head.remembered]

    def _plain_records(self, at: int) -> int:
        """Reads from `at` on; returns where something begins that is no plain put or remove, or is not right.

        Nearly all records are plain, and there may be millions: each function called for one would be seen in the time.
        """
        data, size, covered, queues = self._data, len(self._data), self._bytes, self.queues
        lsn, kept, noted, number = self.lsn, self._kept, self._noted, self._number
        while at <= size - _LONGEST_PLAIN:
            kind = data[at + _KIND_AT]
            if kind == layout.PUTS:
                length, crc, found, _, _, count, origin, rows, bytes_, form, target, first_id = _framed_put(data, at)
                if origin or form & COLUMNS or (bytes_ > _SMALL and kept + bytes_ > self._keep_in_memory):
                    break
            elif kind == layout.REMOVED:
                length, crc, found, _, _, target, count, first_id, rows = _framed_remove(data, at)
            else:
                break
            begin, end, queue = at + _UNCOVERED, at + FRAME_SIZE + length, queues.get(target)
            if count != 1 or found != lsn + 1 or end > size or queue is None:
                break
            if google_crc32c.value(data[begin:end] if length < _SHORT else covered[begin:end]) != crc:
                break
            if kind == layout.PUTS:
                payload = _new(Payload, (data[end - bytes_ : end], rows, form))
                queue.parts.append(_new(Part, (first_id, first_id + rows, first_id, payload, found, number, "")))
                if first_id + rows > queue.next_id:
                    queue.next_id = first_id + rows
                kept += bytes_
            else:
                queue.removed.append((first_id, rows))
            noted += 1
            lsn, at = found, end
        self.shut = self.shut and lsn == self.lsn
        self.lsn, self._kept, self._noted = lsn, kept, noted
        return at

    def _apply(self, frame: Frame) -> None:
        parsed = parse(self._data, frame)
        if isinstance(parsed, PutAt):
            self._put(parsed, frame.lsn)
        elif isinstance(parsed, Remove):
            self._remove(parsed)
        elif isinstance(parsed, Parts):
            self._parts(parsed, frame)
        else:
            self._small(parsed, frame.lsn)
        self.shut = isinstance(parsed, Shut)

    def _put(self, put: PutAt, lsn: int) -> None:
        payload = self._hold(put)
        self._place(put.targets, payload, put.origin, lsn, self._number)
        if put.form & COLUMNS:
            data = memoryview(self._data)[put.begin : put.end]
            self._note_columns(put.targets, put.origin, Payload(data, put.rows, put.form), happened=True)

    def _hold(self, put: PutAt) -> Payload | Stored:
        size = put.end - put.begin
        if size > _SMALL and self._kept + size > self._keep_in_memory:
            crc = google_crc32c.value(self._bytes[put.begin : put.end])
            return Stored(self._home, put.begin, size, put.rows, put.form, crc)
        self._kept += size
        return Payload(self._data[put.begin : put.end], put.rows, put.form)

    def _place(self, targets: Targets, payload: Payload | Stored, origin: str, lsn: int, number: int) -> None:
        for target, first_id in targets:
            queue = self.queues.get(target)
            if queue is not None:
                end = first_id + payload.rows
                queue.parts.append(Part(first_id, end, first_id, payload, lsn, number, origin))
                queue.next_id = max(queue.next_id, end)
                self._noted += 1

    def _remove(self, remove: Remove) -> None:
        queue = self.queues.get(remove.queue)
        if queue is not None:
            queue.removed += remove.ranges
            self._noted += len(remove.ranges)

    def _parts(self, parts: Parts, frame: Frame) -> None:
        if frame.kind == layout.PREPARED:
            puts = tuple(put.put(self._data) for put in parts.puts)
            record = Prepare(parts.xid, puts, parts.removes)
            self.prepared[parts.xid] = PreparedAt(record, self._number, frame.lsn)
            for put in puts:
                self._reserve(put)
                self._note_columns(put.targets, put.origin, put.payload, happened=True)
            return
        for put_at in parts.puts:
            self._put(put_at, frame.lsn)
        for remove in parts.removes:
            self._remove(remove)

    def _reserve(self, put: Put) -> None:
        """The ids of a prepared put are in use, whatever becomes of it."""
        for target, first_id in put.targets:
            self.last_queue = max(self.last_queue, target)
            if target in self.queues:
                queue = self.queues[target]
                queue.next_id = max(queue.next_id, first_id + put.payload.rows)

    def _small(self, record: Record, lsn: int) -> None:
        if isinstance(record, Declare):
            self._declare(record)
        elif isinstance(record, Forget):
            self.queues.pop(record.queue, None)
        elif isinstance(record, Decide):
            self._decide(record, lsn)
        elif isinstance(record, Remember):
            self._to_remember.append((*record, True))

    def _declare(self, declared: Declare) -> None:
        queue = self.queues.setdefault(declared.queue, RecoveredQueue(declared.name))
        queue.next_id = max(queue.next_id, declared.next_id)
        queue.options = declared.options
        self.last_queue = max(self.last_queue, declared.queue)

    def _decide(self, record: Decide, lsn: int) -> None:
        prepared = self.prepared.pop(record.xid, None)
        if prepared is None:
            return
        for targets, payload, origin in prepared.record.puts:
            if record.commit:
                self._place(targets, payload, origin, lsn, prepared.number)
            # Also of a commit: heads of files since the prepare do not say what is not decided.
            self._note_columns(targets, origin, payload, happened=record.commit)
        if record.commit:
            for remove in prepared.record.removes:
                self._remove(remove)

    def _note_columns(self, targets: Targets, origin: str, payload: Payload, *, happened: bool) -> None:
        """Its producer may have given ids by which duplicates are known."""
        if not payload.form & COLUMNS:
            return
        if origin:
            self._to_remember.append((origin, payload, happened))
        elif targets[0][0] in self.queues:
            self._to_remember.append(("queue:" + self.queues[targets[0][0]].name, payload, happened))


def _duplicate_ids(payload: Payload) -> list[str]:
    try:
        ids = column(payload, "duplicate_id")
    except MalformedPayloadError:
        # Nobody could read it, so nobody was promised anything by such a column.
        return []
    return [] if ids is None else [one for one in ids.to_pylist() if one is not None]
