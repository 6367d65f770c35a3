"""The damage check: was an unreadable record on disk (damage), or never confirmed (the torn tail of the journal)?"""

from collections.abc import Iterator
from typing import Final

import numpy as np

from mqlab.broker.store.journal_format import RECORD_HEADER, RECORD_PREFIX
from mqlab.broker.store.recovery.decoding import UnreadableRecordError, read_record_header

# A record whose number is further ahead of the unreadable one is taken for random bytes.
_MAX_LSN_DISTANCE: Final = 1 << 32
# `lsn` and `durable` are neighbours of this size: at each of the 8 alignments the data is an array of them.
_LSN_OFFSET: Final = RECORD_PREFIX.size
_LSN_SIZE: Final = 8


def torn_bytes(data: bytes, at: int) -> int:
    """How many bytes were written from byte `at` on; the zeros after them are unused space."""
    return len(data[at:].rstrip(b"\0"))


def was_durable(data: bytes, at: int, lsn: int) -> bool:
    """Whether a later record proves that record `lsn`, which is unreadable at byte `at`, was on disk.

    A later record says which records were durable. A file header (byte 0) is synced before any record is written, so
    any record after it proves that it was on disk.
    """
    if not at:
        lsn = 0
    written = data[: at + torn_bytes(data, at) + RECORD_HEADER.size]
    for begin in _candidates(written, at, lsn):
        try:
            if read_record_header(data, begin).durable >= lsn:
                return True
        except UnreadableRecordError:
            continue
    return False


def _candidates(data: bytes, at: int, lsn: int) -> Iterator[int]:
    """The bytes at which a later record may begin, judged by its `lsn` and `durable`: most other bytes fit neither."""
    begins = []
    for shift in range(_LSN_SIZE):
        begin = at + shift
        count = (len(data) - begin - RECORD_HEADER.size) // _LSN_SIZE + 1
        if count > 0:
            numbers = np.frombuffer(data, dtype="<u8", count=count + 1, offset=begin + _LSN_OFFSET)
            number, durable = numbers[:-1], numbers[1:]
            likely = (number > lsn) & (durable >= lsn) & (durable < number)
            if lsn:
                likely &= number <= np.uint64(min(lsn + _MAX_LSN_DISTANCE, 2**64 - 1))
            begins.append(begin + _LSN_SIZE * np.flatnonzero(likely))
    yield from sorted(np.concatenate(begins).tolist()) if begins else ()
