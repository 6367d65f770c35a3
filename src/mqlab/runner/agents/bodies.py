"""The body of a message of the lab: the producer (4 bytes), its sequence number (8 bytes), then filler.

A reply has the id of its request before the filler.
"""

import struct
from collections.abc import Iterable, Sequence
from functools import lru_cache
from itertools import pairwise
from typing import Final

import numpy as np
import numpy.typing as npt

from mqlab.drivers.api import Matrix
from mqlab.drivers.common.filler import ID_SIZE, filler
from mqlab.errors import MqlabError
from mqlab.wire.native.bodies import Bodies
from mqlab.wire.native.payload import equal_offsets

_ID: Final = struct.Struct("<IQ")
_LOW: Final = np.uint64(0xFFFFFFFF)
# For at most so many bodies, a Python loop is faster than numpy.
_FEW: Final = 8
# Bodies are compared in steps of so many bytes: the result of a step stays in the processor's cache.
_STEP_BYTES: Final = 64 * 1024
# Words of 4 bytes, since numpy is several times slower on unaligned numbers of 8 bytes.
_Words = npt.NDArray[np.uint32]


class ForeignMessageError(MqlabError):
    """The body is too short for a message of the lab, or not a whole number of records."""


class BodyMaker:
    """Makes the bodies of one producer in a buffer: from batch to batch only the sequence numbers change."""

    def __init__(self, producer: int, size: int, max_count: int) -> None:
        records = np.zeros(max_count, dtype=_word_dtype(size))
        self._matrix: Matrix = records.view(np.uint8).reshape(max_count, size)
        self._matrix[:, ID_SIZE:] = filler(size)
        records["producer"] = producer
        self._low, self._high = records["low"], records["high"]
        self._row_index = np.arange(max_count, dtype=np.uint64)
        self._current_high = 0
        # Bodies without filler are contiguous: one addition without strides advances a whole batch to the next.
        self._words = records.view("<u4") if size == ID_SIZE else None
        self._batch_step = _batch_step(max_count)
        self._next_seq = -1
        self._producer = producer
        self._filler = filler(size).tobytes()
        self._reply_filler = self._filler[ID_SIZE:]

    def make_single(self, seq: int) -> bytes:
        return _ID.pack(self._producer, seq) + self._filler

    def make_reply(self, seq: int, request: bytes) -> bytes:
        return _ID.pack(self._producer, seq) + request[:ID_SIZE] + self._reply_filler

    def make(self, first_seq: int, rows: int) -> Matrix:
        """The bodies of a batch. They are valid until the next call."""
        high = first_seq >> 32
        continues = first_seq == self._next_seq and rows == len(self._row_index) and high == self._current_high
        self._next_seq = first_seq + rows if rows == len(self._row_index) else -1
        if (first_seq + rows - 1) >> 32 != high:
            seqs = self._row_index[:rows] + np.uint64(first_seq)
            self._low[:rows], self._high[:rows] = seqs & _LOW, seqs >> np.uint64(32)
            self._current_high = -1
            return self._matrix[:rows]
        if continues and self._words is not None:
            np.add(self._words, self._batch_step, out=self._words)
            return self._matrix[:rows]
        if high != self._current_high:
            self._high[:], self._current_high = high, high
        np.add(_low_row_index(rows), np.uint32(first_seq & 0xFFFFFFFF), out=self._low[:rows])
        return self._matrix[:rows]


