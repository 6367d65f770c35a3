"""Whether what cannot be read was on disk: damage, or the torn end of a journal that nobody was told was safe."""

from collections.abc import Iterator
from typing import Final

import numpy as np

from mqlab.broker.store import journal_format
from mqlab.broker.store.recovery.decoding import RECORD_HEADER_SIZE, UnreadableRecordError, read_record_header

# Records that may follow in the journal after one that cannot be read.
_FURTHEST: Final = 1 << 32
_LSN_AT: Final = journal_format.BEGIN.size
_STEP: Final = 8


def torn_bytes(data: bytes, at: int) -> int:
    """How many from byte `at` on were written; the zeros behind them are room that was not used."""
    return len(data[at:].rstrip(b"\0"))


def was_durable(data: bytes, at: int, lsn: int) -> bool:
    """Whether record `lsn`, which cannot be read at byte `at`, is proven to have been there.

    A later record proves it that says it was durable. A head (byte 0) is synced before anything else is written, so
    any record after it proves it.
    """
    if not at:
        lsn = 0
    # Where nothing was written no record begins.
    for begin in _candidates(data[: at + torn_bytes(data, at) + RECORD_HEADER_SIZE], at, lsn):
        try:
            if read_record_header(data, begin).durable >= lsn:
                return True
        except UnreadableRecordError:
            continue
    return False


def _candidates(data: bytes, at: int, lsn: int) -> Iterator[int]:
    """Where a later record may begin, by its number and what it says was durable; most other bytes say nonsense."""
    found = []
    for shift in range(_STEP):
        begin = at + shift
        count = (len(data) - begin - RECORD_HEADER_SIZE) // _STEP + 1
        if count > 0:
            # A number at every eighth byte; `durable` is the one after it.
            numbers = np.frombuffer(data, dtype="<u8", count=count + 1, offset=begin + _LSN_AT)
            number, durable = numbers[:-1], numbers[1:]
            likely = (number > lsn) & (durable >= lsn) & (durable < number)
            if lsn:
                likely &= number <= np.uint64(min(lsn + _FURTHEST, 2**64 - 1))
            found.append(begin + _STEP * np.flatnonzero(likely))
    yield from sorted(np.concatenate(found).tolist()) if found else ()
