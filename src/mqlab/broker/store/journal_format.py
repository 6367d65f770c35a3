"""The form of a journal file: what stands where.

A file begins with a head (which file this is, the queues there are, the ids that must be known again) and goes on
with records, each

    length u32 | crc32c u32 | lsn u64 | durable u64 | kind u8 | the record

Zeros behind the last record are room that was reserved and not used: no record begins with so many.

The checksum covers all but itself and the length; a wrong length makes it wrong. `durable` is the last record known
to be on disk when this one was written. It tells damage from a torn tail: if a record cannot be read although a later
one says that it was durable, the disk lost it; if none says so, it was still on its way when the power went.
"""

import struct
from typing import Final

MAGIC: Final = b"mqlabJ02"

HEAD: Final = struct.Struct("<8sQQII")  # magic, number of the file, first lsn, length of what it says, crc32c
FRAME: Final = struct.Struct("<IIQQB")
# What stands where no record was written yet.
NOTHING: Final = bytes(FRAME.size)
# The frame in two: what the checksum does not cover, and what it does.
BEGIN: Final = struct.Struct("<II")
COVERED: Final = struct.Struct("<QQB")

PUT: Final = struct.Struct("<IHIIB")  # targets, bytes of the origin, rows, bytes of the payload, form; these follow
TARGET: Final = struct.Struct("<IQ")  # queue, first id
REMOVE: Final = struct.Struct("<II")  # queue, ranges; these follow
RANGE: Final = struct.Struct("<QI")  # first id, rows
PARTS: Final = struct.Struct("<II")  # puts, removes; these follow
NAME: Final = struct.Struct("<H")  # bytes; these follow
QUEUE: Final = struct.Struct("<I")
DECISION: Final = struct.Struct("<?")  # whether it is a commit; the name follows

# What nearly all records are, in one piece: a put with one target and no origin, a remove of one range.
PLAIN_PUT: Final = struct.Struct("<QQBIHIIBIQ")
PLAIN_REMOVE: Final = struct.Struct("<QQBIIQI")
# The same with the whole frame, to be read at once.
FRAMED_PUT: Final = struct.Struct("<IIQQBIHIIBIQ")
FRAMED_REMOVE: Final = struct.Struct("<IIQQBIIQI")

# Kinds of records.
DECLARED, PUTS, REMOVED, COMMITTED, SHUT, FORGOTTEN, PREPARED, DECIDED, REMEMBERED = range(1, 10)
