"""Records read from the bytes of a journal file. The form is described in `layout`."""

import json
from typing import Final, NamedTuple

import google_crc32c
import numpy as np

from mqlab.broker.core.durability.records import (
    Commit,
    Decide,
    Declare,
    Forget,
    Prepare,
    Put,
    Record,
    Remember,
    Remove,
    Shut,
)
from mqlab.broker.store import journal_format
from mqlab.errors import MqlabError
from mqlab.wire.native.bodies import Payload

RECORD_HEADER_SIZE: Final = journal_format.FRAME.size
FILE_HEADER_SIZE: Final = journal_format.HEAD.size
_UNCOVERED: Final = journal_format.BEGIN.size
_ANY_VERSION: Final = journal_format.MAGIC[:6]


class UnreadableRecordError(MqlabError):
    """No record can be read here."""


class OtherVersionError(UnreadableRecordError):
    """It has the form of another version of the broker: not damage, and nothing to cut off."""


class FileHeader(NamedTuple):
    number: int
    first_lsn: int
    declarations: tuple[Declare, ...]
    remembered: tuple[Remember, ...]
    last_queue: int
    size: int
    store: str = ""


class RecordHeader(NamedTuple):
    """What stands around a record whose checksum is right, and where the record begins and ends."""

    kind: int
    lsn: int
    durable: int
    begin: int
    end: int


class PutLocation(NamedTuple):
    """A put, and where its payload lies in the file."""

    targets: tuple[tuple[int, int], ...]
    origin: str
    rows: int
    form: int
    begin: int
    end: int

    def put(self, data: bytes) -> Put:
        return Put(self.targets, Payload(data[self.begin : self.end], self.rows, self.form), self.origin)


class TransactionBody(NamedTuple):
    """What a commit or a prepare is made of."""

    xid: str
    puts: tuple[PutLocation, ...]
    removes: tuple[Remove, ...]


class DecodedRecord(NamedTuple):
    """A record as it was found, and where the next one begins."""

    record: Record
    lsn: int
    durable: int
    end: int


def decode_file_header(data: bytes) -> FileHeader:
    if len(data) < FILE_HEADER_SIZE:
        raise UnreadableRecordError("shorter than its head")
    magic, number, first_lsn, length, crc = journal_format.HEAD.unpack_from(data)
    if magic != journal_format.MAGIC and magic.startswith(_ANY_VERSION) and magic[len(_ANY_VERSION) :].isdigit():
        raise OtherVersionError(f"it was written by another version of the broker: {magic.decode()}")
    said = data[FILE_HEADER_SIZE : FILE_HEADER_SIZE + length]
    bare = journal_format.HEAD.pack(magic, number, first_lsn, length, 0)
    if magic != journal_format.MAGIC or len(said) != length or google_crc32c.value(bare + said) != crc:
        raise UnreadableRecordError("its head is not one of a journal file")
    listed = json.loads(said)
    declared = tuple(Declare(*one) for one in listed["queues"])
    remembered = tuple(Remember(destination, tuple(ids)) for destination, ids in listed["remembered"])
    last_queue, store = listed["last_queue"], listed.get("store", "")
    return FileHeader(number, first_lsn, declared, remembered, last_queue, FILE_HEADER_SIZE + length, store)


def read_record_header(data: bytes, at: int) -> RecordHeader:
    begin = at + RECORD_HEADER_SIZE
    if begin > len(data):
        raise UnreadableRecordError("it ends inside a record")
    length, crc, lsn, durable, kind = journal_format.FRAME.unpack_from(data, at)
    end = begin + length
    if end > len(data):
        raise UnreadableRecordError("it ends inside a record")
    # A view: the record may be long, and the checksum takes no memoryview.
    covered = np.frombuffer(data, dtype=np.uint8, count=end - at - _UNCOVERED, offset=at + _UNCOVERED)
    if google_crc32c.value(covered) != crc:
        raise UnreadableRecordError("the checksum of a record is wrong")
    return RecordHeader(kind, lsn, durable, begin, end)


def decode(data: bytes, begin: int) -> DecodedRecord:
    frame = read_record_header(data, begin)
    return DecodedRecord(_record(data, frame), frame.lsn, frame.durable, frame.end)


def _record(data: bytes, frame: RecordHeader) -> Record:
    parsed = parse(data, frame)
    if isinstance(parsed, PutLocation):
        return parsed.put(data)
    if isinstance(parsed, TransactionBody):
        puts = tuple(one.put(data) for one in parsed.puts)
        if frame.kind == journal_format.COMMITTED:
            return Commit(puts, parsed.removes)
        return Prepare(parsed.xid, puts, parsed.removes)
    return parsed


def parse(data: bytes, frame: RecordHeader) -> PutLocation | TransactionBody | Record:
    """The record without its payloads. The checksum was right, so only its kind can be one that is not known."""
    kind, begin, end = frame.kind, frame.begin, frame.end
    if kind == journal_format.PUTS:
        return _put(data, begin)
    if kind == journal_format.REMOVED:
        return _remove(data, begin)[0]
    if kind == journal_format.COMMITTED:
        return _parts(data, begin, "")
    if kind == journal_format.PREPARED:
        (length,) = journal_format.NAME.unpack_from(data, begin)
        at = begin + journal_format.NAME.size
        return _parts(data, at + length, data[at : at + length].decode())
    return _small(kind, data[begin:end])


def _small(kind: int, said: bytes) -> Record:
    if kind == journal_format.DECIDED:
        return Decide(said[journal_format.DECISION.size :].decode(), *journal_format.DECISION.unpack_from(said))
    if kind == journal_format.DECLARED:
        return Declare(*json.loads(said))
    if kind == journal_format.REMEMBERED:
        destination, ids = json.loads(said)
        return Remember(destination, tuple(ids))
    if kind == journal_format.FORGOTTEN:
        return Forget(*journal_format.QUEUE.unpack(said))
    if kind == journal_format.SHUT:
        return Shut()
    raise UnreadableRecordError(f"record kind {kind} is not known")


def _put(data: bytes, at: int) -> PutLocation:
    count, origin_size, rows, size, form = journal_format.PUT.unpack_from(data, at)
    at += journal_format.PUT.size
    targets: tuple[tuple[int, int], ...] = (journal_format.TARGET.unpack_from(data, at),)
    if count != 1:
        targets = tuple(
            journal_format.TARGET.unpack_from(data, at + n * journal_format.TARGET.size) for n in range(count)
        )
    at += count * journal_format.TARGET.size
    begin = at + origin_size
    origin = data[at:begin].decode() if origin_size else ""
    return PutLocation(targets, origin, rows, form, begin, begin + size)


def _remove(data: bytes, at: int) -> tuple[Remove, int]:
    queue, count = journal_format.REMOVE.unpack_from(data, at)
    begin = at + journal_format.REMOVE.size
    ranges = tuple(journal_format.RANGE.unpack_from(data, begin + n * journal_format.RANGE.size) for n in range(count))
    return Remove(queue, ranges), begin + count * journal_format.RANGE.size


def _parts(data: bytes, at: int, xid: str) -> TransactionBody:
    put_count, remove_count = journal_format.PARTS.unpack_from(data, at)
    at += journal_format.PARTS.size
    puts, removes = [], []
    for _ in range(put_count):
        puts.append(_put(data, at))
        at = puts[-1].end
    for _ in range(remove_count):
        remove, at = _remove(data, at)
        removes.append(remove)
    return TransactionBody(xid, tuple(puts), tuple(removes))
