"""What the records of a journal come to, read one after the other."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any, Final

import google_crc32c
import numpy as np

from mqlab.broker.core.messages import OnDisk, Span
from mqlab.broker.core.records import Decide, Declare, Forget, Prepare, Put, Record, Remember, Remove, Shut
from mqlab.broker.store import layout
from mqlab.broker.store.holding import EACH, Holding, followed_by
from mqlab.broker.store.parts import Part, left_of
from mqlab.broker.store.records import FRAME_SIZE, Damaged, Frame, Head, Parts, PutAt, decode_head, frame_at, parse
from mqlab.broker.store.remembering import Remembering, columns_in
from mqlab.broker.store.stored import Home
from mqlab.wire.bodies import COLUMNS, Payload

# Up to here a copy costs less than a view.
_SHORT: Final = 1024
_LONGEST_PLAIN: Final = layout.FRAMED_PUT.size
_UNCOVERED: Final = layout.BEGIN.size
_KIND_AT: Final = FRAME_SIZE - 1
_framed_put, _framed_remove = layout.FRAMED_PUT.unpack_from, layout.FRAMED_REMOVE.unpack_from
# Half the time of making a named tuple goes into naming.
_new = tuple.__new__

Targets = tuple[tuple[int, int], ...]


class Unreadable(Exception):  # noqa: N818 - a fact; whether it is an error is decided by the evidence
    """The file cannot be read from this byte on."""

    def __init__(self, at: int, why: str) -> None:
        super().__init__(why)
        self.at = at


def _payload_id(part: Part) -> int:
    return id(part.payload)


def _span(group: tuple[int, Iterator[Part]]) -> Span:
    """All that is left of one payload in one piece: what was consumed in the midst of it is left out."""
    parts = [*group[1]]
    first = parts[0]
    index: range | np.ndarray[Any, Any] = range(first.begin - first.base, first.end - first.base)
    if len(parts) > 1:
        index = np.concatenate([np.arange(one.begin - one.base, one.end - one.base) for one in parts])
    return Span(first.payload, first.base, persistent=True, index=index, origin=first.origin)


@dataclass
class RecoveredQueue:
    name: str
    next_id: int = 1
    options: dict[str, Any] = field(default_factory=dict)
    parts: list[Part] = field(default_factory=list)
    removed: list[tuple[int, int]] = field(default_factory=list)

    def spans(self) -> list[Span]:
        """What was put and never removed, in the order of the ids."""
        return [*map(_span, groupby(self.parts, key=_payload_id))]


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
        self.remembering = Remembering()
        self.last_queue = 0
        self.lsn = 0
        # Of the file read last.
        self.head_size = self.first_lsn = 0
        # Whether the last record says that the broker stopped in good order.
        self.shut = False
        self._holding = Holding(keep_in_memory)
        # Puts and removes since the last settling, and parts that were left by that.
        self._noted = self._left = 0
        self._number = 0

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
        self._begin_file(head, number)
        self._holding.begin_file(data, home)
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
            self._holding.end_file()
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
        self._holding.count(part for queue in queues for part in queue.parts)

    def _begin_file(self, head: Head, number: int) -> None:
        self._number = number
        self.head_size, self.first_lsn = head.size, head.first_lsn
        self.lsn = head.first_lsn - 1
        self.last_queue = max(self.last_queue, head.last_queue)
        for declared in head.declarations:
            self._declare(declared)
        self.remembering.begin_file(head.remembered)

    def _plain_records(self, at: int) -> int:
        """Reads from `at` on; returns where something begins that is no plain put or remove, or is not right.

        Nearly all records are plain, and there may be millions: each function called for one would be seen in the time.
        """
        holding, queues, number, lsn = self._holding, self.queues, self._number, self.lsn
        data, size, covered = holding.data, len(holding.data), holding.bytes
        without = self.remembering.without
        while at <= size - _LONGEST_PLAIN:
            kind = data[at + _KIND_AT]
            if kind == layout.PUTS:
                length, crc, found, _, _, count, origin, rows, bytes_, form, target, first_id = _framed_put(data, at)
                count += origin
            elif kind == layout.REMOVED:
                length, crc, found, _, _, target, count, first_id, rows = _framed_remove(data, at)
            else:
                break
            begin, end, queue = at + _UNCOVERED, at + FRAME_SIZE + length, queues.get(target)
            if count != 1 or found != lsn + 1 or end > size or queue is None:
                break
            if google_crc32c.value(data[begin:end] if length < _SHORT else covered[begin:end]) != crc:
                break
            if kind == layout.REMOVED:
                queue.removed.append((first_id, rows))
                self._noted += 1
            elif holding.kept + bytes_ > holding.most:
                self._put(PutAt(((target, first_id),), "", rows, form, end - bytes_, end), found)
            else:
                begin = end - bytes_
                payload = _new(Payload, (data[begin:end], rows, form))
                if form & COLUMNS and data[begin : begin + 2 + data[begin] + 256 * data[begin + 1]] not in without:
                    self._remember(((target, first_id),), "", payload, happened=True)
                queue.parts.append(_new(Part, (first_id, first_id + rows, first_id, payload, found, number, "")))
                if first_id + rows > queue.next_id:
                    queue.next_id = first_id + rows
                holding.kept += bytes_ + EACH
                self._noted += 1
            lsn, at = found, end
        self.shut = self.shut and lsn == self.lsn
        self.lsn = lsn
        return at

    def _apply(self, frame: Frame) -> None:
        parsed = parse(self._holding.data, frame)
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
        queues = [self.queues.get(target) for target, _ in put.targets]
        last = [queue.parts[-1] if queue is not None and queue.parts else None for queue in queues]
        payload = self._holding.hold(put, followed_by(put.targets, last))
        self._place(put.targets, put.rows, payload, put.origin, lsn, self._number)
        data = self._holding.data
        if put.form & COLUMNS and columns_in(data, put.begin, put.form) not in self.remembering.without:
            self._remember(put.targets, put.origin, put.put(data).payload, happened=True)

    def _place(
        self, targets: Targets, rows: int, payload: Payload | OnDisk, origin: str, lsn: int, number: int
    ) -> None:
        for target, first_id in targets:
            queue = self.queues.get(target)
            if queue is None:
                continue
            end = first_id + rows
            last = queue.parts[-1] if queue.parts else None
            if last is not None and last.payload is payload:
                queue.parts[-1] = _new(Part, (last[0], end, *last[2:]))
            else:
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
            puts = tuple(put.put(self._holding.data) for put in parts.puts)
            record = Prepare(parts.xid, puts, parts.removes)
            self.prepared[parts.xid] = PreparedAt(record, self._number, frame.lsn)
            for put in puts:
                self._reserve(put)
                self._remember(put.targets, put.origin, put.payload, happened=True)
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
            self.remembering.add(record.destination, record.ids)

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
                self._place(targets, payload.rows, payload, origin, lsn, prepared.number)
            # Also of a commit: heads of files since the prepare do not say what is not decided.
            self._remember(targets, origin, payload, happened=record.commit)
        if record.commit:
            for remove in prepared.record.removes:
                self._remove(remove)

    def _remember(self, targets: Targets, origin: str, payload: Payload, *, happened: bool) -> None:
        """Its producer may have given ids by which duplicates are known."""
        target = self.queues.get(targets[0][0])
        destination = origin or (f"queue:{target.name}" if target is not None else "")
        if payload.form & COLUMNS and destination:
            self.remembering.look_at(destination, payload, happened=happened)