class BodyCheck:
    """Compares received bodies with those that a BodyMaker makes: their length and every byte of the filler."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._filler = filler(size)
        self._filler_bytes = self._filler.tobytes()
        self._reply_filler = self._filler_bytes[ID_SIZE:]

    def find_damaged(self, bodies: Bodies) -> npt.NDArray[np.bool_] | None:
        """A flag for each body, set if it differs; None if no body differs."""
        if len(bodies) <= _FEW:
            return self.find_damaged_of(bodies.tolist())
        return None if self._are_intact(bodies) else self.find_damaged_of(bodies.tolist())

    def find_damaged_of(self, bodies: Sequence[bytes]) -> npt.NDArray[np.bool_] | None:
        """The same, body by body."""
        size, expected = self._size, self._filler_bytes
        for body in bodies:
            if len(body) != size or not body.endswith(expected):
                return np.array([len(body) != size or not body.endswith(expected) for body in bodies])
        return None

    def is_damaged_reply(self, reply: bytes) -> bool:
        return len(reply) != self._size or not reply.endswith(self._reply_filler)

    def _are_intact(self, bodies: Bodies) -> bool:
        table = bodies.table()
        if table is None or table.shape[1] != self._size:
            return False
        step = max(1, _STEP_BYTES // self._size)
        fillers = table[:, ID_SIZE:]
        return all(bool((fillers[row : row + step] == self._filler).all()) for row in range(0, len(table), step))


def is_reply_to(request: bytes, reply: bytes) -> bool:
    """Whether the reply has the id of the request."""
    return reply[ID_SIZE : 2 * ID_SIZE] == request[:ID_SIZE]


def message_id(body: bytes) -> tuple[int, int]:
    """Producer and sequence number of a message. Raises ForeignMessageError."""
    if len(body) < ID_SIZE:
        raise ForeignMessageError("a message of fewer than 12 bytes")
    producer, seq = _ID.unpack_from(body)
    return producer, seq


def message_ranges(bodies: Bodies) -> list[tuple[int, int, int, int]]:
    """(producer, first sequence number, count, bytes) of each range of consecutive messages, in their order.

    Raises ForeignMessageError.
    """
    rows = len(bodies)
    if rows <= _FEW:
        return message_ranges_of(bodies.tolist())
    words = _words(bodies)
    if _are_consecutive(words, rows):
        return [(int(words[0]), int(words[2]) << 32 | int(words[1]), rows, bodies.nbytes)]
    table = words.reshape(rows, 3)
    producers, seqs = table[:, 0], table[:, 2].astype(np.uint64) << np.uint64(32) | table[:, 1]
    # The next sequence number of the same producer continues a range; anything else begins a new one.
    breaks = (np.flatnonzero((seqs[1:] - seqs[:-1] != 1) | (producers[1:] != producers[:-1])) + 1).tolist()
    offsets = bodies.offsets
    return [
        (int(producers[a]), int(seqs[a]), b - a, int(offsets[b]) - int(offsets[a]))
        for a, b in pairwise((0, *breaks, rows))
    ]


def unpack(bodies: Bodies, size: int) -> Bodies:
    """The records of packed messages. Raises ForeignMessageError."""
    if bool((np.diff(bodies.offsets) % size).any()):
        raise ForeignMessageError(f"a packed message that is not made of records of {size} bytes")
    data = bodies.data[bodies.offsets[0] : bodies.offsets[-1]]
    return Bodies(data, equal_offsets(len(data) // size, size))


def message_ranges_of(bodies: Iterable[bytes]) -> list[tuple[int, int, int, int]]:
    """The same, body by body."""
    ranges: list[tuple[int, int, int, int]] = []
    for body in bodies:
        producer, seq = message_id(body)
        if ranges and ranges[-1][0] == producer and ranges[-1][1] + ranges[-1][2] == seq:
            _, first, count, size_before = ranges[-1]
            ranges[-1] = (producer, first, count + 1, size_before + len(body))
        else:
            ranges.append((producer, seq, 1, len(body)))
    return ranges


def _are_consecutive(words: _Words, rows: int) -> bool:
    """Whether all bodies are one range: without the row number in the lower half, all rows are equal."""
    difference = words - _row_numbers(rows)
    return bool((difference[3:] == difference[:-3]).all()) and int(words[1]) + rows - 1 <= 0xFFFFFFFF


def _words(bodies: Bodies) -> _Words:
    """Of each body in turn: the producer, and the lower and the upper half of the sequence number."""
    table = bodies.table()
    if table is None or table.shape[1] < ID_SIZE:
        if bool((np.diff(bodies.offsets) < ID_SIZE).any()):
            raise ForeignMessageError("a message of fewer than 12 bytes")
        table = bodies.data[bodies.offsets[:-1, None] + np.arange(ID_SIZE)]
    return np.ascontiguousarray(table[:, :ID_SIZE]).reshape(-1).view("<u4")


@lru_cache(maxsize=64)
def _word_dtype(size: int) -> np.dtype[np.void]:
    names = ["producer", "low", "high"]
    return np.dtype({"names": names, "formats": ["<u4"] * 3, "offsets": [0, 4, 8], "itemsize": size})


@lru_cache(maxsize=64)
def _low_row_index(rows: int) -> _Words:
    return np.arange(rows, dtype=np.uint32)


# Grows to the largest arrival so far.
_numbered = np.zeros(0, dtype=np.uint32)


def _row_numbers(rows: int) -> _Words:
    global _numbered
    if len(_numbered) < 3 * rows:
        words = np.zeros((2 * rows, 3), dtype=np.uint32)
        words[:, 1] = np.arange(2 * rows)
        _numbered = words.reshape(-1)
    return _numbered[: 3 * rows]


def _batch_step(rows: int) -> _Words:
    """Added to a batch, it advances every sequence number by the batch size."""
    words = np.zeros((rows, 3), dtype=np.uint32)
    words[:, 1] = rows
    return words.reshape(-1)
