"""Frames of a text protocol that differ only in their bodies: encoded and decoded by numpy, many at once."""

import numpy as np

from mqlab.wire.fixed_rows import Table, count_equal_rows
from mqlab.wire.native.bodies import Bodies
from mqlab.wire.native.payload import Bytes, equal_offsets

# So many frames are compared first: where few are equal, comparing all would be wasted.
_FIRST_ROWS = 16


class FrameTemplate:
    """A frame with a gap for its body: `head`, then the body, then `tail`."""

    def __init__(self, head: bytes, tail: bytes, size: int) -> None:
        self._before = len(head)
        self._size = size
        self._row = np.frombuffer(b"".join((head, bytes(size), tail)), dtype=np.uint8)
        self._table: Table = self._row.reshape(1, -1)

    def filled(self, bodies: Table) -> bytes:
        """The frames of all rows, joined."""
        rows = len(bodies)
        if rows > len(self._table):
            self._table = np.tile(self._row, (rows, 1))
        elif not self._table.flags.writeable:
            self._table = self._table.copy()
        frames = self._table[:rows]
        frames[:, self._before : self._before + self._size] = bodies
        return frames.tobytes()


def count_equal_frames(data: Bytes, at: int, head: int, size: int, tail: int) -> int:
    """How many frames from `at` on equal the first one in length, in the first `head` and in the last `tail` bytes.

    The first frame is complete. Its body is between head and tail.
    """
    length = head + size + tail
    most = (len(data) - at) // length
    if most == 1:
        return 1
    if most > _FIRST_ROWS and _equal_rows(data, at, _FIRST_ROWS, head, length, tail) < _FIRST_ROWS:
        most = _FIRST_ROWS
    return _equal_rows(data, at, most, head, length, tail)


def _equal_rows(data: Bytes, at: int, rows: int, head: int, length: int, tail: int) -> int:
    table = data[at : at + rows * length].reshape(rows, length)
    return count_equal_rows(table, ((0, head), (length - tail, length)))


def equal_bodies(data: Bytes, at: int, rows: int, head: int, size: int, tail: int) -> Bodies:
    """A copy of the bodies of frames that `count_equal_frames` has found."""
    length = head + size + tail
    if rows == 1:
        return bodies_at(data, [at + head], [size])
    table = data[at : at + rows * length].reshape(rows, length)
    return Bodies(table[:, head : head + size].copy().reshape(-1), equal_offsets(rows, size))


def bodies_at(data: Bytes, begins: list[int], sizes: list[int]) -> Bodies:
    """A copy of the bodies at these offsets."""
    view = data.data
    if len(sizes) == 1:
        return Bodies.of([bytes(view[begins[0] : begins[0] + sizes[0]])])
    return Bodies.of([view[begin : begin + size] for begin, size in zip(begins, sizes, strict=True)])


def concat_bodies(pieces: list[Bodies]) -> Bodies:
    if len(pieces) == 1:
        return pieces[0]
    parts = [bodies.data[bodies.offsets[0] : bodies.offsets[-1]] for bodies in pieces]
    steps = np.cumsum([0, *(len(part) for part in parts)])
    offsets = [part.offsets[:-1] + (step - int(part.offsets[0])) for part, step in zip(pieces, steps, strict=False)]
    return Bodies(np.concatenate(parts), np.concatenate((*offsets, steps[-1:])).astype(np.int32))
