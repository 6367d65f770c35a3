"""Encodes SEND frames as payloads: consecutive frames of one kind become one batch."""

from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa

from mqlab.broker.server.stomp.messages.headers import HeaderColumn, SendContext, columns_for, is_persistent
from mqlab.wire.native.bodies import BINARY, Payload, encode, encode_equal
from mqlab.wire.native.columns import Value, encode_columns, encode_single
from mqlab.wire.native.payload import equal_offsets
from mqlab.wire.stomp.frames import StompError, StompFrame
from mqlab.wire.stomp.runs import FrameRun

# Bytes of the bodies of a batch.
_MOST_BATCH: Final = 256 * 1024
# Arrow types of columns, by their letters.
_ARROW: Final = {"s": pa.string(), "b": pa.int8(), "q": pa.int64(), "u": pa.binary(16)}


class BatchKey(NamedTuple):
    """The values that all messages of a batch share."""

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
    """Consecutive SEND frames with the same batch key."""

    def __init__(self, key: BatchKey, first: StompFrame | FrameRun) -> None:
        self.key = key
        self._run = first if isinstance(first, FrameRun) else None
        self._frames = [first] if isinstance(first, StompFrame) else []
        self._size = len(first.body) if isinstance(first, StompFrame) else 0
        self._last_headers = first.headers

    @property
    def rows(self) -> int:
        return len(self._frames) if self._run is None else self._run.rows

    def add(self, frame: StompFrame | FrameRun) -> bool:
        """Add a frame. Return False if it does not belong to the batch. Raises StompError."""
        if self._run is not None or isinstance(frame, FrameRun) or self._size + len(frame.body) > _MOST_BATCH:
            return False
        # The splitter gives frames with equal heads the same headers object.
        if frame.headers is not self._last_headers:
            if batch_key(frame) != self.key:
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
        """All destinations that it names: its own, and those of reply-to headers."""
        replies = [column.header for column in self.key.columns if column.name == "reply_to"]
        first = self._run if self._run is not None else self._frames[0]
        named = {first.headers[header] for header in replies}
        named.update(frame.headers[header] for header in replies for frame in self._frames)
        return {self.key.destination, *named}

    def payload(self, context: SendContext) -> Payload:
        """Raises StompError."""
        if self._run is not None:
            return _encode_run(self._run, self.key.columns, context)
        frames, columns = self._frames, self.key.columns
        if not columns:
            return encode([frame.body for frame in frames])
        if len(frames) == 1:
            return _single(frames[0], columns, context)
        bodies = pa.array([frame.body for frame in frames], BINARY)
        values = (
            [column.read(frame.headers[column.header], context) for frame in frames] for column in columns
        )  # fmt: skip
        return _batch(bodies, columns, [_array(texts, column) for texts, column in zip(values, columns, strict=True)])


def _single(frame: StompFrame, columns: Sequence[HeaderColumn], context: SendContext) -> Payload:
    names: list[str] = []
    letters, values = "", list[Value]()
    for header, name, letter, read in columns:
        value = read(frame.headers[header], context)
        if value is not None:
            names.append(name)
            letters += letter
            values.append(value)
    return encode_single(frame.body, tuple(names), letters, values)


def _encode_run(run: FrameRun, columns: Sequence[HeaderColumn], context: SendContext) -> Payload:
    rows, bodies = run.rows, np.ascontiguousarray(run.bodies())
    if not columns:
        return encode_equal(bodies.reshape(-1), rows)
    arrays = []
    for column in columns:
        header, read = column.header, column.read
        if header in run.varying:
            arrays.append(_array([read(text, context) for text in run.values(header)], column))
        else:
            arrays.append(_array([read(run.headers[header], context)] * rows, column))
    offsets = pa.py_buffer(equal_offsets(rows, bodies.shape[1]))
    return _batch(pa.Array.from_buffers(BINARY, rows, [None, offsets, pa.py_buffer(bodies)]), columns, arrays)


def _array(values: Sequence[Value | None], column: HeaderColumn) -> pa.Array:
    return pa.array(values, _ARROW[column.letter])


def _batch(bodies: pa.Array, columns: Sequence[HeaderColumn], arrays: Sequence[pa.Array]) -> Payload:
    """Columns without any value are left out."""
    named = {column.name: array for column, array in zip(columns, arrays, strict=True)}
    return encode_columns(bodies, {name: array for name, array in named.items() if array.null_count < len(array)})
