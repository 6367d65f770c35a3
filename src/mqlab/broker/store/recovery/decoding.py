"""Records and file headers, decoded from the bytes of a journal file. `journal_format` states their layout."""

import json
from typing import NamedTuple

import google_crc32c
import numpy as np

from mqlab.broker.core.durability import records
from mqlab.broker.store import journal_format as layouts
from mqlab.errors import MqlabError
from mqlab.wire.native.bodies import Payload


class UnreadableRecordError(MqlabError):
    """No record or file header can be read here: the disk damaged it, or it was not written completely."""


class OtherVersionError(UnreadableRecordError):
    """Another version of the broker wrote the file: it is not damaged, and recovery must not cut it."""


class FileHeader(NamedTuple):
    number: int
    first_lsn: int
    declarations: tuple[records.Declare, ...]
    remembered: tuple[records.Remember, ...]
    last_queue: int
    # Bytes of the header: the first record begins there.
    size: int
    # Empty in files from before the manifest.
    store: str = ""


class RecordHeader(NamedTuple):
    """The header of a record whose checksum is right, and the bytes [begin, end) of its body in the file."""

    kind: int
    lsn: int
    durable: int
    begin: int
    end: int


class PutLocation(NamedTuple):
    """A put whose payload is the bytes [begin, end) of the file."""

    targets: tuple[tuple[int, int], ...]
    origin: str
    rows: int
    form: int
    begin: int
    end: int

    def put(self, data: bytes) -> records.Put:
        return records.Put(self.targets, Payload(data[self.begin : self.end], self.rows, self.form), self.origin)


class TransactionBody(NamedTuple):
    """The body of a commit or a prepare."""

    xid: str
    puts: tuple[PutLocation, ...]
    removes: tuple[records.Remove, ...]


class DecodedRecord(NamedTuple):
    """A record, and the byte at which the next one begins."""

    record: records.Record
    lsn: int
    durable: int
    end: int


def decode_file_header(data: bytes) -> FileHeader:
    begin = layouts.FILE_HEADER.size
    if len(data) < begin:
        raise UnreadableRecordError("the file is shorter than its header")
    magic, number, first_lsn, length, crc = layouts.FILE_HEADER.unpack_from(data)
    if magic not in layouts.READABLE and magic[:-2] == layouts.MAGIC[:-2] and magic[-2:].isdigit():
        raise OtherVersionError(f"another version of the broker wrote the file: {magic.decode()}")
    text = data[begin : begin + length]
    without_crc = layouts.FILE_HEADER.pack(magic, number, first_lsn, length, 0)
    if magic not in layouts.READABLE or len(text) != length or google_crc32c.value(without_crc + text) != crc:
        raise UnreadableRecordError("the file does not begin with the header of a journal file")
    content = json.loads(text)
    declarations = tuple(records.Declare(*fields) for fields in content["queues"])
    remembered = tuple(records.Remember(destination, tuple(ids)) for destination, ids in content["remembered"])
    last_queue, store = content["last_queue"], content.get("store", "")
    return FileHeader(number, first_lsn, declarations, remembered, last_queue, begin + length, store)


def read_record_header(data: bytes, at: int) -> RecordHeader:
    begin = at + layouts.RECORD_HEADER.size
    if begin > len(data):
        raise UnreadableRecordError("the file ends inside a record")
    length, crc, lsn, durable, kind = layouts.RECORD_HEADER.unpack_from(data, at)
    end = begin + length
    if end > len(data):
        raise UnreadableRecordError("the file ends inside a record")
    # A view, since the record may be long; the checksum takes no memoryview.
    covered_at = at + layouts.RECORD_PREFIX.size
    covered = np.frombuffer(data, dtype=np.uint8, count=end - covered_at, offset=covered_at)
    if google_crc32c.value(covered) != crc:
        raise UnreadableRecordError("the checksum of a record is wrong")
    return RecordHeader(kind, lsn, durable, begin, end)


def decode(data: bytes, at: int) -> DecodedRecord:
    header = read_record_header(data, at)
    body = decode_body(data, header)
    if isinstance(body, PutLocation):
        record: records.Record = body.put(data)
    elif isinstance(body, TransactionBody):
        puts = tuple(put.put(data) for put in body.puts)
        is_commit = layouts.RECORD_OF[header.kind] is records.Commit
        record = records.Commit(puts, body.removes) if is_commit else records.Prepare(body.xid, puts, body.removes)
    else:
        record = body
    return DecodedRecord(record, header.lsn, header.durable, header.end)


def decode_body(data: bytes, header: RecordHeader) -> PutLocation | TransactionBody | records.Record:
    """Decode a record without its payloads. The checksum was right, so only an unknown kind is an error."""
    begin, record = header.begin, layouts.RECORD_OF.get(header.kind)
    if record is records.Put:
        return _put(data, begin)
    if record is records.Remove:
        return _remove(data, begin)[0]
    if record is records.Commit:
        return _transaction(data, begin, "")
    if record is records.Prepare:
        (length,) = layouts.XID.unpack_from(data, begin)
        begin += layouts.XID.size
        return _transaction(data, begin + length, data[begin : begin + length].decode())
    return _small_record(header.kind, data[begin : header.end])


def _small_record(kind: int, body: bytes) -> records.Record:
    record = layouts.RECORD_OF.get(kind)
    if record is records.Decide:
        return records.Decide(body[layouts.DECISION.size :].decode(), *layouts.DECISION.unpack_from(body))
    if record is records.Declare:
        return records.Declare(*json.loads(body))
    if record is records.Remember:
        destination, ids = json.loads(body)
        return records.Remember(destination, tuple(ids))
    if record is records.Forget:
        return records.Forget(*layouts.QUEUE.unpack(body))
    if record is records.Shut:
        return records.Shut()
    raise UnreadableRecordError(f"record kind {kind} is not known")


def _put(data: bytes, at: int) -> PutLocation:
    count, origin_bytes, rows, payload_bytes, form = layouts.PUT.unpack_from(data, at)
    at += layouts.PUT.size
    targets: tuple[tuple[int, int], ...] = (layouts.TARGET.unpack_from(data, at),)
    if count != 1:
        targets = tuple(layouts.TARGET.unpack_from(data, at + index * layouts.TARGET.size) for index in range(count))
    at += count * layouts.TARGET.size
    begin = at + origin_bytes
    origin = data[at:begin].decode() if origin_bytes else ""
    return PutLocation(targets, origin, rows, form, begin, begin + payload_bytes)


def _remove(data: bytes, at: int) -> tuple[records.Remove, int]:
    queue, count = layouts.REMOVE.unpack_from(data, at)
    begin = at + layouts.REMOVE.size
    ranges = tuple(layouts.RANGE.unpack_from(data, begin + index * layouts.RANGE.size) for index in range(count))
    return records.Remove(queue, ranges), begin + count * layouts.RANGE.size


def _transaction(data: bytes, at: int, xid: str) -> TransactionBody:
    put_count, remove_count = layouts.TRANSACTION.unpack_from(data, at)
    at += layouts.TRANSACTION.size
    puts, removes = [], []
    for _ in range(put_count):
        puts.append(_put(data, at))
        at = puts[-1].end
    for _ in range(remove_count):
        remove, at = _remove(data, at)
        removes.append(remove)
    return TransactionBody(xid, tuple(puts), tuple(removes))
