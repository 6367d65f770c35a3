"""Records as bytes, for the journal to write. The form is described in `layout`."""

import json
from collections.abc import Iterable
from typing import Final

import google_crc32c
import numpy as np

from mqlab.broker.core.durability.records import Commit, Decide, Declare, Forget, Prepare, Put, Record, Remember, Remove
from mqlab.broker.store import journal_format
from mqlab.wire.native.bodies import Buffer

_extend: Final = google_crc32c.extend
_begin, _plain_put, _plain_remove = (
    journal_format.BEGIN.pack,
    journal_format.PLAIN_PUT.pack,
    journal_format.PLAIN_REMOVE.pack,
)
_BEGIN, _COVERED = journal_format.BEGIN.size, journal_format.COVERED.size


def encode_file_header(
    number: int, first_lsn: int, declarations: Iterable[Declare], remembered: Iterable[Remember], last_queue: int,
    store: str = "",
) -> bytes:  # fmt: skip
    """`store`: which store the file belongs to; files of before there was a manifest do not say it."""
    listed = {"queues": [*declarations], "remembered": [*remembered], "last_queue": last_queue, "store": store}
    said = json.dumps(listed).encode()
    bare = journal_format.HEAD.pack(journal_format.MAGIC, number, first_lsn, len(said), 0)
    crc = google_crc32c.value(bare + said)
    return journal_format.HEAD.pack(journal_format.MAGIC, number, first_lsn, len(said), crc) + said


def encode(record: Record, lsn: int, durable: int) -> bytes:
    parts: list[Buffer] = []
    encode_into(parts, record, lsn, durable)
    return b"".join(parts)


def encode_into(parts: list[Buffer], record: Record, lsn: int, durable: int) -> int:
    """Adds the pieces of a record, in order, to what will be written; returns their bytes. A payload is not copied."""
    if isinstance(record, Put) and len(record.targets) == 1 and not record.origin:
        ((queue, first_id),), (data, rows, form), _ = record
        plain = _plain_put(lsn, durable, journal_format.PUTS, 1, 0, rows, len(data), form, queue, first_id)
        if type(data) is bytes:
            # These two, a message alone and that it is gone, are by far the most: without the loop.
            size = len(plain) + len(data)
            parts += (_begin(size - _COVERED, _extend(_extend(0, plain), data)), plain, data)
            return size + _BEGIN
        pieces: list[Buffer] = [plain, data]
    elif isinstance(record, Remove) and len(record.ranges) == 1:
        queue, ((first_id, rows),) = record
        plain = _plain_remove(lsn, durable, journal_format.REMOVED, queue, 1, first_id, rows)
        parts += (_begin(len(plain) - _COVERED, _extend(0, plain)), plain)
        return len(plain) + _BEGIN
    else:
        kind, pieces = _encoded(record)
        pieces.insert(0, journal_format.COVERED.pack(lsn, durable, kind))
    size = crc = 0
    for piece in pieces:
        size += len(piece)
        # The checksum takes bytes and arrays, no other buffer.
        crc = _extend(crc, piece if type(piece) is bytes else np.frombuffer(piece, dtype=np.uint8))
    parts.append(_begin(size - _COVERED, crc))
    parts += pieces
    return size + _BEGIN


def _encoded(record: Record) -> tuple[int, list[Buffer]]:
    if isinstance(record, Put):
        return journal_format.PUTS, _put(record)
    if isinstance(record, Remove):
        return journal_format.REMOVED, [_remove(record)]
    if isinstance(record, Commit):
        return journal_format.COMMITTED, _parts(record)
    if isinstance(record, Prepare):
        name = record.xid.encode()
        return journal_format.PREPARED, [journal_format.NAME.pack(len(name)) + name, *_parts(record)]
    if isinstance(record, Decide):
        return journal_format.DECIDED, [journal_format.DECISION.pack(record.commit) + record.xid.encode()]
    if isinstance(record, Declare):
        return journal_format.DECLARED, [json.dumps(record).encode()]
    if isinstance(record, Remember):
        return journal_format.REMEMBERED, [json.dumps(record).encode()]
    if isinstance(record, Forget):
        return journal_format.FORGOTTEN, [journal_format.QUEUE.pack(record.queue)]
    return journal_format.SHUT, []


def _put(put: Put) -> list[Buffer]:
    data, rows, form = put.payload
    origin = put.origin.encode()
    one = len(put.targets) == 1
    targets = (
        journal_format.TARGET.pack(*put.targets[0])
        if one
        else b"".join(journal_format.TARGET.pack(*to) for to in put.targets)
    )
    return [journal_format.PUT.pack(len(put.targets), len(origin), rows, len(data), form) + targets + origin, data]


def _remove(remove: Remove) -> bytes:
    ranges = b"".join(journal_format.RANGE.pack(*one) for one in remove.ranges)
    return journal_format.REMOVE.pack(remove.queue, len(remove.ranges)) + ranges


def _parts(record: Commit | Prepare) -> list[Buffer]:
    pieces: list[Buffer] = [journal_format.PARTS.pack(len(record.puts), len(record.removes))]
    for put in record.puts:
        pieces += _put(put)
    pieces += map(_remove, record.removes)
    return pieces
