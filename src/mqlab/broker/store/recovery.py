"""What the journal says after a stop of any kind: every durable record, or a clear report of why not."""

from dataclasses import dataclass, field
from pathlib import Path

from mqlab.broker.core.messages import Span
from mqlab.broker.core.records import Commit, Declare, Put, Record, Remove
from mqlab.broker.store.files import Files
from mqlab.broker.store.records import FRAME_SIZE, Damaged, Read, decode, decode_head
from mqlab.broker.store.segments import Segments, numbers_in, path_of
from mqlab.wire.bodies import Payload


class DamagedJournalError(Exception):
    """Something that was on disk can no longer be read. The files are left as they are."""


@dataclass
class RecoveredQueue:
    name: str
    next_id: int = 1
    puts: list[Put] = field(default_factory=list)
    removed: list[tuple[int, int]] = field(default_factory=list)

    def spans(self) -> list[Span]:
        """What was put and never removed, in the order of the ids."""
        gone = sorted(self.removed)
        spans, at = [], 0
        for put in sorted(self.puts, key=lambda one: one.first_id):
            payload = Payload(bytes(put.payload.data), put.payload.rows, put.payload.lone)
            begin, end = put.first_id, put.first_id + payload.rows
            while at < len(gone) and gone[at][0] < end:
                first, rows = gone[at]
                if first > begin:
                    spans.append(_part(payload, put.first_id, begin, first))
                begin = max(begin, first + rows)
                at += 1
            if begin < end:
                spans.append(_part(payload, put.first_id, begin, end))
        return spans


@dataclass
class Recovered:
    queues: dict[int, RecoveredQueue]
    segments: Segments
    lsn: int
    next_file: int
    # Bytes of a record that was still on its way when the broker stopped; nobody was told that it was safe.
    torn: int = 0


def recover(folder: Path, files: Files) -> Recovered:
    """Reads all files of the journal and cuts off a torn tail. Raises DamagedJournalError."""
    found = Recovered({}, Segments(), 0, 1)
    numbers = numbers_in(folder)
    for number in numbers:
        if number not in (numbers[0], found.next_file):
            raise DamagedJournalError(f"{path_of(folder, found.next_file)}: this journal file is missing")
        found.next_file = number + 1
        _read_file(found, path_of(folder, number), files, last=number == numbers[-1])
    return found


def _read_file(found: Recovered, path: Path, files: Files, *, last: bool) -> None:
    data = files.read(path)
    try:
        head = decode_head(data)
    except Damaged as why:
        if last and not _later_record_proves(data, 0, found.lsn + 1):
            _cut(found, path, files, data, 0)
            return
        raise DamagedJournalError(f"{path}: {why}") from why
    if found.lsn and head.first_lsn != found.lsn + 1:
        raise DamagedJournalError(f"{path}: begins with record {head.first_lsn}, expected {found.lsn + 1}")
    found.lsn = head.first_lsn - 1
    found.segments.begin(head.number)
    for declared in head.declarations:
        _replay(found, declared, head.number)
    at = head.size
    while at < len(data):
        try:
            read = decode(data, at)
            _expect(read, found.lsn + 1)
        except Damaged as why:
            if not last or _later_record_proves(data, at, found.lsn + 1):
                raise DamagedJournalError(f"{path}: byte {at}, record {found.lsn + 1}: {why}") from why
            _cut(found, path, files, data, at)
            return
        _replay(found, read.record, head.number)
        found.lsn, at = read.lsn, read.end


def _expect(read: Read, lsn: int) -> None:
    if read.lsn != lsn:
        raise Damaged(f"it has number {read.lsn}")


def _cut(found: Recovered, path: Path, files: Files, data: bytes, at: int) -> None:
    found.torn = len(data) - at
    if at:
        files.truncate(path, at)
    else:
        files.remove(path)
        found.next_file -= 1


def _later_record_proves(data: bytes, at: int, lsn: int) -> bool:
    """Is there a readable record after `at` that says record `lsn` was durable when it was written?"""
    for begin in range(at + 1, len(data) - FRAME_SIZE + 1):
        # Cheap test first: the number of a later record is a little above `lsn`, so its upper bytes are known.
        if not lsn < int.from_bytes(data[begin + 8 : begin + 16], "little") <= lsn + len(data):
            continue
        try:
            if decode(data, begin).durable >= lsn:
                return True
        except Damaged:
            continue
    return False


def _replay(found: Recovered, record: Record, number: int) -> None:
    if isinstance(record, Declare):
        queue = found.queues.setdefault(record.queue, RecoveredQueue(record.name))
        queue.next_id = max(queue.next_id, record.next_id)
        return
    found.segments.note(record, number)
    puts = record.puts if isinstance(record, Commit) else (record,) if isinstance(record, Put) else ()
    removes = record.removes if isinstance(record, Commit) else (record,) if isinstance(record, Remove) else ()
    for put in puts:
        queue = found.queues[put.queue]
        queue.puts.append(put)
        queue.next_id = max(queue.next_id, put.first_id + put.payload.rows)
    for remove in removes:
        found.queues[remove.queue].removed.extend(remove.ranges)


def _part(payload: Payload, first_id: int, begin: int, end: int) -> Span:
    return Span(payload, begin, persistent=True, start=begin - first_id, rows=end - begin)
