"""Messages as frames: the method, the header with its properties, and the body, whole batches at once."""

import struct
from typing import Any, Final, NamedTuple

import numpy as np

from mqlab.wire.amqp.methods import BODY, FRAME, FRAME_EXTRA, HEADER, METHOD, frame, method_payload
from mqlab.wire.amqp.values import AmqpError, ValueReader, short

Matrix = np.ndarray[tuple[int, int], np.dtype[np.uint8]]

BASIC: Final = 60
# class, weight, size of the body, which properties there are.
CONTENT: Final = struct.Struct(">HHQH")
_PERSISTENT: Final = 1 << 12
_CORRELATION: Final = 1 << 10
_REPLY: Final = 1 << 9
# The properties in their order, from the highest bit down: a short string, a table, or a number of so many bytes.
_PROPERTIES: Final = ("s", "s", "T", 1, 1, "s", "s", "s", "s", 8, "s", "s", "s", "s")


class AmqpPublisher:
    """Publishes on one channel to one exchange and routing key. Raises AmqpError for names that are too long."""

    def __init__(self, channel: int, exchange: str, key: str, *, persistent: bool, frame_max: int) -> None:
        self._channel = channel
        self._method = frame(METHOD, channel, method_payload("basic.publish", 0, exchange, key, False, False))
        self._flags = _PERSISTENT if persistent else 0
        self._mode = b"\x02" if persistent else b""
        self._most = frame_max - FRAME_EXTRA if frame_max else 1 << 31
        # What stands before the bodies of a size, and between their frames.
        self._template: tuple[int, Any, list[tuple[int, int, int]]] = (-1, None, [])

    def row_size(self, size: int) -> int:
        """Bytes of one message with a body of this size."""
        return len(self._row(size)[0])

    def batch(self, bodies: Matrix) -> bytes:
        """One buffer for all rows."""
        rows, size = bodies.shape
        template, places = self._row(size)
        frames = np.empty((rows, len(template)), dtype=np.uint8)
        frames[:] = template
        for at, begin, end in places:
            frames[:, at : at + end - begin] = bodies[:, begin:end]
        return frames.tobytes()

    def message(self, body: bytes, correlation_id: str = "", reply_to: str = "") -> bytes:
        """A message alone, with what makes it a request or a reply."""
        flags, properties = self._flags, self._mode
        if correlation_id:
            flags |= _CORRELATION
            properties += short(correlation_id)
        if reply_to:
            flags |= _REPLY
            properties += short(reply_to)
        size = len(body)
        head = CONTENT.pack(BASIC, 0, size, flags) + properties
        parts = [self._method, FRAME.pack(HEADER, self._channel, len(head)), head, b"\xce"]
        for begin in range(0, size, self._most):
            piece = body[begin : begin + self._most]
            parts += (FRAME.pack(BODY, self._channel, len(piece)), piece, b"\xce")
        return b"".join(parts)

    def _row(self, size: int) -> tuple[Any, list[tuple[int, int, int]]]:
        """A message with a blank body of this size, and where which part of the body goes."""
        if self._template[0] != size:
            row = np.frombuffer(self.message(bytes(size)), dtype=np.uint8)
            pieces = [(begin, min(begin + self._most, size)) for begin in range(0, size, self._most)]
            at = len(row) - size - len(pieces) * FRAME_EXTRA
            places = [
                (at + begin + number * FRAME_EXTRA + FRAME.size, begin, end)
                for number, (begin, end) in enumerate(pieces)
            ]
            self._template = (size, row, places)
        return self._template[1:]


class AmqpReplyProperties(NamedTuple):
    """What a message says of replies."""

    correlation_id: str
    reply_to: str


def reply_properties(properties: bytes) -> AmqpReplyProperties:
    """`properties`: as they stand in the header, their flags first. Raises AmqpError."""
    reader = ValueReader(properties)
    flags = reader.number(2)
    if flags & 1:
        raise AmqpError("a header with more properties than there are")
    found: dict[int, str] = {}
    for number, kind in enumerate(_PROPERTIES):
        bit = 1 << (15 - number)
        if not flags & bit:
            continue
        if kind == "s":
            found[bit] = reader.short()
        elif kind == "T":
            reader.table()
        else:
            assert isinstance(kind, int)
            reader.number(kind)
    return AmqpReplyProperties(found.get(_CORRELATION, ""), found.get(_REPLY, ""))
