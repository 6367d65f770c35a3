"""What a client reads, as packets and messages. Messages that follow each other and differ only in their bodies and
ids, the usual case at high rates, are taken apart all at once."""

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

# As long as a packet may be; a broker that announces a longer one is not listened to.
MAX_PACKET: Final = 128 * 1024 * 1024
# A run is looked for in steps that grow, so that a short one does not cost as much as a long one.
_FIRST_STEP: Final = 16
_GROWTH: Final = 8
_PUBACK_SIZE: Final = 4


class PublishBatch(NamedTuple):
    """Consecutive messages with bodies of one size, which lie one after the other in `data`."""

    rows: int
    redelivered: bool
    data: bytes
    # Of the packets, two bytes each, if they are to be acknowledged.
    ids: bytes
    # As they came; those of all rows are the same.
    properties: bytes


class PubackBatch(NamedTuple):
    """So many messages are; `reason` is the highest of theirs."""

    rows: int
    reason: int


class Packet(NamedTuple):
    kind: int
    # Without its first byte and length.
    rest: bytes


Incoming = PublishBatch | PubackBatch | Packet


class MqttDecoder:
    """Bytes in, packets out, in their order. `kinds`: those that the other side may send."""

    def __init__(self, version: Version, max_packet: int = MAX_PACKET, kinds: Collection[int] = FROM_BROKER) -> None:
        self._version = version
        self._max_packet = max_packet
        self._kinds = kinds
        self._waiting: list[bytes] = []
        self._size = 0
        # Bytes that must be there before it is worth looking at them: a long packet is not copied with every read.
        self._needed = 2

    def feed(self, data: bytes) -> list[Incoming]:
        """Raises MqttError; after that the connection cannot be used."""
        self._waiting.append(data)
        self._size += len(data)
        if self._size < self._needed:
            return []
        buffer = self._waiting[0] if len(self._waiting) == 1 else b"".join(self._waiting)
        found: list[Incoming] = []
        at = self._split(buffer, found)
        rest = buffer[at:]
        self._waiting, self._size = [rest] if rest else [], len(rest)
        return found

    def _split(self, buffer: bytes, found: list[Incoming]) -> int:
        """Returns where the first packet that is not whole begins."""
        at, end = 0, len(buffer)
        self._needed = 2
        while end - at >= 2:
            size, begin = read_varint(buffer, at + 1)
            kind = buffer[at] >> 4
            if kind not in self._kinds:
                raise MqttError(f"a packet of type {kind}, which does not belong here")
            if size > self._max_packet:
                raise MqttError(f"a packet of {size:,} bytes, where {self._max_packet:,} are the most")
            if size < 0 or begin + size > end:
                self._needed = 2 if size < 0 else begin - at + size
                break
            if kind == PUBLISH:
                at = self._published(buffer, at, begin, begin + size, found)
            elif kind == PUBACK:
                at = _acknowledged(buffer, at, begin, size, found)
            else:
                found.append(Packet(kind, buffer[begin : begin + size]))
                at = begin + size
        return at

    def _published(self, buffer: bytes, at: int, begin: int, end: int, found: list[Incoming]) -> int:
        """Appends this message and those like it that follow; returns where they end."""
        id_at, body_at, properties = self._laid_out(buffer, at, begin, end)
        has_id = buffer[at] & 6 != 0
        redelivered = buffer[at] & 8 != 0
        ids = buffer[id_at : id_at + 2] if has_id else b""
        found.append(PublishBatch(1, redelivered, buffer[body_at:end], ids, properties))
        length, id_from, body_from = end - at, id_at - at, body_at - at
        id_to = id_from + 2 if has_id else id_from
        parts = ((0, id_from), (id_to, body_from))
        step = _FIRST_STEP
        while buffer[end : end + id_from] == buffer[at : at + id_from]:
            rows = min(step, (len(buffer) - end) // length)
            # Compared with the row before, which is like the first.
            alike = count_equal_rows(as_table(buffer, end - length, rows + 1, length), parts) - 1
            if alike:
                table = as_table(buffer, end, alike, length)
                ids = table[:, id_from:id_to].tobytes()
                found.append(PublishBatch(alike, redelivered, table[:, body_from:].tobytes(), ids, properties))
                end += alike * length
            if alike < step:
                break
            step *= _GROWTH
        return end

    def _laid_out(self, buffer: bytes, at: int, begin: int, end: int) -> tuple[int, int, bytes]:
        """Where the id and the body of a message begin, and its properties."""
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
    """What a message says of replies."""

    correlation: bytes
    response_topic: str


def reply_properties(properties: bytes) -> MqttReplyProperties:
    """Raises MqttError."""
    found = read_properties(properties)
    return MqttReplyProperties(
        found.get(CORRELATION_DATA, b""), found.get(RESPONSE_TOPIC, b"").decode(errors="replace")
    )


def _acknowledged(buffer: bytes, at: int, begin: int, size: int, found: list[Incoming]) -> int:
    """Appends this acknowledgement and those like it that follow; returns where they end."""
    if size < 2:
        raise MqttError("an acknowledgement without an id")
    if size > 2:
        found.append(PubackBatch(1, buffer[begin + 2]))
        return begin + size
    rows = (len(buffer) - at) // _PUBACK_SIZE
    if rows > 1 and buffer[at + 4 : at + 6] == buffer[at : at + 2]:
        alike = count_equal_rows(as_table(buffer, at, rows, _PUBACK_SIZE), ((0, 2),))
    else:
        alike = 1
    found.append(PubackBatch(alike, 0))
    return at + alike * _PUBACK_SIZE
