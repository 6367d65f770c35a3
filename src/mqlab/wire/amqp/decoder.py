"""Decodes the broker's bytes into methods and messages.

Consecutive messages that differ only in bodies and delivery tags, the usual case at high rates, are decoded at once.
"""

from dataclasses import dataclass, field
from functools import lru_cache
from typing import Final, NamedTuple

import numpy as np

from mqlab.wire.amqp.content import BASIC, CONTENT
from mqlab.wire.amqp.methods import (
    BODY,
    END,
    FRAME,
    FRAME_EXTRA,
    HEADER,
    HEARTBEAT,
    METHOD,
    Method,
    read_method,
)
from mqlab.wire.amqp.values import AmqpError
from mqlab.wire.fixed_rows import as_table, count_equal_rows

# The limit of RabbitMQ.
MAX_BODY: Final = 128 * 1024 * 1024
# The frame size before a size is negotiated.
MIN_FRAME: Final = 4096

_DELIVER: Final = bytes((0, BASIC, 0, 60))
# The search for a run grows in steps, so that a short run is cheap.
_FIRST_STEP: Final = 16
_GROWTH: Final = 8


class DeliveryBatch(NamedTuple):
    """Consecutive messages of one channel with bodies of one size, joined in `data`."""

    channel: int
    last_tag: int
    rows: int
    redelivered: bool
    data: bytes
    # The encoded properties, flags first; equal for all rows.
    properties: bytes


@dataclass
class _Partial:
    """An incomplete message."""

    method: Method
    properties: bytes = b""
    missing: int = -1
    parts: list[bytes] = field(default_factory=list)


class _SingleDelivery(NamedTuple):
    """The first message of a run: the offsets of its tag, body and end."""

    channel: int
    tag_at: int
    properties: bytes
    body_at: int
    size: int
    length: int


class AmqpDecoder:
    """Bytes in, methods and messages out, in order. Heartbeats are dropped."""

    def __init__(self, max_body: int = MAX_BODY) -> None:
        # The negotiated size, once it is known.
        self.frame_max = 128 * 1024
        self._max_body = max_body
        self._rest = b""
        self._partial: dict[int, _Partial] = {}
        self._announced = 0

    def feed(self, data: bytes) -> list[Method | DeliveryBatch]:
        """Raises AmqpError, after which the decoder is not usable."""
        buffer = self._rest + data if self._rest else data
        decoded: list[Method | DeliveryBatch] = []
        at, end = 0, len(buffer)
        while end - at >= FRAME_EXTRA:
            kind, channel, size = FRAME.unpack_from(buffer, at)
            if kind not in (METHOD, HEADER, BODY, HEARTBEAT) or size > max(self.frame_max, MIN_FRAME):
                raise AmqpError(f"a frame of type {kind} with {size:,} bytes")
            if at + size + FRAME_EXTRA > end:
                break
            if kind == METHOD and buffer[at + 7 : at + 11] == _DELIVER and channel not in self._partial:
                single = _find_single(buffer, at, channel, size)
                if single is not None:
                    at = _append_run(buffer, at, single, decoded)
                    continue
            payload = buffer[at + FRAME.size : at + FRAME.size + size]
            at += size + FRAME_EXTRA
            if buffer[at - 1] != END:
                raise AmqpError("a frame does not end where it should")
            self._take(kind, channel, payload, decoded)
        self._rest = buffer[at:]
        return decoded

    def _take(self, kind: int, channel: int, payload: bytes, decoded: list[Method | DeliveryBatch]) -> None:
        partial = self._partial.get(channel)
        if kind == HEARTBEAT:
            return
        if kind == METHOD:
            if partial is not None:
                raise AmqpError("a method where the rest of a message should come")
            method = read_method(channel, payload)
            if method.name in ("basic.deliver", "basic.return"):
                self._partial[channel] = _Partial(method)
            else:
                decoded.append(method)
            return
        if partial is None or (kind == HEADER) != (partial.missing < 0):
            raise AmqpError("a part of a message where none should come")
        if kind == HEADER:
            self._announce(partial, payload)
        else:
            if len(payload) > partial.missing:
                raise AmqpError("a body longer than its header says")
            partial.missing -= len(payload)
            partial.parts.append(payload)
        if partial.missing == 0:
            self._finish(channel, partial, decoded)

    def _announce(self, partial: _Partial, payload: bytes) -> None:
        if len(payload) < CONTENT.size:
            raise AmqpError("a header that is too short")
        _, _, partial.missing, _ = CONTENT.unpack_from(payload)
        partial.properties = payload[CONTENT.size - 2 :]
        self._announced += partial.missing
        if self._announced > self._max_body:
            raise AmqpError(f"messages of {self._announced:,} bytes, where {self._max_body:,} are the most")

    def _finish(self, channel: int, partial: _Partial, decoded: list[Method | DeliveryBatch]) -> None:
        del self._partial[channel]
        data = b"".join(partial.parts)
        self._announced -= len(data)
        if partial.method.name == "basic.return":
            decoded.append(partial.method)
            return
        _, tag, redelivered, _, _ = partial.method.arguments
        decoded.append(DeliveryBatch(channel, tag, 1, redelivered, data, partial.properties))


