"""What the journal says after a stop of any kind: every durable record, or a clear report of why not."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from mqlab.broker.core.messages import Span
from mqlab.broker.core.records import Commit, Declare, Put, Record, Remove
from mqlab.broker.store.files import Files
from mqlab.broker.store.records import FRAME_SIZE, Damaged, decode, decode_head
from mqlab.broker.store.segments import Segments, numbers_in, path_of
from mqlab.wire.bodies import Payload

# Records that may follow in the journal after one that cannot be read.
_FURTHEST: Final = 1 << 32


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
    """Reads all files of the journal and cuts off a torn tail. Raises DamagedJournalError.

    What was read is synced: after a crash of the broker alone it may be in the operating system's memory only.
    """
    found = Recovered({}, Segments(), 0, 1)
    numbers = numbers_in(folder)
    for index, number in enumerate(numbers):
        path = path_of(folder, number)
        if index and number != found.next_file:
            raise DamagedJournalError(f"{path_of(folder, found.next_file)}: this journal file is missing")
        found.next_file = number
        data = files.read(path)
        try:
            _read_file(found, data, number, first=not index)
        except _Unreadable as why:
            if number != numbers[-1] or _was_on_disk(data, why.at, found.lsn + 1):
                raise _damaged(path, why, found.lsn + 1) from why
            _cut(found, path, files, len(data), why.at)
        else:
            found.next_file = number + 1
    found.segments.durable(found.lsn)
    for number in numbers_in(folder):
        files.sync_path(path_of(folder, number))
    files.sync_folder(folder)
    return found


class _Unreadable(Exception):  # noqa: N818 - a fact; whether it is an error is decided by the evidence
    """The file cannot be read from this byte on."""

    def __init__(self, at: int, why: str) -> None:
        super().__init__(why)
        self.at = at


def _read_file(found: Recovered, data: bytes, number: int, *, first: bool) -> None:
    try:
        head = decode_head(data)
    except Damaged as why:
        raise _Unreadable(0, str(why)) from why
    if not first and head.first_lsn != found.lsn + 1:
        raise _Unreadable(0, f"it begins with record {head.first_lsn} instead of {found.lsn + 1}")
    found.lsn = head.first_lsn - 1
    found.segments.begin(number)
    for declared in head.declarations:
        _replay(found, declared, found.lsn, number)
    at = head.size
    while at < len(data):
        try:
            read = decode(data, at)
        except Damaged as why:
            raise _Unreadable(at, str(why)) from why
        if read.lsn != found.lsn + 1:
            raise _Unreadable(at, f"record {read.lsn} stands where {found.lsn + 1} must be")
        _replay(found, read.record, read.lsn, number)
        found.lsn, at = read.lsn, read.end


def _damaged(path: Path, why: _Unreadable, lsn: int) -> DamagedJournalError:
    return DamagedJournalError(
        f"{path}: byte {why.at}: record {lsn} was on disk and cannot be read: {why}. The files are left as they are."
    )


def _cut(found: Recovered, path: Path, files: Files, size: int, at: int) -> None:
    """Drop the unreadable end, which was still on its way when the broker stopped."""
    found.torn = size - at
    if at:
        files.truncate(path, at)
        found.next_file += 1
    else:
        files.remove(path)


def _was_on_disk(data: bytes, at: int, lsn: int) -> bool:
    """Whether what cannot be read from `at` on is proven to have been there.

    A head (byte 0) is synced before anything else is written, so any record after it proves it.
    """
    return _proves(data, at, lsn if at else 0)


def _proves(data: bytes, at: int, lsn: int) -> bool:
    """Is there a readable record after `at` that says record `lsn` was durable when it was written?"""
    for begin in range(at, len(data) - FRAME_SIZE + 1):
        # Cheap test first: the number of a later record is a little above `lsn`, so its upper bytes are known.
        number = int.from_bytes(data[begin + 8 : begin + 16], "little")
        if number <= lsn or (lsn and number > lsn + _FURTHEST):
            continue
        try:
            if decode(data, begin).durable >= lsn:
                return True
        except Damaged:
            continue
    return False


def _replay(found: Recovered, record: Record, lsn: int, number: int) -> None:
    if isinstance(record, Declare):
        queue = found.queues.setdefault(record.queue, RecoveredQueue(record.name))
        queue.next_id = max(queue.next_id, record.next_id)
        return
    found.segments.note(record, lsn, number)
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
