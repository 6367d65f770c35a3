"""SEND frames as payloads of the broker: many of one kind are one batch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa

from mqlab.broker.server.stomp.messages.headers import HeaderColumn, SendContext, columns_for, is_persistent
from mqlab.wire.native.bodies import BINARY, Payload, encode, encode_equal
from mqlab.wire.native.columns import Value, encode_columns, encode_single
from mqlab.wire.native.payload import equal_offsets
from mqlab.wire.stomp import FrameRun, StompError, StompFrame

# Bytes of bodies after which a batch is large enough.
_BATCH: Final = 256 * 1024
# The types of what headers fill, by their letters.
_ARROW: Final = {"s": pa.string(), "b": pa.int8(), "q": pa.int64(), "u": pa.binary(16)}


class BatchKey(NamedTuple):
    """What messages must have in common to be sent together."""

    destination: str
    transaction: str
    persistent: bool
    columns: tuple[HeaderColumn, ...]


def batch_key(frame: StompFrame | FrameRun) -> BatchKey:
    """Raises StompError."""
    headers = frame.headers
    destination = headers.get("destination")
    if not destination:
        raise StompError("SEND needs a destination")
    columns = columns_for(tuple(headers))
    return BatchKey(destination, headers.get("transaction", ""), is_persistent(headers), columns)


class SendBatch:
    """SENDs of one kind that follow one another."""

    def __init__(self, kind: BatchKey, first: StompFrame | FrameRun) -> None:
        self.kind = kind
        self._run = first if isinstance(first, FrameRun) else None
        self._frames = [first] if isinstance(first, StompFrame) else []
        self._size = len(first.body) if isinstance(first, StompFrame) else 0
        self._last_headers = first.headers

    @property
    def rows(self) -> int:
        return len(self._frames) if self._run is None else self._run.rows

    def takes(self, frame: StompFrame | FrameRun) -> bool:
        """Whether this one has joined the others. Raises StompError."""
        if self._run is not None or isinstance(frame, FrameRun) or self._size + len(frame.body) > _BATCH:
            return False
        # Frames with the same head have the same headers, as one object.
        if frame.headers is not self._last_headers:
            if batch_key(frame) != self.kind:
                return False
            self._last_headers = frame.headers
        self._frames.append(frame)
        self._size += len(frame.body)
        return True

    def receipts(self) -> list[str]:
        run = self._run
        if run is not None:
            return run.values("receipt") if "receipt" in run.headers else []
        return [frame.headers["receipt"] for frame in self._frames if "receipt" in frame.headers]

    def destinations(self) -> set[str]:
        """All that it names: where it goes, and where replies are to go."""
        replies = [column.header for column in self.kind.columns if column.name == "reply_to"]
        one = self._run if self._run is not None else self._frames[0]
        named = {one.headers[header] for header in replies}
        named.update(frame.headers[header] for header in replies for frame in self._frames)
        return {self.kind.destination, *named}

    def payload(self, around: SendContext) -> Payload:
        """Raises StompError."""
        if self._run is not None:
            return _of_run(self._run, self.kind.columns, around)
        frames, columns = self._frames, self.kind.columns
        if not columns:
            return encode([frame.body for frame in frames])
        if len(frames) == 1:
            return _single(frames[0], columns, around)
        bodies = pa.array([frame.body for frame in frames], BINARY)
        values = (
            [column.read(frame.headers[column.header], around) for frame in frames] for column in columns
        )  # fmt: skip
        return _batch(bodies, columns, [_array(one, column) for one, column in zip(values, columns, strict=True)])


def _single(frame: StompFrame, columns: Sequence[HeaderColumn], around: SendContext) -> Payload:
    names: list[str] = []
    letters, values = "", list[Value]()
    for header, name, letter, read in columns:
        value = read(frame.headers[header], around)
        if value is not None:
            names.append(name)
            letters += letter
            values.append(value)
    return encode_single(frame.body, tuple(names), letters, values)


def _of_run(run: FrameRun, columns: Sequence[HeaderColumn], around: SendContext) -> Payload:
    rows, bodies = run.rows, np.ascontiguousarray(run.bodies())
    if not columns:
        return encode_equal(bodies.reshape(-1), rows)
    arrays = []
    for column in columns:
        header, read = column.header, column.read
        if header in run.varying:
            arrays.append(_array([read(text, around) for text in run.values(header)], column))
        else:
            arrays.append(_array([read(run.headers[header], around)] * rows, column))
    offsets = pa.py_buffer(equal_offsets(rows, bodies.shape[1]))
    return _batch(pa.Array.from_buffers(BINARY, rows, [None, offsets, pa.py_buffer(bodies)]), columns, arrays)


def _array(values: Sequence[Value | None], column: HeaderColumn) -> pa.Array:
    return pa.array(values, _ARROW[column.letter])


def _batch(bodies: pa.Array, columns: Sequence[HeaderColumn], arrays: Sequence[pa.Array]) -> Payload:
    """What no message has is no column."""
    named = {column.name: array for column, array in zip(columns, arrays, strict=True)}
    return encode_columns(bodies, {name: array for name, array in named.items() if array.null_count < len(array)})