def _find_single(buffer: bytes, at: int, channel: int, size: int) -> _SingleDelivery | None:
    """The message that begins here, if it is complete, in three frames or (without a body) two."""
    header_at, end = at + size + FRAME_EXTRA, len(buffer)
    # basic.deliver has 4 + 1 + 8 + 1 + 1 + 1 bytes and its names; the content header has CONTENT.size bytes.
    if size < 16 or end < header_at + FRAME_EXTRA + CONTENT.size:
        return None
    kind, header_channel, header_size = FRAME.unpack_from(buffer, header_at)
    _, _, body_size, _ = CONTENT.unpack_from(buffer, header_at + FRAME.size)
    body_frame_at = header_at + header_size + FRAME_EXTRA
    tag_at = FRAME.size + 5 + buffer[at + FRAME.size + 4]
    if (kind, header_channel) != (HEADER, channel) or header_size < CONTENT.size or tag_at + 11 > FRAME.size + size:
        return None
    length = body_frame_at - at
    body_at = length
    if body_size:
        body_at += FRAME.size
        length = body_at + body_size + 1
        if at + length > end or buffer[body_frame_at : body_frame_at + FRAME.size] != FRAME.pack(
            BODY, channel, min(body_size, 0xFFFFFFFF)
        ):
            return None
    if at + length > end or not buffer[header_at - 1] == buffer[body_frame_at - 1] == buffer[at + length - 1] == END:
        return None
    properties = buffer[header_at + FRAME.size + CONTENT.size - 2 : body_frame_at - 1]
    return _SingleDelivery(channel, tag_at, properties, body_at, body_size, length)


def _append_run(buffer: bytes, at: int, single: _SingleDelivery, decoded: list[Method | DeliveryBatch]) -> int:
    """Append this message and the equal ones that follow. Returns the offset after them."""
    channel, tag_at, properties, body_at, size, length = single
    tag = int.from_bytes(buffer[at + tag_at : at + tag_at + 8], "big")
    redelivered = bool(buffer[at + tag_at + 8] & 1)
    body = buffer[at + body_at : at + body_at + size]
    decoded.append(DeliveryBatch(channel, tag, 1, redelivered, body, properties))
    fixed = buffer[at : at + tag_at]
    at += length
    step = _FIRST_STEP
    while buffer[at : at + tag_at] == fixed:
        rows = min(step, (len(buffer) - at) // length)
        # Compared with the row before, which equals the first.
        count = _count_following(buffer, at - length, rows, tag, single) if rows else 0
        if count:
            table = as_table(buffer, at, count, length)
            tag += count
            bodies = table[:, body_at : body_at + size].tobytes()
            decoded.append(DeliveryBatch(channel, tag, count, redelivered, bodies, properties))
            at += count * length
        if count < step:
            break
        step *= _GROWTH
    return at


def _count_following(buffer: bytes, at: int, rows: int, tag: int, single: _SingleDelivery) -> int:
    """How many rows after the one at `at` equal it and have consecutive tags."""
    _, tag_at, _, body_at, size, length = single
    table = as_table(buffer, at, rows + 1, length)
    equal = count_equal_rows(table, ((0, tag_at), (tag_at + 8, body_at), (body_at + size, length))) - 1
    tags = np.ascontiguousarray(table[1 : equal + 1, tag_at : tag_at + 8]).view(">u8").reshape(-1)
    consecutive: np.ndarray[tuple[int], np.dtype[np.bool_]] = tags == _steps(equal) + np.uint64(tag)
    return equal if consecutive.all() else int(consecutive.argmin())


@lru_cache(maxsize=64)
def _steps(rows: int) -> np.ndarray[tuple[int], np.dtype[np.uint64]]:
    return np.arange(1, rows + 1, dtype=np.uint64)
