"""What is in a message of the lab: the producer (4 bytes), its sequence number (8 bytes), then filler."""

import struct
from functools import lru_cache
from itertools import pairwise
from typing import Any, Final

import numpy as np

from mqlab.drivers.api import Matrix
from mqlab.errors import MqlabError
from mqlab.wire.native.bodies import Bodies

ID_SIZE: Final = 12
_ID: Final = struct.Struct("<IQ")
_LOW: Final = np.uint64(0xFFFFFFFF)
# So many bodies are read one by one sooner than together.
_FEW: Final = 8


class ForeignMessageError(MqlabError, ValueError):
    """A message that the lab did not send: bodies of the lab begin with producer and sequence number."""


class BodyMaker:
    """Bodies of one producer, made in place: only the sequence numbers change from batch to batch."""

    def __init__(self, producer: int, size: int, most: int) -> None:
        records = np.zeros(most, dtype=_in_words(size))
        self._matrix: Matrix = records.view(np.uint8).reshape(most, size)
        # Filler that does not compress to nothing, the same for every message.
        self._matrix[:, ID_SIZE:] = np.arange(size - ID_SIZE, dtype=np.uint64).astype(np.uint8)
        records["producer"] = producer
        self._low, self._high = records["low"], records["high"]
        self._steps = np.arange(most, dtype=np.uint64)
        self._present_high = 0
        # Bodies that are nothing but their ids lie without a gap: one whole batch after the other, all words move on
        # by one addition without strides.
        self._words = records.view("<u4") if size == ID_SIZE else None
        self._step = _equal_steps(most)
        self._next_whole = -1
        self._producer = producer
        self._filler = self._matrix[0, ID_SIZE:].tobytes()

    def one(self, seq: int) -> bytes:
        """A body alone, for those that send one at a time."""
        return _ID.pack(self._producer, seq) + self._filler

    def make(self, first_seq: int, rows: int) -> Matrix:
        """Valid until the next call."""
        high = first_seq >> 32
        goes_on = first_seq == self._next_whole and rows == len(self._steps) and high == self._present_high
        self._next_whole = first_seq + rows if rows == len(self._steps) else -1
        if (first_seq + rows - 1) >> 32 != high:
            seqs = self._steps[:rows] + np.uint64(first_seq)
            self._low[:rows], self._high[:rows] = seqs & _LOW, seqs >> np.uint64(32)
            self._present_high = -1
            return self._matrix[:rows]
        if goes_on and self._words is not None:
            np.add(self._words, self._step, out=self._words)
            return self._matrix[:rows]
        if high != self._present_high:
            self._high[:], self._present_high = high, high
        np.add(_steps(rows), np.uint32(first_seq & 0xFFFFFFFF), out=self._low[:rows])
        return self._matrix[:rows]


def identity(body: bytes) -> tuple[int, int]:
    """Producer and sequence number of one message."""
    if len(body) < ID_SIZE:
        raise ForeignMessageError("a message of fewer than 12 bytes")
    producer, seq = _ID.unpack_from(body)
    return producer, seq


def ranges(bodies: Bodies) -> list[tuple[int, int, int, int]]:
    """(producer, first sequence number, count, bytes) of each run of consecutive messages, in their order."""
    rows = len(bodies)
    if rows <= _FEW:
        return _few_ranges(bodies)
    words = _words(bodies)
    if _consecutive(words, rows):
        return [(int(words[0]), int(words[2]) << 32 | int(words[1]), rows, bodies.nbytes)]
    table = words.reshape(rows, 3)
    producers, seqs = table[:, 0], table[:, 2].astype(np.uint64) << np.uint64(32) | table[:, 1]
    # A step of one within a producer goes on; anything else begins a new range.
    breaks = (np.flatnonzero((seqs[1:] - seqs[:-1] != 1) | (producers[1:] != producers[:-1])) + 1).tolist()
    offsets = bodies.offsets
    return [
        (int(producers[a]), int(seqs[a]), b - a, int(offsets[b]) - int(offsets[a]))
        for a, b in pairwise((0, *breaks, rows))
    ]


def _few_ranges(bodies: Bodies) -> list[tuple[int, int, int, int]]:
    """The same, one by one."""
    found: list[tuple[int, int, int, int]] = []
    data = bodies.data.data
    for begin, end in pairwise(bodies.offsets.tolist()):
        size = end - begin
        if size < ID_SIZE:
            raise ForeignMessageError("a message of fewer than 12 bytes")
        producer, seq = _ID.unpack_from(data, begin)
        if found and found[-1][0] == producer and found[-1][1] + found[-1][2] == seq:
            _, first, count, before = found[-1]
            found[-1] = (producer, first, count + 1, before + size)
        else:
            found.append((producer, seq, 1, size))
    return found


def _consecutive(words: Any, rows: int) -> bool:
    """The usual case, over whole columns: less its row number in the lower half, every row is like the one before."""
    rest = words - _row_numbers(rows)
    return bool((rest[3:] == rest[:-3]).all()) and int(words[1]) + rows - 1 <= 0xFFFFFFFF


def _words(bodies: Bodies) -> Any:
    """Producer, and the lower and upper half of the sequence number, of one body after the other."""
    table = bodies.table()
    if table is None or table.shape[1] < ID_SIZE:
        if bool((np.diff(bodies.offsets) < ID_SIZE).any()):
            raise ForeignMessageError("a message of fewer than 12 bytes")
        table = bodies.data[bodies.offsets[:-1, None] + np.arange(ID_SIZE)]
    return np.ascontiguousarray(table[:, :ID_SIZE]).reshape(-1).view("<u4")


# Words of 4 bytes, since numpy is several times slower on numbers of 8 that lie across their alignment.


@lru_cache(maxsize=64)
def _in_words(size: int) -> Any:
    names = ["producer", "low", "high"]
    return np.dtype({"names": names, "formats": ["<u4"] * 3, "offsets": [0, 4, 8], "itemsize": size})


@lru_cache(maxsize=64)
def _steps(rows: int) -> Any:
    return np.arange(rows, dtype=np.uint32)


# As many as were ever wanted: what comes together has any length.
_numbered = np.zeros(0, dtype=np.uint32)


def _row_numbers(rows: int) -> Any:
    global _numbered
    if len(_numbered) < 3 * rows:
        words = np.zeros((2 * rows, 3), dtype=np.uint32)
        words[:, 1] = np.arange(2 * rows)
        _numbered = words.reshape(-1)
    return _numbered[: 3 * rows]


def _equal_steps(rows: int) -> Any:
    """What moves every row of a batch on by a whole batch."""
    words = np.zeros((rows, 3), dtype=np.uint32)
    words[:, 1] = rows
    return words.reshape(-1)
