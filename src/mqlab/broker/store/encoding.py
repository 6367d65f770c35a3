"""Records as bytes, for the journal to write. The form is described in `layout`."""

import json
from collections.abc import Iterable
from typing import Final

import google_crc32c
import numpy as np

from mqlab.broker.core.records import Commit, Decide, Declare, Forget, Prepare, Put, Record, Remember, Remove
from mqlab.broker.store import layout
from mqlab.wire.bodies import Buffer

_extend: Final = google_crc32c.extend
_begin, _plain_put, _plain_remove = layout.BEGIN.pack, layout.PLAIN_PUT.pack, layout.PLAIN_REMOVE.pack
_BEGIN, _COVERED = layout.BEGIN.size, layout.COVERED.size


def encode_head(
    number: int, first_lsn: int, declarations: Iterable[Declare], remembered: Iterable[Remember], last_queue: int,
    store: str = "",
) -> bytes:  # fmt: skip
    """`store`: which store the file belongs to; files of before there was a manifest do not say it."""
    listed = {"queues": [*declarations], "remembered": [*remembered], "last_queue": last_queue, "store": store}
    said = json.dumps(listed).encode()
    bare = layout.HEAD.pack(layout.MAGIC, number, first_lsn, len(said), 0)
    crc = google_crc32c.value(bare + said)
    return layout.HEAD.pack(layout.MAGIC, number, first_lsn, len(said), crc) + said


def encode(record: Record, lsn: int, durable: int) -> bytes:
    parts: list[Buffer] = []
    encode_into(parts, record, lsn, durable)
    return b"".join(parts)


def encode_into(parts: list[Buffer], record: Record, lsn: int, durable: int) -> int:
    """Adds the pieces of a record, in order, to what will be written; returns their bytes. A payload is not copied."""
    if isinstance(record, Put) and len(record.targets) == 1 and not record.origin:
        ((queue, first_id),), (data, rows, form), _ = record
        plain = _plain_put(lsn, durable, layout.PUTS, 1, 0, rows, len(data), form, queue, first_id)
        if type(data) is bytes:
            # These two, a message alone and that it is gone, are by far the most: without the loop.
            size = len(plain) + len(data)
            parts += (_begin(size - _COVERED, _extend(_extend(0, plain), data)), plain, data)
            return size + _BEGIN
        pieces: list[Buffer] = [plain, data]
    elif isinstance(record, Remove) and len(record.ranges) == 1:
        queue, ((first_id, rows),) = record
        plain = _plain_remove(lsn, durable, layout.REMOVED, queue, 1, first_id, rows)
        parts += (_begin(len(plain) - _COVERED, _extend(0, plain)), plain)
        return len(plain) + _BEGIN
    else:
        kind, pieces = _encoded(record)
        pieces.insert(0, layout.COVERED.pack(lsn, durable, kind))
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
        return layout.PUTS, _put(record)
    if isinstance(record, Remove):
        return layout.REMOVED, [_remove(record)]
    if isinstance(record, Commit):
        return layout.COMMITTED, _parts(record)
    if isinstance(record, Prepare):
        name = record.xid.encode()
        return layout.PREPARED, [layout.NAME.pack(len(name)) + name, *_parts(record)]
    if isinstance(record, Decide):
        return layout.DECIDED, [layout.DECISION.pack(record.commit) + record.xid.encode()]
    if isinstance(record, Declare):
        return layout.DECLARED, [json.dumps(record).encode()]
    if isinstance(record, Remember):
        return layout.REMEMBERED, [json.dumps(record).encode()]
    if isinstance(record, Forget):
        return layout.FORGOTTEN, [layout.QUEUE.pack(record.queue)]
    return layout.SHUT, []


def _put(put: Put) -> list[Buffer]:
    data, rows, form = put.payload
    origin = put.origin.encode()
    one = len(put.targets) == 1
    targets = layout.TARGET.pack(*put.targets[0]) if one else b"".join(layout.TARGET.pack(*to) for to in put.targets)
    return [layout.PUT.pack(len(put.targets), len(origin), rows, len(data), form) + targets + origin, data]


def _remove(remove: Remove) -> bytes:
    ranges = b"".join(layout.RANGE.pack(*one) for one in remove.ranges)
    return layout.REMOVE.pack(remove.queue, len(remove.ranges)) + ranges


def _parts(record: Commit | Prepare) -> list[Buffer]:
    pieces: list[Buffer] = [layout.PARTS.pack(len(record.puts), len(record.removes))]
    for put in record.puts:
        pieces += _put(put)
    pieces += map(_remove, record.removes)
    return pieces
