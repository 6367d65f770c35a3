"""Decodes bytes into packets and messages.

Consecutive messages that differ only in bodies and packet ids, the usual case at high rates, are decoded at once.
"""

from collections.abc import Collection
from typing import Final, NamedTuple

from mqlab.wire.fixed_rows import as_table, count_equal_rows
from mqlab.wire.mqtt.packets import (
    CORRELATION_DATA,
    FROM_BROKER,
    PUBACK,
    PUBLISH,
    RESPONSE_TOPIC,
    MqttError,
    Version,
    read_properties,
    read_varint,
)

# The limit for a packet.
MAX_PACKET: Final = 128 * 1024 * 1024
# The search for a run grows in steps, so that a short run is cheap.
_FIRST_STEP: Final = 16
_GROWTH: Final = 8
_PUBACK_SIZE: Final = 4


class PublishBatch(NamedTuple):
    """Consecutive messages with bodies of one size, joined in `data`."""

    rows: int
    redelivered: bool
    data: bytes
    # Packet ids, two bytes each, with QoS 1.
    ids: bytes
    # The encoded properties, equal for all rows.
    properties: bytes


class PubackBatch(NamedTuple):
    """Acknowledgements of so many messages; `reason` is the highest reason code."""

    rows: int
    reason: int


class Packet(NamedTuple):
    kind: int
    # The packet without its first byte and length.
    rest: bytes


Incoming = PublishBatch | PubackBatch | Packet


class MqttDecoder:
    """Bytes in, packets out, in order. `kinds`: the packet types that the peer may send."""

    def __init__(self, version: Version, max_packet: int = MAX_PACKET, kinds: Collection[int] = FROM_BROKER) -> None:
        self._version = version
        self._max_packet = max_packet
        self._kinds = kinds
        self._waiting: list[bytes] = []
        self._size = 0
        # The next packet is incomplete before so many bytes: a long packet is not copied with every read.
        self._needed = 2

    def feed(self, data: bytes) -> list[Incoming]:
        """Raises MqttError, after which the decoder is not usable."""
        self._waiting.append(data)
        self._size += len(data)
        if self._size < self._needed:
            return []
        buffer = self._waiting[0] if len(self._waiting) == 1 else b"".join(self._waiting)
        decoded: list[Incoming] = []
        at = self._split(buffer, decoded)
        rest = buffer[at:]
        self._waiting, self._size = [rest] if rest else [], len(rest)
        return decoded

    def _split(self, buffer: bytes, decoded: list[Incoming]) -> int:
        """Returns the offset of the first incomplete packet."""
        at, end = 0, len(buffer)
        self._needed = 2
        while end - at >= 2:
            size, begin = read_varint(buffer, at + 1)
            kind = buffer[at] >> 4
            if kind not in self._kinds:
                raise MqttError(f"an unexpected packet of type {kind}")
            if size > self._max_packet:
                raise MqttError(f"a packet of {size:,} bytes, where {self._max_packet:,} are the most")
            if size < 0 or begin + size > end:
                self._needed = 2 if size < 0 else begin - at + size
                break
            if kind == PUBLISH:
                at = self._published(buffer, at, begin, begin + size, decoded)
            elif kind == PUBACK:
                at = _acknowledged(buffer, at, begin, size, decoded)
            else:
                decoded.append(Packet(kind, buffer[begin : begin + size]))
                at = begin + size
        return at

    def _published(self, buffer: bytes, at: int, begin: int, end: int, decoded: list[Incoming]) -> int:
        """Append this message and the equal ones that follow. Returns the offset after them."""
        id_at, body_at, properties = self._layout(buffer, at, begin, end)
        has_id = buffer[at] & 6 != 0
        redelivered = buffer[at] & 8 != 0
        ids = buffer[id_at : id_at + 2] if has_id else b""
        decoded.append(PublishBatch(1, redelivered, buffer[body_at:end], ids, properties))
        length, id_from, body_from = end - at, id_at - at, body_at - at
        id_to = id_from + 2 if has_id else id_from
        parts = ((0, id_from), (id_to, body_from))
        step = _FIRST_STEP
        while buffer[end : end + id_from] == buffer[at : at + id_from]:
            rows = min(step, (len(buffer) - end) // length)
            # Compared with the row before, which equals the first.
            count = count_equal_rows(as_table(buffer, end - length, rows + 1, length), parts) - 1
            if count:
                table = as_table(buffer, end, count, length)
                ids = table[:, id_from:id_to].tobytes()
                decoded.append(PublishBatch(count, redelivered, table[:, body_from:].tobytes(), ids, properties))
                end += count * length
            if count < step:
                break
            step *= _GROWTH
        return end

    def _layout(self, buffer: bytes, at: int, begin: int, end: int) -> tuple[int, int, bytes]:
        """The offsets of packet id and body of a message, and its properties."""
        if buffer[at] & 6 > 2:
            raise MqttError("a message with QoS 2, which was not asked for")
        body_at = id_at = begin + 2 + int.from_bytes(buffer[begin : begin + 2], "big")
        if buffer[at] & 6:
            body_at += 2
        properties = b""
        if self._version == 5:
            size, properties_at = read_varint(buffer, body_at)
            body_at = properties_at + size if size >= 0 else end + 1
            properties = buffer[properties_at:body_at]
        if body_at > end:
            raise MqttError("a message that ends before its body")
        return id_at, body_at, properties


class MqttReplyProperties(NamedTuple):
    """The properties of a message that tie a reply to its request."""

    correlation: bytes
    response_topic: str


def reply_properties(properties: bytes) -> MqttReplyProperties:
    """Raises MqttError."""
    values = read_properties(properties)
    return MqttReplyProperties(
        values.get(CORRELATION_DATA, b""), values.get(RESPONSE_TOPIC, b"").decode(errors="replace")
    )


def _acknowledged(buffer: bytes, at: int, begin: int, size: int, decoded: list[Incoming]) -> int:
    """Append this acknowledgement and the equal ones that follow. Returns the offset after them."""
    if size < 2:
        raise MqttError("an acknowledgement without an id")
    if size > 2:
        decoded.append(PubackBatch(1, buffer[begin + 2]))
        return begin + size
    rows = (len(buffer) - at) // _PUBACK_SIZE
    if rows > 1 and buffer[at + 4 : at + 6] == buffer[at : at + 2]:
        count = count_equal_rows(as_table(buffer, at, rows, _PUBACK_SIZE), ((0, 2),))
    else:
        count = 1
    decoded.append(PubackBatch(count, 0))
    return at + count * _PUBACK_SIZE
