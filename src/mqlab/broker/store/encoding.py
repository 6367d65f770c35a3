"""Records and file headers as bytes, for the journal to write. `journal_format` states their layout."""

import json
from collections.abc import Callable, Iterable
from typing import Any, Final

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
from mqlab.broker.store import journal_format as layouts
from mqlab.wire.native.bodies import Buffer

_extend_crc: Final = google_crc32c.extend
_pack_prefix: Final = layouts.RECORD_PREFIX.pack
_pack_simple_put: Final = (layouts.RECORD_NUMBERS + layouts.SIMPLE_PUT).pack
_pack_simple_remove: Final = (layouts.RECORD_NUMBERS + layouts.SIMPLE_REMOVE).pack
_PREFIX_SIZE, _NUMBERS_SIZE = layouts.RECORD_PREFIX.size, layouts.RECORD_NUMBERS.size
_PUT_KIND, _REMOVE_KIND = layouts.KIND_OF[Put], layouts.KIND_OF[Remove]


def encode_file_header(
    number: int, first_lsn: int, declarations: Iterable[Declare], remembered: Iterable[Remember], last_queue: int,
    store: str = "",
) -> bytes:  # fmt: skip
    """`store`: id of the store that the file belongs to; files from before the manifest do not name it."""
    content = {"queues": [*declarations], "remembered": [*remembered], "last_queue": last_queue, "store": store}
    text = json.dumps(content).encode()
    crc = google_crc32c.value(layouts.FILE_HEADER.pack(layouts.MAGIC, number, first_lsn, len(text), 0) + text)
    return layouts.FILE_HEADER.pack(layouts.MAGIC, number, first_lsn, len(text), crc) + text


def encode(record: Record, lsn: int, durable: int) -> bytes:
    pieces: list[Buffer] = []
    encode_into(pieces, record, lsn, durable)
    return b"".join(pieces)


def encode_into(pieces: list[Buffer], record: Record, lsn: int, durable: int) -> int:
    """Append the pieces of a record to those that will be written; return their bytes. A payload is not copied."""
    if isinstance(record, Put) and len(record.targets) == 1 and not record.origin:
        ((queue, first_id),), (data, rows, form), _ = record
        fields = _pack_simple_put(lsn, durable, _PUT_KIND, 1, 0, rows, len(data), form, queue, first_id)
        if type(data) is bytes:
            # Most records are a put of a single message or its removal: these two avoid the loop below.
            size = len(fields) + len(data)
            pieces += (_pack_prefix(size - _NUMBERS_SIZE, _extend_crc(_extend_crc(0, fields), data)), fields, data)
            return size + _PREFIX_SIZE
        covered: list[Buffer] = [fields, data]
    elif isinstance(record, Remove) and len(record.ranges) == 1:
        queue, ((first_id, rows),) = record
        fields = _pack_simple_remove(lsn, durable, _REMOVE_KIND, queue, 1, first_id, rows)
        pieces += (_pack_prefix(len(fields) - _NUMBERS_SIZE, _extend_crc(0, fields)), fields)
        return len(fields) + _PREFIX_SIZE
    else:
        kind = type(record)
        covered = [layouts.RECORD_NUMBERS.pack(lsn, durable, layouts.KIND_OF[kind]), *_BODY_ENCODERS[kind](record)]
    size = crc = 0
    for piece in covered:
        size += len(piece)
        # The checksum takes bytes and arrays, no other buffer.
        crc = _extend_crc(crc, piece if type(piece) is bytes else np.frombuffer(piece, dtype=np.uint8))
    pieces.append(_pack_prefix(size - _NUMBERS_SIZE, crc))
    pieces += covered
    return size + _PREFIX_SIZE


def _put(put: Put) -> list[Buffer]:
    data, rows, form = put.payload
    origin = put.origin.encode()
    fields = layouts.PUT.pack(len(put.targets), len(origin), rows, len(data), form)
    return [b"".join((fields, *(layouts.TARGET.pack(*target) for target in put.targets), origin)), data]


def _remove(remove: Remove) -> list[Buffer]:
    fields = layouts.REMOVE.pack(remove.queue, len(remove.ranges))
    return [b"".join((fields, *(layouts.RANGE.pack(*removed) for removed in remove.ranges)))]


def _transaction(record: Commit | Prepare) -> list[Buffer]:
    pieces: list[Buffer] = [layouts.TRANSACTION.pack(len(record.puts), len(record.removes))]
    for put in record.puts:
        pieces += _put(put)
    for remove in record.removes:
        pieces += _remove(remove)
    return pieces


def _prepare(record: Prepare) -> list[Buffer]:
    xid = record.xid.encode()
    return [layouts.XID.pack(len(xid)) + xid, *_transaction(record)]


def _json(record: Declare | Remember) -> list[Buffer]:
    return [json.dumps(record).encode()]


# Any: an encoder takes only records of its own type, and a dict cannot say so.
_BODY_ENCODERS: Final[dict[type[Record], Callable[[Any], list[Buffer]]]] = {
    Put: _put,
    Remove: _remove,
    Commit: _transaction,
    Prepare: _prepare,
    Decide: lambda record: [layouts.DECISION.pack(record.commit) + record.xid.encode()],
    Declare: _json,
    Remember: _json,
    Forget: lambda record: [layouts.QUEUE.pack(record.queue)],
    Shut: lambda _: [],
}
