"""Frames and protocol headers of AMQP 1.0."""

import struct
from typing import Final, NamedTuple

from mqlab.errors import MqlabError

AMQP_HEADER: Final = b"AMQP\x00\x01\x00\x00"
SASL_HEADER: Final = b"AMQP\x03\x01\x00\x00"
HEADER_BYTES: Final = 8
AMQP_FRAME: Final = 0
SASL_FRAME: Final = 1
# The size that each peer must accept.
MIN_MAX_FRAME_SIZE: Final = 512
FRAME_HEADER: Final = struct.Struct(">IBBH")
EMPTY_FRAME: Final = FRAME_HEADER.pack(8, 2, AMQP_FRAME, 0)

_unpack: Final = FRAME_HEADER.unpack_from


class AmqpFramingError(MqlabError):
    """The peer sent bytes that are not frames, or frames that are too long."""


class AmqpFrame(NamedTuple):
    kind: int
    channel: int
    # The performative, and the payload of a transfer; empty in a heartbeat.
    body: bytes


def frame(channel: int, body: bytes, kind: int = AMQP_FRAME) -> bytes:
    return FRAME_HEADER.pack(len(body) + 8, 2, kind, channel) + body


class AmqpFrameDecoder:
    """Bytes in, frames out. The protocol headers at the beginning of a connection are read with `take_header`."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self._data = b""

    @property
    def unfinished(self) -> int:
        return len(self._data)

    def feed(self, data: bytes) -> None:
        self._data = self._data + data if self._data else data

    def take_header(self) -> bytes | None:
        """The next protocol header, or None while it is incomplete."""
        if len(self._data) < HEADER_BYTES:
            return None
        header, self._data = self._data[:HEADER_BYTES], self._data[HEADER_BYTES:]
        return header

    def take_frame(self) -> AmqpFrame | None:
        """One frame. Raises AmqpFramingError."""
        frames = self.take_frames(1)
        return frames[0] if frames else None

    def take_frames(self, most: int = 1 << 30) -> list[AmqpFrame]:
        """The complete frames, at most so many. Raises AmqpFramingError, after it has returned earlier frames."""
        data, at, frames, limit = self._data, 0, list[AmqpFrame](), self.limit
        size_of_data = len(data)
        while at + 8 <= size_of_data and len(frames) < most:
            size, offset, kind, channel = _unpack(data, at)
            begin = 4 * offset
            if size > limit or not 8 <= begin <= size:
                if not frames:
                    raise AmqpFramingError(f"a frame of {size} bytes with its data at {begin}; the limit is {limit}")
                break
            if at + size > size_of_data:
                break
            frames.append(AmqpFrame(kind, channel, data[at + begin : at + size]))
            at += size
        if at:
            self._data = data[at:]
        return frames
