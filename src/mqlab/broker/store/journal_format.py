"""The layout of a journal file, stated once.

Writer, scanner, decoder and documentation (`scripts/tables.py`) take struct formats, numpy dtypes and record kinds from
here. A file is a file header followed by records; zeros after the last record are space that was reserved and not used.
All numbers are little-endian, without padding.

The checksum of a record covers all but itself and the length; a wrong length makes it wrong. `durable` tells damage
from a torn tail: if a record is unreadable although a later one says that it was durable, the disk lost it; if none
says so, the record had not reached the disk when the power failed.

`MAGIC` ends with the version of the format. The layout of a kind never changes: a record with another body gets a new
kind, and recovery reads the old kind as before (docs/howto/change-the-journal-format.md). Version 2 gained the
manifest without a new number: file headers from before do not name a store.
"""

import struct
from collections.abc import Mapping
from typing import Final, NamedTuple

import numpy as np

from mqlab.broker.core.durability import records

MAGIC: Final = b"mqlabJ02"
# The versions that recovery reads. `tests/broker/store/golden` has a store of each.
READABLE: Final = (MAGIC,)

# Type of a field: its code in a struct format, and in a numpy dtype.
_CODES: Final = {"u8": ("B", "u1"), "u16": ("H", "<u2"), "u32": ("I", "<u4"), "u64": ("Q", "<u8"), "bool": ("?", "?"),
                 "8 bytes": ("8s", "S8")}  # fmt: skip


class FormatField(NamedTuple):
    name: str
    type: str
    meaning: str


class RecordLayout:
    """Fields that follow one another: to pack, to unpack, and as a numpy dtype."""

    def __init__(self, *fields: FormatField) -> None:
        self.fields = fields
        codes = [_CODES[field.type] for field in fields]
        packed = struct.Struct("<" + "".join(code for code, _ in codes))
        self.dtype = np.dtype([(field.name, code) for field, (_, code) in zip(fields, codes, strict=True)])
        self.size: Final = packed.size
        self.pack, self.pack_into = packed.pack, packed.pack_into
        self.unpack, self.unpack_from = packed.unpack, packed.unpack_from
        assert self.dtype.itemsize == self.size

    def __add__(self, other: "RecordLayout") -> "RecordLayout":
        return RecordLayout(*self.fields, *other.fields)


FILE_HEADER: Final = RecordLayout(
    FormatField("magic", "8 bytes", f"`{MAGIC.decode()}`; the last two digits are the version"),
    FormatField("number", "u64", "number of the file, as in its name"),
    FormatField("first_lsn", "u64", "number of its first record"),
    FormatField("length", "u32", "bytes of the JSON text that follows: queues, duplicate ids, last queue, store id"),
    FormatField("crc", "u32", "CRC32C of the header with 0 here, and of the JSON text"),
)  # fmt: skip

# The record header in two: what the checksum does not cover, and what it does.
RECORD_PREFIX: Final = RecordLayout(
    FormatField("length", "u32", "bytes of the body that follows the header"),
    FormatField("crc", "u32", "CRC32C of the rest of the header and of the body"),
)
RECORD_NUMBERS: Final = RecordLayout(
    FormatField("lsn", "u64", "number of the record: one more than that of the record before"),
    FormatField("durable", "u64", "number of the last record known to be on disk when this one was written"),
    FormatField("kind", "u8", "what the body is"),
)
RECORD_HEADER: Final = RECORD_PREFIX + RECORD_NUMBERS
# Where no record was written yet.
UNWRITTEN: Final = bytes(RECORD_HEADER.size)

PUT: Final = RecordLayout(
    FormatField("targets", "u32", "how many targets follow"),
    FormatField("origin_bytes", "u16", "bytes of the origin, which follows the targets"),
    FormatField("rows", "u32", "messages in the payload"),
    FormatField("payload_bytes", "u32", "bytes of the payload, which follows the origin"),
    FormatField("form", "u8", "form of the payload, as on the wire"),
)
TARGET: Final = RecordLayout(
    FormatField("queue", "u32", "number of the queue"),
    FormatField("first_id", "u64", "id of the first message on that queue"),
)
REMOVE: Final = RecordLayout(
    FormatField("queue", "u32", "number of the queue"),
    FormatField("ranges", "u32", "how many ranges follow"),
)
RANGE: Final = RecordLayout(
    FormatField("first_id", "u64", "id of the first message removed"),
    FormatField("rows", "u32", "how many are removed"),
)
TRANSACTION: Final = RecordLayout(
    FormatField("puts", "u32", "how many puts follow"),
    FormatField("removes", "u32", "how many removes follow these"),
)
XID: Final = RecordLayout(FormatField("xid_bytes", "u16", "bytes of the transaction's name, which follows"))
DECISION: Final = RecordLayout(FormatField("commit", "bool", "whether the transaction was committed; its name follows"))
QUEUE: Final = RecordLayout(FormatField("queue", "u32", "number of the queue"))

# Nearly all records are one of these two: a put with one target and no origin, a remove of one range.
SIMPLE_PUT: Final = PUT + TARGET
SIMPLE_REMOVE: Final = REMOVE + RANGE
# Layouts made of others, which the documentation need not repeat.
COMBINED: Final = ("RECORD_HEADER", "SIMPLE_PUT", "SIMPLE_REMOVE")


class RecordKind(NamedTuple):
    """`body`: what follows the record header, in this order; a name alone is text of variable length."""

    number: int
    record: type[records.Record]
    body: Mapping[str, RecordLayout | None]


_PUT_BODY: Final = {"put": PUT, "targets": TARGET, "origin": None, "payload": None}
_REMOVE_BODY: Final = {"remove": REMOVE, "ranges": RANGE}
_TRANSACTION_BODY: Final = {"transaction": TRANSACTION, "puts": None, "removes": None}
RECORD_KINDS: Final = (
    RecordKind(1, records.Declare, {"JSON `[queue, name, next_id, options]`": None}),
    RecordKind(2, records.Put, _PUT_BODY),
    RecordKind(3, records.Remove, _REMOVE_BODY),
    RecordKind(4, records.Commit, _TRANSACTION_BODY),
    RecordKind(5, records.Shut, {}),
    RecordKind(6, records.Forget, {"queue": QUEUE}),
    RecordKind(7, records.Prepare, {"xid length": XID, "xid": None, **_TRANSACTION_BODY}),
    RecordKind(8, records.Decide, {"decision": DECISION, "xid": None}),
    RecordKind(9, records.Remember, {"JSON `[destination, ids]`": None}),
)
# Recovery reads every kind; the encoder writes the last kind of a record.
RECORD_OF: Final[dict[int, type[records.Record]]] = {kind.number: kind.record for kind in RECORD_KINDS}
KIND_OF: Final[dict[type[records.Record], int]] = {record: number for number, record in RECORD_OF.items()}
