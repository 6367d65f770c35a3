"""Runs of consecutive frames of the same shape, decoded together as one matrix."""

from collections.abc import Mapping
from typing import Final, NamedTuple

import numpy as np

from mqlab.wire.stomp.batch_encoder import Matrix
from mqlab.wire.stomp.frames import StompFrame, unescape

# Shorter runs are cheaper to decode frame by frame.
MIN_ROWS: Final = 8
_BACKSLASH: Final = ord("\\")
_SPACE: Final = ord(" ")
_LAST_ASCII: Final = 127

Span = tuple[int, int]


class Shape(NamedTuple):
    """The offsets of the parts of a frame. All frames of a run have the same shape."""

    command: str
    headers: Mapping[str, str]
    # The spans of the encoded header values, in order.
    spans: Mapping[str, Span]
    body: Span


class FrameRun(NamedTuple):
    """Frames with the same command and header names. Row i of `table` is frame i."""

    command: str
    # The headers of the first frame. Only those in `varying` may have other values in other rows.
    headers: Mapping[str, str]
    varying: frozenset[str]
    version: str
    table: Matrix
    spans: Mapping[str, Span]
    body: Span

    @property
    def rows(self) -> int:
        return len(self.table)

    def bodies(self) -> Matrix:
        begin, end = self.body
        return self.table[:, begin:end]

    def written(self, name: str) -> Matrix:
        """A header of each row, with escapes. Raises KeyError."""
        begin, end = self.spans[name]
        return self.table[:, begin:end]

    def values(self, name: str) -> list[str]:
        """A header of each row, without escapes. Raises KeyError."""
        if name not in self.varying:
            return [self.headers[name]] * self.rows
        column = self.written(name)
        text, width = column.tobytes().decode("ascii"), column.shape[1]
        rows = [text[at : at + width] for at in range(0, len(text), width)] if width else [""] * self.rows
        return [unescape(row, self.version) for row in rows] if "\\" in text else rows

    def frames(self) -> list[StompFrame]:
        """The rows as frames."""
        names = [name for name in self.spans if name in self.varying]
        values = zip(*(self.values(name) for name in names), strict=True) if names else [()] * self.rows
        bodies, size = self.bodies().tobytes(), self.body[1] - self.body[0]
        return [
            StompFrame(self.command, {**self.headers, **dict(zip(names, row, strict=True))}, bodies[at : at + size])
            for row, at in zip(values, range(0, self.rows * size or self.rows, size or 1), strict=True)
        ]


def find_run(
    data: bytes, begin: int, step: int, shape: Shape, varying: frozenset[str], version: str
) -> FrameRun | None:
    """The run of frames of this shape that begins at `begin`, each `step` bytes long; None if it is too short."""
    rows = (len(data) - begin) // step
    if rows < MIN_ROWS:
        return None
    table = np.frombuffer(data, dtype=np.uint8, count=rows * step, offset=begin).reshape(rows, step)
    varying -= {"content-length"}
    has_shape = _has_shape(table, shape, varying)
    if not has_shape.all():
        rows = int(has_shape.argmin())
        if rows < MIN_ROWS:
            return None
        table = table[:rows]
    return FrameRun(shape.command, shape.headers, varying, version, table, shape.spans, shape.body)


def _has_shape(table: Matrix, shape: Shape, varying: frozenset[str]) -> "np.ndarray[tuple[int], np.dtype[np.bool_]]":
    """For each row, whether it has the shape of the first."""
    first = table[0]
    same = np.ones(len(first), dtype=np.bool_)
    free = np.zeros(len(first), dtype=np.bool_)
    for name, (begin, end) in shape.spans.items():
        if name in varying:
            # Escapes must be equal in all rows.
            escapes = first[begin:end] == _BACKSLASH
            escapes[1:] |= escapes[:-1]
            same[begin:end], free[begin:end] = escapes, ~escapes
    same[slice(*shape.body)] = False
    values = table[:, free]
    # ASCII without a line end, a NUL, or an escape that the first row does not have.
    plain = (values >= _SPACE) & (values <= _LAST_ASCII) & (values != _BACKSLASH)
    has_shape: np.ndarray[tuple[int], np.dtype[np.bool_]] = (table[:, same] == first[same]).all(axis=1) & plain.all(
        axis=1
    )
    return has_shape
