"""Encodes messages as frames (method, content header, body), and whole batches at once."""

import struct
from typing import Final, NamedTuple

import numpy as np

from mqlab.wire.amqp.methods import BODY, FRAME, FRAME_EXTRA, HEADER, METHOD, frame, method_payload
from mqlab.wire.amqp.values import AmqpError, Table, ValueReader, short, table
from mqlab.wire.fixed_rows import Table as Rows

Row = np.ndarray[tuple[int], np.dtype[np.uint8]]

BASIC: Final = 60
# class, weight, size of the body, property flags.
CONTENT: Final = struct.Struct(">HHQH")
_HEADERS: Final = 1 << 13
_PERSISTENT: Final = 1 << 12
_PRIORITY: Final = 1 << 11
_CORRELATION_ID: Final = 1 << 10
_REPLY_TO: Final = 1 << 9
_EXPIRATION: Final = 1 << 8
# The types of the properties, from the highest bit down: short string, table, or the bytes of a number.
_PROPERTIES: Final = ("s", "s", "T", 1, 1, "s", "s", "s", "s", 8, "s", "s", "s", "s")


class AmqpPublisher:
    """Encodes messages for one channel, exchange and routing key. Raises AmqpError for names that are too long."""

    def __init__(self, channel: int, exchange: str, key: str, *, persistent: bool, frame_max: int) -> None:
        self._channel = channel
        self._method = frame(METHOD, channel, method_payload("basic.publish", 0, exchange, key, False, False))
        self._flags = _PERSISTENT if persistent else 0
        self._mode = b"\x02" if persistent else b""
        self._max_body_frame = frame_max - FRAME_EXTRA if frame_max else 1 << 31
        # For one size of bodies: an encoded message, and the places of the parts of its body.
        self._template: tuple[int, Row, list[tuple[int, int, int]]] = (-1, np.empty(0, dtype=np.uint8), [])

    def row_size(self, size: int) -> int:
        """The bytes of an encoded message with a body of this size."""
        return len(self._row(size)[0])

    def batch(self, bodies: Rows) -> bytes:
        """Encode a message for each row."""
        rows, size = bodies.shape
        template, places = self._row(size)
        frames = np.empty((rows, len(template)), dtype=np.uint8)
        frames[:] = template
        for at, begin, end in places:
            frames[:, at : at + end - begin] = bodies[:, begin:end]
        return frames.tobytes()

    def message(
        self,
        body: bytes,
        correlation_id: str = "",
        reply_to: str = "",
        *,
        headers: Table | None = None,
        priority: int | None = None,
        expires_ms: int = 0,
    ) -> bytes:
        """Encode a single message, optionally with the properties of a request or a reply, and headers."""
        flags, properties = self._flags, self._mode
        if headers:
            flags |= _HEADERS
            properties = table(headers) + properties
        if priority is not None:
            flags |= _PRIORITY
            properties += bytes((priority,))
        if correlation_id:
            flags |= _CORRELATION_ID
            properties += short(correlation_id)
        if reply_to:
            flags |= _REPLY_TO
            properties += short(reply_to)
        if expires_ms:
            flags |= _EXPIRATION
            properties += short(str(expires_ms))
        size = len(body)
        head = CONTENT.pack(BASIC, 0, size, flags) + properties
        parts = [self._method, FRAME.pack(HEADER, self._channel, len(head)), head, b"\xce"]
        for begin in range(0, size, self._max_body_frame):
            piece = body[begin : begin + self._max_body_frame]
            parts += (FRAME.pack(BODY, self._channel, len(piece)), piece, b"\xce")
        return b"".join(parts)

    def _row(self, size: int) -> tuple[Row, list[tuple[int, int, int]]]:
        """An encoded message with a blank body, and the places (offset, begin, end) of the parts of the body."""
        if self._template[0] != size:
            row = np.frombuffer(self.message(bytes(size)), dtype=np.uint8)
            pieces = [
                (begin, min(begin + self._max_body_frame, size)) for begin in range(0, size, self._max_body_frame)
            ]
            at = len(row) - size - len(pieces) * FRAME_EXTRA
            places = [
                (at + begin + number * FRAME_EXTRA + FRAME.size, begin, end)
                for number, (begin, end) in enumerate(pieces)
            ]
            self._template = (size, row, places)
        return self._template[1:]


class AmqpReplyProperties(NamedTuple):
    """The properties of a message that tie a reply to its request."""

    correlation_id: str
    reply_to: str


def reply_properties(properties: bytes) -> AmqpReplyProperties:
    """Decode them from the encoded properties of a content header, flags first. Raises AmqpError."""
    reader = ValueReader(properties)
    flags = reader.number(2)
    if flags & 1:
        raise AmqpError("a header with unknown properties")
    values: dict[int, str] = {}
    for number, kind in enumerate(_PROPERTIES):
        bit = 1 << (15 - number)
        if not flags & bit:
            continue
        if kind == "s":
            values[bit] = reader.short()
        elif kind == "T":
            reader.table()
        else:
            assert isinstance(kind, int)
            reader.number(kind)
    return AmqpReplyProperties(values.get(_CORRELATION_ID, ""), values.get(_REPLY_TO, ""))
