"""The records of a journal file, found and checked many at a time: there may be millions of them."""

import struct
from collections.abc import Iterator
from itertools import repeat
from typing import Any, Final, NamedTuple

import numpy as np

from mqlab.broker.store import journal_format
from mqlab.broker.store.files.checksums import Numbers, checksums

# Records of one block: so many that what is done for a block as a whole is not seen, and not much memory is needed.
_MOST: Final = 65_536
# So many are found sooner by the places of all their bytes.
_FEW: Final = 256
_UNCOVERED: Final = journal_format.BEGIN.size
_RECORD_HEADER_SIZE: Final = journal_format.FRAME.size
_length_at = struct.Struct("<I").unpack_from

_FRAME: Final = np.dtype([("length", "<u4"), ("crc", "<u4"), ("lsn", "<u8"), ("durable", "<u8"), ("kind", "u1")])
# A put with one target and no origin, a remove of one range.
PUT: Final = np.dtype([
    ("targets", "<u4"), ("origin", "<u2"), ("rows", "<u4"), ("bytes", "<u4"), ("form", "u1"), ("queue", "<u4"),
    ("first_id", "<u8"),
])  # fmt: skip
REMOVE: Final = np.dtype([("queue", "<u4"), ("ranges", "<u4"), ("first_id", "<u8"), ("rows", "<u4")])


class RecordBlock(NamedTuple):
    """Records that follow one another, each with the right number and checksum: where they begin and end."""

    begins: Numbers
    ends: Numbers
    kinds: Numbers
    # Where the next one begins, or something that is not right.
    end: int

    def of_kind(self, kind: int, form: np.dtype[Any]) -> Numbers:
        """Which of them are of a kind, and long enough to be of that form."""
        return np.flatnonzero((self.kinds == kind) & (self.ends - self.begins >= _RECORD_HEADER_SIZE + form.itemsize))

    def inside(self, chosen: Numbers) -> Numbers:
        """Where the records themselves begin, without their frames."""
        found: Numbers = self.begins[chosen] + _RECORD_HEADER_SIZE
        return found


def scan(data: bytes, array: Numbers, at: int, lsn: int) -> RecordBlock:
    """The records from `at` on, as far as they can be read and no more than a block has.

    `array` is the same data; `lsn` is the number of the record before them.
    """
    begins, end = _record_offsets(data, at)
    if not len(begins):
        return RecordBlock(begins, begins, begins, end)
    ends = np.append(begins[1:], end)
    frames = read_structs(array, begins, _FRAME)
    right = frames["lsn"] == np.arange(lsn + 1, lsn + 1 + len(begins), dtype=np.uint64)
    right &= (frames["kind"] >= journal_format.DECLARED) & (frames["kind"] <= journal_format.REMEMBERED)
    right &= frames["crc"] == checksums(data, array, begins + _UNCOVERED, ends)
    if right.all():
        return RecordBlock(begins, ends, frames["kind"], end)
    count = int(right.argmin())
    return RecordBlock(begins[:count], ends[:count], frames["kind"][:count], int(begins[count]))


def read_structs(array: Numbers, begins: Numbers, form: np.dtype[Any]) -> Numbers:
    """What stands at these places, in that form."""
    if not len(begins):
        return np.empty(0, dtype=form)
    return rows_at(array, begins, form.itemsize).view(form).reshape(-1)


def rows_at(array: Numbers, begins: Numbers, size: int) -> Numbers:
    """So many bytes from each of these places on, a row each."""
    if len(begins) < _FEW:
        few: Numbers = array[begins[:, None] + np.arange(size)]
        return few
    found: Numbers = np.lib.stride_tricks.sliding_window_view(array, size)[begins]
    return found


def by_queue(queues: Numbers, columns: Numbers) -> Iterator[tuple[int, Numbers]]:
    """The columns that belong to each queue, in their order."""
    for queue in np.unique(queues).tolist():
        yield queue, columns[:, queues == queue]


def _record_offsets(data: bytes, at: int) -> tuple[Numbers, int]:
    """Where records begin, as their lengths say, and where the last of them ends: they all lie within the data.

    It stops where nothing was written, which may go on to the end of a large file.
    """
    begins: list[int] = []
    note, size = begins.append, len(data)
    last = size - _RECORD_HEADER_SIZE
    for _ in repeat(None, _MOST):
        if at > last:
            break
        length = _length_at(data, at)[0]
        end = at + _RECORD_HEADER_SIZE + length
        if end > size or (not length and data.startswith(journal_format.NOTHING, at)):
            break
        note(at)
        at = end
    return np.array(begins, dtype=np.int64), at
