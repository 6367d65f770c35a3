"""Replay: the state that the records of a journal describe, read one file after the other."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from mqlab.broker.core.durability.records import Decide, Declare, Forget, Prepare, Put, Record, Remember, Remove, Shut
from mqlab.broker.core.model.messages import PayloadOnDisk, Span
from mqlab.broker.store.files.checksums import Numbers
from mqlab.broker.store.journal_format import KIND_OF, RECORD_HEADER, RECORD_OF, SIMPLE_PUT, UNWRITTEN
from mqlab.broker.store.payloads.stored import PayloadFile
from mqlab.broker.store.recovery.decoding import (
    FileHeader,
    OtherVersionError,
    PutLocation,
    RecordHeader,
    TransactionBody,
    UnreadableRecordError,
    decode_body,
    decode_file_header,
    read_record_header,
)
from mqlab.broker.store.recovery.duplicate_ids import DuplicateIds, column_list
from mqlab.broker.store.recovery.live_ranges import LiveRange, RemovedIds, by_payload, remaining_ranges
from mqlab.broker.store.recovery.payload_holder import PAYLOAD_OVERHEAD_BYTES, PayloadHolder, preceding_group
from mqlab.broker.store.recovery.scanner import scan
from mqlab.broker.store.recovery.single_messages import SingleMessageRun, SingleMessages, remaining_runs
from mqlab.errors import MqlabError
from mqlab.json_values import JsonObject
from mqlab.wire.native.bodies import COLUMNS, SINGLE, Payload

# The rest of a file is read record by record if it is at most this long.
_SHORT_BYTES: Final = 2048
_PUT_KIND: Final = KIND_OF[Put]
_unpack_simple_put: Final = (RECORD_HEADER + SIMPLE_PUT).unpack_from

Targets = tuple[tuple[int, int], ...]


class UnreadableFileError(MqlabError):
    """The file is unreadable from byte `at` on; `lost`: what is missing is known to have been on disk."""

    def __init__(self, at: int, reason: str, *, lost: bool = False) -> None:
        super().__init__(reason)
        self.at = at
        self.lost = lost


def _span(ranges: list[LiveRange]) -> Span:
    """One span of all live rows of a payload."""
    first = ranges[0]
    index: range | Numbers = range(first.begin - first.base, first.end - first.base)
    if len(ranges) > 1:
        begins, ends = (np.array([live[at] for live in ranges]) for at in (0, 1))
        before = np.cumsum(ends - begins) - (ends - begins)
        rows = int(before[-1] + ends[-1] - begins[-1])
        index = np.arange(rows) + np.repeat(begins - first.base - before, ends - begins)
    return Span(first.payload, first.base, persistent=True, index=index, origin=first.origin)


@dataclass
class RecoveredQueue:
    name: str
    next_id: int = 1
    options: JsonObject = field(default_factory=dict)
    live: list[LiveRange] = field(default_factory=list)
    # (first id, rows) of what was removed since `live` was last updated; as arrays where they were read so.
    removed: list[tuple[int, int]] = field(default_factory=list)
    removed_blocks: list[Numbers] = field(default_factory=list)

    def all_removed(self) -> Numbers:
        return np.concatenate((np.array(self.removed, dtype=np.int64).reshape(-1, 2), *self.removed_blocks))

    def spans(self) -> list[Span]:
        """The live messages, by ascending id."""
        return [*map(_span, by_payload(self.live))]


@dataclass
class RecoveredTransaction:
    record: Prepare
    number: int
    lsn: int


class Replay:
    """`keep_in_memory`: bytes of payloads beyond which messages get references to the journal."""

    def __init__(self, keep_in_memory: int) -> None:
        self.queues: dict[int, RecoveredQueue] = {}
        # Numbers of durable subscriptions by name.
        self._durable: dict[str, int] = {}
        self.prepared: dict[str, RecoveredTransaction] = {}
        self.duplicate_ids = DuplicateIds()
        self.last_queue = 0
        self.lsn = 0
        # Of the file that was read last.
        self.header_size = self.first_lsn = 0
        # Compares a file with the manifest, by number, the store that its header names, and size; "" if they match.
        self.mismatch: Callable[[int, str, int], str] = lambda *_: ""
        # Whether the last record says that the broker stopped in good order.
        self.is_shut = False
        self._holder = PayloadHolder(keep_in_memory)
        # Puts and removes since `drop_removed` last ran, and the live ranges that it left.
        self._changes = self._remaining = 0
        self._number = 0
        self._single_messages = SingleMessages()

    def read_file(self, data: bytes, number: int, file: PayloadFile, *, first: bool) -> int:
        """Replay a file and return the byte at which its records end. Raises UnreadableFileError.

        `first`: no file was read before it, so it may begin with any record.
        """
        try:
            header = decode_file_header(data)
        except UnreadableRecordError as error:
            raise UnreadableFileError(0, str(error), lost=isinstance(error, OtherVersionError)) from error
        if header.number != number:
            raise UnreadableFileError(0, f"its header says that it is journal file {header.number}")
        if mismatch := self.mismatch(number, header.store, len(data)):
            raise UnreadableFileError(0, mismatch, lost=True)
        if not first and header.first_lsn != self.lsn + 1:
            # The journal syncs a file before it begins the next one.
            reason = f"it begins with record {header.first_lsn} instead of {self.lsn + 1}"
            raise UnreadableFileError(0, reason, lost=True)
        self._begin_file(header, number)
        self._holder.begin_file(data, file)
        self._single_messages = SingleMessages()
        at = header.size
        try:
            while True:
                if len(data) - at > _SHORT_BYTES:
                    at = self._read_block(at)
                if at >= len(data) or self._is_unwritten(at):
                    return at
                at = self._read_record(at)
        except UnreadableRecordError as error:
            raise UnreadableFileError(at, str(error)) from error
        finally:
            self._apply_single_messages()
            self._holder.end_file()
            if self._changes > self._remaining:
                self.drop_removed()

    def drop_removed(self) -> None:
        """Drop the messages that were removed. It examines all live ranges, so it should not run too often."""
        if not self._changes:
            return
        queues = self.queues.values()
        for queue in queues:
            queue.live = remaining_ranges(queue.live, queue.all_removed())
            queue.removed, queue.removed_blocks = [], []
        self._changes, self._remaining = 0, sum(len(queue.live) for queue in queues)
        self._holder.recount(live for queue in queues for live in queue.live)

    def _is_unwritten(self, at: int) -> bool:
        """Nothing was written from this byte on."""
        data = self._holder.data
        return data.startswith(UNWRITTEN[: len(data) - at], at) and not self._holder.array[at:].any()

    def _begin_file(self, header: FileHeader, number: int) -> None:
        self._number = number
        self.header_size, self.first_lsn = header.size, header.first_lsn
        self.lsn = header.first_lsn - 1
        self.last_queue = max(self.last_queue, header.last_queue)
        for declare in header.declarations:
            self._declare(declare)
        self.duplicate_ids.begin_file(header.remembered)

    def _read_block(self, at: int) -> int:
        """Replay a block of records from byte `at` on; return its end, which may be an unreadable record.

        The order of puts and removes does not matter, so small messages and removes, of which there may be millions,
        are applied together at the end of the file.
        """
        holder = self._holder
        block = scan(holder.data, holder.array, at, self.lsn)
        if not len(block.begins):
            return at
        rest = self._single_messages.take(block, holder.array)
        lsns = (np.flatnonzero(rest) + self.lsn + 1).tolist()
        columns = (block.kinds[rest].tolist(), block.begins[rest].tolist(), block.ends[rest].tolist())
        for lsn, kind, begin, end in zip(lsns, *columns, strict=True):
            if kind != _PUT_KIND or not self._apply_simple_put(begin, end, lsn):
                self._apply(RecordHeader(kind, lsn, 0, begin + RECORD_HEADER.size, end))
        self.lsn += len(rest)
        self.is_shut = RECORD_OF[int(block.kinds[-1])] is Shut
        return block.end

    def _read_record(self, at: int) -> int:
        """Replay a record that no block has: it begins the next block, or is unreadable."""
        header = read_record_header(self._holder.data, at)
        if header.lsn != self.lsn + 1:
            raise UnreadableRecordError(f"it has record {header.lsn} where record {self.lsn + 1} must be")
        self._apply(header)
        self.lsn = header.lsn
        self.is_shut = RECORD_OF[header.kind] is Shut
        return header.end

    def _apply_single_messages(self) -> None:
        """Apply the removes and small messages of a file, of which only those that are still live are kept."""
        holder = self._holder
        for number, blocks in self._single_messages.removed.items():
            if number in self.queues:
                self.queues[number].removed_blocks += blocks
                self._changes += sum(map(len, blocks))
        for number, rows in self._single_messages.queues():
            queue = self.queues.get(number)
            if queue is None:
                continue
            queue.next_id = max(queue.next_id, int(rows[0, -1]) + 1)
            for run in remaining_runs(rows, RemovedIds(queue.all_removed())):
                if not isinstance(run, SingleMessageRun):
                    first_id, begin, size = run
                    self._put(PutLocation(((number, first_id),), "", 1, SINGLE, begin, begin + size), self.lsn)
                    continue
                payload = holder.hold_run(run)
                queue.live += [
                    LiveRange(begin, end, run.first_id, payload, self.lsn, self._number, "") for begin, end in run.live
                ]
                self._changes += len(run.live)

    def _apply_simple_put(self, at: int, end: int, lsn: int) -> bool:
        """Apply a put with one target and no origin. False: it is another put, or its payload exceeds the memory."""
        holder = self._holder
        data = holder.data
        _, _, _, _, _, targets, origin_bytes, rows, size, form, target, first_id = _unpack_simple_put(data, at)
        queue = self.queues.get(target)
        if targets + origin_bytes != 1 or queue is None or holder.memory_bytes + size > holder.limit_bytes:
            return False
        payload = Payload(data[end - size : end], rows, form)
        if form & COLUMNS and column_list(payload.data, 0, form) not in self.duplicate_ids.lists_without_ids:
            self._note_duplicate_ids(((target, first_id),), "", payload)
        queue.live.append(LiveRange(first_id, first_id + rows, first_id, payload, lsn, self._number, ""))
        queue.next_id = max(queue.next_id, first_id + rows)
        holder.memory_bytes += size + PAYLOAD_OVERHEAD_BYTES
        self._changes += 1
        return True

    def _apply(self, header: RecordHeader) -> None:
        body = decode_body(self._holder.data, header)
        if isinstance(body, PutLocation):
            self._put(body, header.lsn)
        elif isinstance(body, Remove):
            self._remove(body)
        elif isinstance(body, TransactionBody):
            self._apply_transaction(body, header)
        else:
            self._apply_small_record(body, header.lsn)

    def _put(self, put: PutLocation, lsn: int) -> None:
        queues = [self.queues.get(target) for target, _ in put.targets]
        last_ranges = [queue.live[-1] if queue is not None and queue.live else None for queue in queues]
        payload = self._holder.hold(put, preceding_group(put.targets, last_ranges))
        self._place(put.targets, put.rows, payload, put.origin, lsn, self._number)
        data = self._holder.data
        if put.form & COLUMNS and column_list(data, put.begin, put.form) not in self.duplicate_ids.lists_without_ids:
            self._note_duplicate_ids(put.targets, put.origin, put.put(data).payload)

    def _place(
        self, targets: Targets, rows: int, payload: Payload | PayloadOnDisk, origin: str, lsn: int, number: int
    ) -> None:
        for target, first_id in targets:
            queue = self.queues.get(target)
            if queue is None:
                continue
            end = first_id + rows
            last = queue.live[-1] if queue.live else None
            if last is not None and last.payload is payload:
                queue.live[-1] = LiveRange(last[0], end, *last[2:])
            else:
                queue.live.append(LiveRange(first_id, end, first_id, payload, lsn, number, origin))
            queue.next_id = max(queue.next_id, end)
            self._changes += 1

    def _remove(self, remove: Remove) -> None:
        queue = self.queues.get(remove.queue)
        if queue is not None:
            queue.removed += remove.ranges
            self._changes += len(remove.ranges)

    def _apply_transaction(self, body: TransactionBody, header: RecordHeader) -> None:
        if RECORD_OF[header.kind] is Prepare:
            puts = tuple(put.put(self._holder.data) for put in body.puts)
            record = Prepare(body.xid, puts, body.removes)
            self.prepared[body.xid] = RecoveredTransaction(record, self._number, header.lsn)
            for put in puts:
                self._reserve_ids(put)
                self._note_duplicate_ids(put.targets, put.origin, put.payload)
            return
        for location in body.puts:
            self._put(location, header.lsn)
        for remove in body.removes:
            self._remove(remove)

    def _reserve_ids(self, put: Put) -> None:
        """The ids of a prepared put stay in use, also if it is rolled back."""
        for target, first_id in put.targets:
            self.last_queue = max(self.last_queue, target)
            if target in self.queues:
                queue = self.queues[target]
                queue.next_id = max(queue.next_id, first_id + put.payload.rows)

    def _apply_small_record(self, record: Record, lsn: int) -> None:
        if isinstance(record, Declare):
            self._declare(record)
        elif isinstance(record, Forget):
            deleted = self.queues.pop(record.queue, None)
            if deleted is not None and not deleted.options:
                self.duplicate_ids.drop(f"queue:{deleted.name}")
        elif isinstance(record, Decide):
            self._decide(record, lsn)
        elif isinstance(record, Remember):
            self.duplicate_ids.add(record.destination, record.ids)

    def _declare(self, declare: Declare) -> None:
        if declare.options:
            former = self._durable.get(declare.name, declare.queue)
            if former != declare.queue:
                self.queues.pop(former, None)
            self._durable[declare.name] = declare.queue
        queue = self.queues.setdefault(declare.queue, RecoveredQueue(declare.name))
        if queue.name != declare.name and self._durable.get(queue.name) == declare.queue:
            # The subscription was renamed, so the former name is free.
            del self._durable[queue.name]
        queue.name, queue.next_id = declare.name, max(queue.next_id, declare.next_id)
        queue.options = declare.options
        self.last_queue = max(self.last_queue, declare.queue)

    def _decide(self, record: Decide, lsn: int) -> None:
        prepared = self.prepared.pop(record.xid, None)
        if prepared is None:
            return
        for targets, payload, origin in prepared.record.puts:
            if record.commit:
                self._place(targets, payload.rows, payload, origin, lsn, prepared.number)
            # Also of a commit: file headers since the prepare do not name the ids of undecided transactions.
            self._note_duplicate_ids(targets, origin, payload, is_rolled_back=not record.commit)
        if record.commit:
            for remove in prepared.record.removes:
                self._remove(remove)

    def _note_duplicate_ids(
        self, targets: Targets, origin: str, payload: Payload, *, is_rolled_back: bool = False
    ) -> None:
        target = self.queues.get(targets[0][0])
        destination = origin or (f"queue:{target.name}" if target is not None else "")
        if payload.form & COLUMNS and destination:
            self.duplicate_ids.note_payload(destination, payload, is_rolled_back=is_rolled_back)
