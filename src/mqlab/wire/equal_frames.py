"""Frames of a text protocol that are all alike but for their bodies: built and split without touching any alone."""

import numpy as np

from mqlab.wire.fixed_rows import count_equal_rows
from mqlab.wire.native.bodies import Bodies
from mqlab.wire.native.payload import Bytes, equal_offsets

Rows = np.ndarray[tuple[int, int], np.dtype[np.uint8]]

# Looked at before all the others are: where few frames are alike, the rest is not compared in vain.
_FIRST_LOOK = 16


class FrameTemplate:
    """A frame with a gap for its body: `head`, then the body, then `tail`."""

    def __init__(self, head: bytes, tail: bytes, size: int) -> None:
        self._before = len(head)
        self._size = size
        self._row = np.frombuffer(b"".join((head, bytes(size), tail)), dtype=np.uint8)
        self._table: Rows = self._row.reshape(1, -1)

    def filled(self, bodies: Rows) -> bytes:
        """The frames of all rows, one after the other."""
        rows = len(bodies)
        if rows > len(self._table):
            self._table = np.tile(self._row, (rows, 1))
        elif not self._table.flags.writeable:
            self._table = self._table.copy()
        some = self._table[:rows]
        some[:, self._before : self._before + self._size] = bodies
        return some.tobytes()


def count_equal_frames(data: Bytes, at: int, head: int, size: int, tail: int) -> int:
    """How many frames from `at` on have the length of the first one, and its first `head` and last `tail` bytes.

    The first is whole. What lies between head and tail is its body.
    """
    length = head + size + tail
    most = (len(data) - at) // length
    if most > _FIRST_LOOK and _first_unlike(data, at, _FIRST_LOOK, head, length, tail) < _FIRST_LOOK:
        most = _FIRST_LOOK
    return _first_unlike(data, at, most, head, length, tail)


def _first_unlike(data: Bytes, at: int, rows: int, head: int, length: int, tail: int) -> int:
    table = data[at : at + rows * length].reshape(rows, length)
    return count_equal_rows(table, ((0, head), (length - tail, length)))


def equal_bodies(data: Bytes, at: int, rows: int, head: int, size: int, tail: int) -> Bodies:
    """A copy of the bodies of frames that are alike."""
    length = head + size + tail
    table = data[at : at + rows * length].reshape(rows, length)
    return Bodies(table[:, head : head + size].copy().reshape(-1), equal_offsets(rows, size))


def bodies_at(data: Bytes, begins: list[int], sizes: list[int]) -> Bodies:
    """A copy of the bodies that lie there."""
    view = data.data
    offsets = np.zeros(len(sizes) + 1, dtype=np.int32)
    np.cumsum(sizes, out=offsets[1:])
    joined = b"".join([view[begin : begin + size] for begin, size in zip(begins, sizes, strict=True)])
    return Bodies(np.frombuffer(joined, dtype=np.uint8), offsets)


def concat_bodies(some: list[Bodies]) -> Bodies:
    """All of them as one."""
    if len(some) == 1:
        return some[0]
    parts = [bodies.data[bodies.offsets[0] : bodies.offsets[-1]] for bodies in some]
    steps = np.cumsum([0, *(len(part) for part in parts)])
    offsets = [bodies.offsets[:-1] + (step - int(bodies.offsets[0])) for bodies, step in zip(some, steps, strict=False)]
    return Bodies(np.concatenate(parts), np.concatenate((*offsets, steps[-1:])).astype(np.int32))
