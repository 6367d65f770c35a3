"""The records of a journal file, located and checked many at a time: there may be millions of them."""

from collections.abc import Iterator
from itertools import repeat
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from mqlab.broker.store.files.checksums import Bytes, Numbers, checksums
from mqlab.broker.store.journal_format import RECORD_HEADER, RECORD_OF, RECORD_PREFIX, UNWRITTEN, RecordLayout

# Records of a block: many enough to hide the cost of a block, few enough to need little memory.
_MAX_RECORDS: Final = 65_536
# Fewer rows than this are gathered sooner by the index of each byte.
_FEW_ROWS: Final = 256
_HEADER_SIZE: Final = RECORD_HEADER.size
_KINDS: Final = np.isin(np.arange(256), [*RECORD_OF])
_unpack_prefix: Final = RECORD_PREFIX.unpack_from


class RecordBlock(NamedTuple):
    """Consecutive records, each with the right number and checksum: the bytes [begin, end) of each, and its kind."""

    begins: Numbers
    ends: Numbers
    kinds: npt.NDArray[np.integer]
    # The byte after the last record: the next record begins there, or something unreadable.
    end: int

    def of_kind(self, kind: int, layout: RecordLayout) -> Numbers:
        """The indexes of the records of a kind whose body is long enough for the layout."""
        return np.flatnonzero((self.kinds == kind) & (self.ends - self.begins >= _HEADER_SIZE + layout.size))

    def bodies(self, indexes: Numbers) -> Numbers:
        """The bytes at which the bodies of these records begin."""
        begins: Numbers = self.begins[indexes] + _HEADER_SIZE
        return begins


def scan(data: bytes, array: Bytes, at: int, lsn: int) -> RecordBlock:
    """The records from byte `at` on, up to the first that cannot be read or to the size of a block.

    `array` is the same data; `lsn` is the number of the record before them.
    """
    begins, end = _record_offsets(data, at)
    if not len(begins):
        return RecordBlock(begins, begins, begins, end)
    ends = np.append(begins[1:], end)
    headers = read_structs(array, begins, RECORD_HEADER)
    right = headers["lsn"] == np.arange(lsn + 1, lsn + 1 + len(begins), dtype=np.uint64)
    right &= _KINDS[headers["kind"]]
    right &= headers["crc"] == checksums(data, array, begins + RECORD_PREFIX.size, ends)
    if right.all():
        return RecordBlock(begins, ends, headers["kind"], end)
    count = int(right.argmin())
    return RecordBlock(begins[:count], ends[:count], headers["kind"][:count], int(begins[count]))


def read_structs(array: Bytes, begins: Numbers, layout: RecordLayout) -> npt.NDArray[np.void]:
    """The fields of the file at these bytes, as a structured array."""
    if not len(begins):
        return np.empty(0, dtype=layout.dtype)
    return rows_at(array, begins, layout.size).view(layout.dtype).reshape(-1)


def rows_at(array: Bytes, begins: Numbers, size: int) -> Bytes:
    """`size` bytes from each of these on, a row each."""
    if len(begins) < _FEW_ROWS:
        few: Bytes = array[begins[:, None] + np.arange(size)]
        return few
    rows: Bytes = np.lib.stride_tricks.sliding_window_view(array, size)[begins]
    return rows


def by_queue(queues: npt.NDArray[np.integer], columns: Numbers) -> Iterator[tuple[int, Numbers]]:
    """The columns of each queue, in their order."""
    for queue in np.unique(queues).tolist():
        yield queue, columns[:, queues == queue]


def _record_offsets(data: bytes, at: int) -> tuple[Numbers, int]:
    """The bytes at which records begin, by their lengths, and the end of the last one; all lie within the data.

    The walk stops where nothing was written: the unused space of a large file may be long.
    """
    begins: list[int] = []
    append, size = begins.append, len(data)
    last = size - _HEADER_SIZE
    for _ in repeat(None, _MAX_RECORDS):
        if at > last:
            break
        length = _unpack_prefix(data, at)[0]
        end = at + _HEADER_SIZE + length
        if end > size or (not length and data.startswith(UNWRITTEN, at)):
            break
        append(at)
        at = end
    return np.array(begins, dtype=np.int64), at
