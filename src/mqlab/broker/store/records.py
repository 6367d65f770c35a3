"""The form of a journal file.

A file begins with a head (which file this is, and the queues there are) and goes on with records, each

    length u32 | crc32c u32 | lsn u64 | durable u64 | kind u8 | the record

The checksum covers all but itself and the length; a wrong length makes it wrong. `durable` is the last record known
to be on disk when this one was written. It tells damage from a torn tail: if a record cannot be read although a later
one says that it was durable, the disk lost it; if none says so, it was still on its way when the power went.
"""

import json
import struct
from collections.abc import Iterable
from typing import Final, NamedTuple

import google_crc32c

from mqlab.broker.core.records import Commit, Declare, Put, Record, Remove, Shut
from mqlab.wire.bodies import Payload

MAGIC: Final = b"mqlabJ01"
_HEAD: Final = struct.Struct("<8sQQII")  # magic, number of the file, first lsn, length of the declarations, crc32c
_FRAME: Final = struct.Struct("<IIQQB")
_COVERED: Final = struct.Struct("<QQB")
_PUT: Final = struct.Struct("<IQIIB")  # queue, first id, rows, length, lone
_REMOVE: Final = struct.Struct("<II")  # queue, ranges
_RANGE: Final = struct.Struct("<QI")
_COMMIT: Final = struct.Struct("<II")  # puts, removes
_DECLARE: Final = struct.Struct("<IQ")  # queue, next id; the name follows

FRAME_SIZE: Final = _FRAME.size
HEAD_SIZE: Final = _HEAD.size
_DECLARED, _PUTS, _REMOVED, _COMMITTED, _SHUT = 1, 2, 3, 4, 5


class Damaged(Exception):  # noqa: N818 - the reader of a file decides whether this is an error
    """No record can be read here."""


class Head(NamedTuple):
    number: int
    first_lsn: int
    declarations: tuple[Declare, ...]
    size: int


class Read(NamedTuple):
    """A record as it was found, and where the next one begins."""

    record: Record
    lsn: int
    durable: int
    end: int


def encode_head(number: int, first_lsn: int, declarations: Iterable[Declare]) -> bytes:
    said = json.dumps([list(one) for one in declarations]).encode()
    head = _HEAD.pack(MAGIC, number, first_lsn, len(said), 0)
    return _HEAD.pack(MAGIC, number, first_lsn, len(said), google_crc32c.value(head + said)) + said


def decode_head(data: bytes) -> Head:
    if len(data) < HEAD_SIZE:
        raise Damaged("shorter than its head")
    magic, number, first_lsn, length, crc = _HEAD.unpack_from(data)
    said = data[HEAD_SIZE : HEAD_SIZE + length]
    bare = _HEAD.pack(magic, number, first_lsn, length, 0)
    if magic != MAGIC or len(said) != length or google_crc32c.value(bare + said) != crc:
        raise Damaged("its head is not one of a journal file")
    return Head(number, first_lsn, tuple(Declare(*one) for one in json.loads(said)), HEAD_SIZE + length)


def encode(record: Record, lsn: int, durable: int) -> bytes:
    kind, body = _encoded(record)
    crc = google_crc32c.extend(google_crc32c.value(_COVERED.pack(lsn, durable, kind)), body)
    return _FRAME.pack(len(body), crc, lsn, durable, kind) + body


def decode(data: bytes, begin: int) -> Read:
    if len(data) - begin < FRAME_SIZE:
        raise Damaged("it ends inside a record")
    length, crc, lsn, durable, kind = _FRAME.unpack_from(data, begin)
    body = data[begin + FRAME_SIZE : begin + FRAME_SIZE + length]
    if len(body) != length:
        raise Damaged("it ends inside a record")
    if google_crc32c.extend(google_crc32c.value(_COVERED.pack(lsn, durable, kind)), body) != crc:
        raise Damaged("the checksum of a record is wrong")
    return Read(_decoded(kind, body), lsn, durable, begin + FRAME_SIZE + length)


def _encoded(record: Record) -> tuple[int, bytes]:
    if isinstance(record, Put):
        return _PUTS, _encoded_put(record)
    if isinstance(record, Remove):
        return _REMOVED, _encoded_remove(record)
    if isinstance(record, Commit):
        parts = [_COMMIT.pack(len(record.puts), len(record.removes))]
        parts += [_encoded_put(put) for put in record.puts]
        parts += [_encoded_remove(remove) for remove in record.removes]
        return _COMMITTED, b"".join(parts)
    if isinstance(record, Declare):
        return _DECLARED, _DECLARE.pack(record.queue, record.next_id) + record.name.encode()
    return _SHUT, b""


def _encoded_put(put: Put) -> bytes:
    payload = put.payload
    return b"".join(
        (_PUT.pack(put.queue, put.first_id, payload.rows, len(payload.data), payload.lone), payload.data)
    )


def _encoded_remove(remove: Remove) -> bytes:
    return _REMOVE.pack(remove.queue, len(remove.ranges)) + b"".join(_RANGE.pack(*one) for one in remove.ranges)


def _decoded(kind: int, body: bytes) -> Record:
    """The checksum was right, so the body is as it was written: only an unknown kind can be wrong here."""
    if kind == _PUTS:
        return _decoded_put(body, 0)[0]
    if kind == _REMOVED:
        return _decoded_remove(body, 0)[0]
    if kind == _COMMITTED:
        return _decoded_commit(body)
    if kind == _DECLARED:
        queue, next_id = _DECLARE.unpack_from(body)
        return Declare(queue, body[_DECLARE.size :].decode(), next_id)
    if kind == _SHUT:
        return Shut()
    raise Damaged(f"record kind {kind} is not known")


def _decoded_commit(body: bytes) -> Commit:
    put_count, remove_count = _COMMIT.unpack_from(body)
    puts, removes, at = [], [], _COMMIT.size
    for _ in range(put_count):
        put, at = _decoded_put(body, at)
        puts.append(put)
    for _ in range(remove_count):
        remove, at = _decoded_remove(body, at)
        removes.append(remove)
    return Commit(tuple(puts), tuple(removes))


def _decoded_put(body: bytes, at: int) -> tuple[Put, int]:
    queue, first_id, rows, length, lone = _PUT.unpack_from(body, at)
    begin = at + _PUT.size
    return Put(queue, first_id, Payload(body[begin : begin + length], rows, bool(lone))), begin + length


def _decoded_remove(body: bytes, at: int) -> tuple[Remove, int]:
    queue, count = _REMOVE.unpack_from(body, at)
    begin = at + _REMOVE.size
    ranges = tuple(_RANGE.unpack_from(body, begin + n * _RANGE.size) for n in range(count))
    return Remove(queue, ranges), begin + count * _RANGE.size
