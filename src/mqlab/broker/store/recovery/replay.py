"""What the records of a journal come to, read one after the other."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np

from mqlab.broker.core.durability.records import Decide, Declare, Forget, Prepare, Put, Record, Remember, Remove
from mqlab.broker.core.model.messages import OnDisk, Span
from mqlab.broker.store import journal_format
from mqlab.broker.store.files.checksums import Numbers
from mqlab.broker.store.payloads.stored import PayloadFile
from mqlab.broker.store.recovery.decoding import (
    RECORD_HEADER_SIZE,
    FileHeader,
    OtherVersionError,
    PutLocation,
    RecordHeader,
    TransactionBody,
    UnreadableRecordError,
    decode_file_header,
    parse,
    read_record_header,
)
from mqlab.broker.store.recovery.duplicate_ids import DuplicateIds, column_list
from mqlab.broker.store.recovery.live_ranges import LiveRange, RemovedIds, by_payload, remaining_ranges
from mqlab.broker.store.recovery.payload_holder import PAYLOAD_OVERHEAD_BYTES, PayloadHolder, preceding_group
from mqlab.broker.store.recovery.scanner import scan
from mqlab.broker.store.recovery.single_messages import MessageRun, SingleMessages, remaining_runs
from mqlab.errors import MqlabError
from mqlab.wire.native.bodies import COLUMNS, SINGLE, Payload

# What is left of a file is read record by record if it is no longer than this.
_SHORT: Final = 2048
_framed_put = journal_format.FRAMED_PUT.unpack_from
# Half the time of making a named tuple goes into naming.
_new = tuple.__new__

Targets = tuple[tuple[int, int], ...]


class UnreadableFileError(MqlabError):
    """The file cannot be read from this byte on; `lost`: what is missing is known to have been on disk."""

    def __init__(self, at: int, why: str, *, lost: bool = False) -> None:
        super().__init__(why)
        self.at = at
        self.lost = lost


def _span(parts: list[LiveRange]) -> Span:
    """All that is left of one payload in one piece: what was consumed in the midst of it is left out."""
    first = parts[0]
    index: range | Numbers = range(first.begin - first.base, first.end - first.base)
    if len(parts) > 1:
        begins, ends = (np.array([part[at] for part in parts]) for at in (0, 1))
        before = np.cumsum(ends - begins) - (ends - begins)
        rows = int(before[-1] + ends[-1] - begins[-1])
        index = np.arange(rows) + np.repeat(begins - first.base - before, ends - begins)
    return Span(first.payload, first.base, persistent=True, index=index, origin=first.origin)


@dataclass
class RecoveredQueue:
    name: str
    next_id: int = 1
    options: dict[str, Any] = field(default_factory=dict)
    parts: list[LiveRange] = field(default_factory=list)
    # (first id, rows) of what was removed since the parts were last settled; many at a time where they came so.
    removed: list[tuple[int, int]] = field(default_factory=list)
    removed_blocks: list[Numbers] = field(default_factory=list)

    def gone(self) -> Numbers:
        return np.concatenate((np.array(self.removed, dtype=np.int64).reshape(-1, 2), *self.removed_blocks))

    def spans(self) -> list[Span]:
        """What was put and never removed, in the order of the ids."""
        return [*map(_span, by_payload(self.parts))]


@dataclass
class PreparedTransaction:
    record: Prepare
    number: int
    lsn: int


class Replay:
    """`keep_in_memory`: bytes of payloads beyond which stand-ins are used."""

    def __init__(self, keep_in_memory: int) -> None:
        self.queues: dict[int, RecoveredQueue] = {}
        # Numbers of durable subscriptions by name.
        self._durable: dict[str, int] = {}
        self.prepared: dict[str, PreparedTransaction] = {}
        self.remembering = DuplicateIds()
        self.last_queue = 0
        self.lsn = 0
        # Of the file read last.
        self.head_size = self.first_lsn = 0
        # Why a file is not the one that was written, by its number, the store that its head names, and its size; or "".
        self.fault: Callable[[int, str, int], str] = lambda *_: ""
        # Whether the last record says that the broker stopped in good order.
        self.shut = False
        self._holding = PayloadHolder(keep_in_memory)
        # Puts and removes since the last settling, and parts that were left by that.
        self._noted = self._left = 0
        self._number = 0
        self._single_messages = SingleMessages()

    def read_file(self, data: bytes, number: int, home: PayloadFile, *, first: bool) -> int:
        """Replay a file and return where its records end. Raises UnreadableFileError.

        `first`: no file was read before it, so it may begin with any record.
        """
        try:
            head = decode_file_header(data)
        except UnreadableRecordError as why:
            raise UnreadableFileError(0, str(why), lost=isinstance(why, OtherVersionError)) from why
        if head.number != number:
            raise UnreadableFileError(0, f"it is journal file {head.number} under the name of another")
        if why_not := self.fault(number, head.store, len(data)):
            raise UnreadableFileError(0, why_not, lost=True)
        if not first and head.first_lsn != self.lsn + 1:
            # A file is synced before the next one begins.
            raise UnreadableFileError(0, f"it begins with record {head.first_lsn} instead of {self.lsn + 1}", lost=True)
        self._begin_file(head, number)
        self._holding.begin_file(data, home)
        self._single_messages = SingleMessages()
        at = head.size
        try:
            while True:
                if len(data) - at > _SHORT:
                    at = self._block(at)
                if at >= len(data) or self._is_room(at):
                    return at
                at = self._single_record(at)
        except UnreadableRecordError as why:
            raise UnreadableFileError(at, str(why)) from why
        finally:
            self._take_single_messages()
            self._holding.end_file()
            if self._noted > self._left:
                self.settle()

    def settle(self) -> None:
        """Drop what is known to be gone. Not too often: it looks at all that is left."""
        if not self._noted:
            return
        queues = self.queues.values()
        for queue in queues:
            queue.parts = remaining_ranges(queue.parts, queue.gone())
            queue.removed, queue.removed_blocks = [], []
        self._noted, self._left = 0, sum(len(queue.parts) for queue in queues)
        self._holding.count(part for queue in queues for part in queue.parts)

    def _is_room(self, at: int) -> bool:
        """Nothing was written from there on."""
        holding = self._holding
        return (
            holding.data.startswith(journal_format.NOTHING[: len(holding.data) - at], at)
            and not holding.bytes[at:].any()
        )

    def _begin_file(self, head: FileHeader, number: int) -> None:
        self._number = number
        self.head_size, self.first_lsn = head.size, head.first_lsn
        self.lsn = head.first_lsn - 1
        self.last_queue = max(self.last_queue, head.last_queue)
        for declared in head.declarations:
            self._declare(declared)
        self.remembering.begin_file(head.remembered)

    def _block(self, at: int) -> int:
        """Reads from `at` on; returns where a block ends, or where something is that is not right.

        Puts and removes may be read in any order, so small messages and removes, of which there may be millions, are
        taken together.
        """
        holding = self._holding
        block = scan(holding.data, holding.bytes, at, self.lsn)
        if not len(block.begins):
            return at
        rest = self._single_messages.take(block, holding.bytes)
        numbers = np.flatnonzero(rest)
        places = zip(block.kinds[rest].tolist(), block.begins[rest].tolist(), block.ends[rest].tolist(), strict=True)
        for lsn, (kind, begin, end) in zip((numbers + self.lsn + 1).tolist(), places, strict=True):
            if kind != journal_format.PUTS or not self._plain_put(begin, end, lsn):
                self._apply(RecordHeader(kind, lsn, 0, begin + RECORD_HEADER_SIZE, end))
        self.lsn += len(rest)
        self.shut = int(block.kinds[-1]) == journal_format.SHUT
        return block.end

    def _single_record(self, at: int) -> int:
        """A record that no block has: it begins the next one, or is not right."""
        frame = read_record_header(self._holding.data, at)
        if frame.lsn != self.lsn + 1:
            raise UnreadableRecordError(f"record {frame.lsn} stands where {self.lsn + 1} must be")
        self._apply(frame)
        self.lsn = frame.lsn
        self.shut = frame.kind == journal_format.SHUT
        return frame.end

    def _take_single_messages(self) -> None:
        """What the file says of messages in large numbers, and what is left of them."""
        holding = self._holding
        for number, blocks in self._single_messages.removed.items():
            if number in self.queues:
                self.queues[number].removed_blocks += blocks
                self._noted += sum(map(len, blocks))
        for number, rows in self._single_messages.queues():
            queue = self.queues.get(number)
            if queue is None:
                continue
            queue.next_id = max(queue.next_id, int(rows[0, -1]) + 1)
            for run in remaining_runs(rows, RemovedIds(queue.gone())):
                if not isinstance(run, MessageRun):
                    first_id, begin, size = run
                    self._put(PutLocation(((number, first_id),), "", 1, SINGLE, begin, begin + size), self.lsn)
                    continue
                payload = holding.hold_run(run)
                queue.parts += [
                    _new(LiveRange, (begin, end, run.first_id, payload, self.lsn, self._number, ""))
                    for begin, end in run.left
                ]
                self._noted += len(run.left)

    def _plain_put(self, at: int, end: int, lsn: int) -> bool:
        """Most of what is put one by one has one target and no origin. False: this has not, or does not fit in."""
        holding = self._holding
        data = holding.data
        _, _, _, _, _, count, origin, rows, size, form, target, first_id = _framed_put(data, at)
        queue = self.queues.get(target)
        if count + origin != 1 or queue is None or holding.kept + size > holding.most:
            return False
        payload = _new(Payload, (data[end - size : end], rows, form))
        if form & COLUMNS and column_list(payload.data, 0, form) not in self.remembering.without:
            self._remember(((target, first_id),), "", payload, happened=True)
        queue.parts.append(_new(LiveRange, (first_id, first_id + rows, first_id, payload, lsn, self._number, "")))
        queue.next_id = max(queue.next_id, first_id + rows)
        holding.kept += size + PAYLOAD_OVERHEAD_BYTES
        self._noted += 1
        return True

    def _apply(self, frame: RecordHeader) -> None:
        parsed = parse(self._holding.data, frame)
        if isinstance(parsed, PutLocation):
            self._put(parsed, frame.lsn)
        elif isinstance(parsed, Remove):
            self._remove(parsed)
        elif isinstance(parsed, TransactionBody):
            self._parts(parsed, frame)
        else:
            self._small(parsed, frame.lsn)

    def _put(self, put: PutLocation, lsn: int) -> None:
        queues = [self.queues.get(target) for target, _ in put.targets]
        last = [queue.parts[-1] if queue is not None and queue.parts else None for queue in queues]
        payload = self._holding.hold(put, preceding_group(put.targets, last))
        self._place(put.targets, put.rows, payload, put.origin, lsn, self._number)
        data = self._holding.data
        if put.form & COLUMNS and column_list(data, put.begin, put.form) not in self.remembering.without:
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
                queue.parts[-1] = _new(LiveRange, (last[0], end, *last[2:]))
            else:
                queue.parts.append(LiveRange(first_id, end, first_id, payload, lsn, number, origin))
            queue.next_id = max(queue.next_id, end)
            self._noted += 1

    def _remove(self, remove: Remove) -> None:
        queue = self.queues.get(remove.queue)
        if queue is not None:
            queue.removed += remove.ranges
            self._noted += len(remove.ranges)

    def _parts(self, parts: TransactionBody, frame: RecordHeader) -> None:
        if frame.kind == journal_format.PREPARED:
            puts = tuple(put.put(self._holding.data) for put in parts.puts)
            record = Prepare(parts.xid, puts, parts.removes)
            self.prepared[parts.xid] = PreparedTransaction(record, self._number, frame.lsn)
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
            gone = self.queues.pop(record.queue, None)
            if gone is not None and not gone.options:
                self.remembering.drop(f"queue:{gone.name}")
        elif isinstance(record, Decide):
            self._decide(record, lsn)
        elif isinstance(record, Remember):
            self.remembering.add(record.destination, record.ids)

    def _declare(self, declared: Declare) -> None:
        if declared.options:
            former = self._durable.get(declared.name, declared.queue)
            if former != declared.queue:
                self.queues.pop(former, None)
            self._durable[declared.name] = declared.queue
        queue = self.queues.setdefault(declared.queue, RecoveredQueue(declared.name))
        if queue.name != declared.name and self._durable.get(queue.name) == declared.queue:
            # It has another name now, and the former one is free.
            del self._durable[queue.name]
        queue.name, queue.next_id = declared.name, max(queue.next_id, declared.next_id)
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
