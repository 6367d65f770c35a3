"""Decodes the packets of a client, for a broker. Equal messages that follow each other are decoded at once."""

from collections.abc import Callable, Iterator, Mapping
from typing import Final, Literal, NamedTuple

import numpy as np

from mqlab.wire.fixed_rows import as_table, count_equal_rows
from mqlab.wire.mqtt import packets
from mqlab.wire.mqtt.packets import Version, read_varint
from mqlab.wire.mqtt.properties import (
    IN_ACKNOWLEDGEMENT,
    IN_CONNECT,
    IN_DISCONNECT,
    IN_SUBSCRIBE,
    IN_UNSUBSCRIBE,
    IN_WILL,
    Properties,
    malformed,
    read_binary,
    read_properties_at,
    read_string,
)
from mqlab.wire.mqtt.reasons import MqttViolationError, Reason

# The search for a run of equal packets grows in steps, so that a short run is cheap.
_FIRST_STEP: Final = 16
_GROWTH: Final = 8
_SHORT_ACKNOWLEDGEMENT: Final = 4
# The flags that the first byte of a packet must have. PUBLISH has flags of its own.
_FLAGS: Final[Mapping[int, int]] = {
    packets.CONNECT: 0, packets.PUBACK: 0, packets.PUBREC: 0, packets.PUBREL: 2, packets.PUBCOMP: 0,
    packets.SUBSCRIBE: 2, packets.UNSUBSCRIBE: 2, packets.PINGREQ: 0, packets.DISCONNECT: 0, packets.AUTH: 0,
}  # fmt: skip
_ACKNOWLEDGEMENTS: Final = frozenset((packets.PUBACK, packets.PUBREC, packets.PUBREL, packets.PUBCOMP))
_NAMES: Final = {"MQTT": (4, 5), "MQIsdp": (3,)}
_RESERVED_OPTIONS: Final = 0xC0

DUPLICATE: Final = 8
RETAIN: Final = 1


class WillFields(NamedTuple):
    topic: str
    body: bytes
    qos: int
    retain: bool
    properties: Properties


class ConnectPacket(NamedTuple):
    version: Version
    client_id: str
    clean_start: bool
    keep_alive: int
    user: str | None
    password: bytes | None
    will: WillFields | None
    properties: Properties


class PublishRun(NamedTuple):
    """Messages with bodies of one size, joined in `bodies`. `flags`: retain, and the QoS shifted by one."""

    flags: int
    redelivered: bool
    topic: bytes
    # Encoded.
    properties: bytes
    ids: list[int]
    rows: int
    bodies: bytes


class AcknowledgementRun(NamedTuple):
    """PUBACK, PUBREC, PUBREL or PUBCOMP packets with one reason code."""

    kind: int
    ids: list[int]
    reason: int


class Filter(NamedTuple):
    topic: str
    qos: int
    no_local: bool
    retain_as_published: bool
    retain_handling: int


class SubscribePacket(NamedTuple):
    packet_id: int
    properties: Properties
    filters: list[Filter]


class UnsubscribePacket(NamedTuple):
    packet_id: int
    filters: list[str]


class PingPacket(NamedTuple):
    kind: Literal[12] = 12


class DisconnectPacket(NamedTuple):
    reason: int
    properties: Properties


ClientPacket = (
    ConnectPacket | PublishRun | AcknowledgementRun | SubscribePacket | UnsubscribePacket | PingPacket
    | DisconnectPacket
)  # fmt: skip


class ClientPacketDecoder:
    """Bytes in, packets out, in order. The first packet must be CONNECT, which sets the version."""

    def __init__(self, max_packet: int) -> None:
        self.max_packet = max_packet
        self.version: Version | None = None
        self._waiting: list[bytes] = []
        self._size = 0
        # The next packet is incomplete before so many bytes: a long packet is not copied with every read.
        self._needed = 2
        self._decoders: dict[int, Callable[[bytes], ClientPacket]] = {
            packets.SUBSCRIBE: self._subscribe, packets.UNSUBSCRIBE: self._unsubscribe,
            packets.PINGREQ: self._ping, packets.DISCONNECT: self._disconnect,
        }  # fmt: skip

    @property
    def unfinished(self) -> int:
        return self._size

    def feed(self, data: bytes) -> Iterator[ClientPacket]:
        """Raises MqttError, after which the decoder is not usable."""
        self._waiting.append(data)
        self._size += len(data)
        if self._size < self._needed:
            return
        buffer = self._waiting[0] if len(self._waiting) == 1 else b"".join(self._waiting)
        self._waiting, self._size, self._needed = [], 0, 2
        at, end = 0, len(buffer)
        while end - at >= 2:
            size, begin = read_varint(buffer, at + 1)
            self._check_head(buffer[at], size)
            if size < 0 or begin + size > end:
                self._needed = 2 if size < 0 else begin - at + size
                break
            kind = buffer[at] >> 4
            if kind == packets.PUBLISH:
                run, at = self._published(buffer, at, begin, begin + size)
                yield from run
            elif kind in _ACKNOWLEDGEMENTS:
                acknowledged, at = self._acknowledged(buffer, at, begin, size)
                yield acknowledged
            else:
                rest = buffer[begin : begin + size]
                yield self._connect(rest) if kind == packets.CONNECT else self._decoders[kind](rest)
                at = begin + size
        if at < end:
            self._waiting, self._size = [buffer[at:]], end - at

    def _check_head(self, first: int, size: int) -> None:
        kind = first >> 4
        if (kind == packets.CONNECT) is not (self.version is None):
            what = "the first packet must be CONNECT" if self.version is None else "a second CONNECT"
            raise MqttViolationError(Reason.PROTOCOL_ERROR, what)
        if kind == packets.AUTH and self.version == 5:
            raise MqttViolationError(Reason.PROTOCOL_ERROR, "AUTH without an authentication method")
        if kind != packets.PUBLISH and (_FLAGS.get(kind) != first & 0xF or kind == packets.AUTH):
            raise malformed(f"a packet of type {kind} with flags {first & 0xF}")
        if size > self.max_packet:
            raise MqttViolationError(
                Reason.PACKET_TOO_LARGE, f"a packet of {size:,} bytes, where {self.max_packet:,} are the most"
            )

    # Messages

    def _published(self, buffer: bytes, at: int, begin: int, end: int) -> tuple[list[PublishRun], int]:
        """This message and the equal ones that follow, and the offset after them."""
        first = buffer[at]
        qos = first >> 1 & 3
        if qos == 3 or (not qos and first & DUPLICATE):
            raise malformed(f"a message with flags {first & 0xF}")
        topic, id_at = _binary_at(buffer, begin, end)
        body_at = id_at + 2 if qos else id_at
        properties = b""
        if self.version == 5:
            size, properties_at = read_varint(buffer, body_at) if body_at < end else (-1, 0)
            body_at = properties_at + size if size >= 0 else end + 1
            properties = buffer[properties_at:body_at]
        if body_at > end:
            raise malformed("a message that ends before its body")
        ids = _ids(buffer[id_at : id_at + 2]) if qos else []
        redelivered = first & DUPLICATE != 0
        key = first & 7, redelivered, topic, properties
        runs = [PublishRun(*key, ids, 1, buffer[body_at:end])]
        length, id_from, body_from = end - at, id_at - at, body_at - at
        id_to = id_from + 2 if qos else id_from
        parts = ((0, id_from), (id_to, body_from))
        step = _FIRST_STEP
        while buffer[end : end + id_from] == buffer[at : at + id_from]:
            rows = min(step, (len(buffer) - end) // length)
            # Compared with the row before, which equals the first.
            count = count_equal_rows(as_table(buffer, end - length, rows + 1, length), parts) - 1
            if count:
                table = as_table(buffer, end, count, length)
                ids = _ids(table[:, id_from:id_to].tobytes()) if qos else []
                runs.append(PublishRun(*key, ids, count, table[:, body_from:].tobytes()))
                end += count * length
            if count < step:
                break
            step *= _GROWTH
        return runs, end

    def _acknowledged(self, buffer: bytes, at: int, begin: int, size: int) -> tuple[AcknowledgementRun, int]:
        kind, end = buffer[at] >> 4, begin + size
        if size < 2:
            raise malformed("an acknowledgement without an id")
        if size > 2:
            if self.version != 5:
                raise malformed("an acknowledgement that is too long")
            if size > 3:
                _, after = read_properties_at(buffer[:end], begin + 3, IN_ACKNOWLEDGEMENT)
                if after != end:
                    raise malformed("bytes after an acknowledgement")
            return AcknowledgementRun(kind, _ids(buffer[begin : begin + 2]), buffer[begin + 2]), end
        rows = (len(buffer) - at) // _SHORT_ACKNOWLEDGEMENT
        count = 1
        if rows > 1 and begin - at == 2 and buffer[at + 4 : at + 6] == buffer[at : at + 2]:
            count = count_equal_rows(as_table(buffer, at, rows, _SHORT_ACKNOWLEDGEMENT), ((0, 2),))
        if count == 1:
            return AcknowledgementRun(kind, _ids(buffer[begin:end]), 0), end
        ids = _ids(as_table(buffer, at, count, _SHORT_ACKNOWLEDGEMENT)[:, 2:].tobytes())
        return AcknowledgementRun(kind, ids, 0), at + count * _SHORT_ACKNOWLEDGEMENT

    # Other packets

    def _connect(self, rest: bytes) -> ConnectPacket:
        name, at = read_string(rest, 0)
        level, flags = _byte(rest, at), _byte(rest, at + 1)
        if name not in _NAMES:
            raise malformed("the packet is not CONNECT of MQTT")
        if level not in _NAMES[name] or level == 3:
            raise MqttViolationError(Reason.UNSUPPORTED_VERSION, f"MQTT {level}; this broker speaks 3.1.1 and 5")
        version: Version = 5 if level == 5 else 4
        if flags & 1:
            raise malformed("a reserved flag of CONNECT is set")
        keep_alive = _number(rest, at + 2)
        at += 4
        properties: Properties = {}
        if version == 5:
            properties, at = read_properties_at(rest, at, IN_CONNECT)
        client_id, at = read_string(rest, at)
        will, at = _will(rest, at, flags, version)
        user, password = None, None
        if flags & 0x80:
            user, at = read_string(rest, at)
        if flags & 0x40:
            if version == 4 and user is None:
                raise malformed("a password without a user")
            password, at = read_binary(rest, at)
        if at != len(rest):
            raise malformed("bytes after CONNECT")
        self.version = version
        return ConnectPacket(version, client_id, bool(flags & 2), keep_alive, user, password, will, properties)

    def _subscribe(self, rest: bytes) -> SubscribePacket:
        packet_id, at = _packet_id(rest)
        properties: Properties = {}
        if self.version == 5:
            properties, at = read_properties_at(rest, at, IN_SUBSCRIBE)
        filters = []
        while at < len(rest):
            topic, at = read_string(rest, at)
            options, at = _byte(rest, at), at + 1
            qos, handling = options & 3, options >> 4 & 3
            reserved = _RESERVED_OPTIONS if self.version == 5 else 0xFC
            if qos == 3 or handling == 3 or options & reserved:
                raise malformed(f"subscription options {options:#04x}")
            filters.append(Filter(topic, qos, bool(options & 4), bool(options & 8), handling))
        if not filters:
            raise MqttViolationError(Reason.PROTOCOL_ERROR, "SUBSCRIBE without a topic filter")
        return SubscribePacket(packet_id, properties, filters)

    def _unsubscribe(self, rest: bytes) -> UnsubscribePacket:
        packet_id, at = _packet_id(rest)
        if self.version == 5:
            _, at = read_properties_at(rest, at, IN_UNSUBSCRIBE)
        filters = []
        while at < len(rest):
            topic, at = read_string(rest, at)
            filters.append(topic)
        if not filters:
            raise MqttViolationError(Reason.PROTOCOL_ERROR, "UNSUBSCRIBE without a topic filter")
        return UnsubscribePacket(packet_id, filters)

    def _ping(self, rest: bytes) -> PingPacket:
        if rest:
            raise malformed("a PINGREQ that is too long")
        return PingPacket()

    def _disconnect(self, rest: bytes) -> DisconnectPacket:
        if rest and self.version != 5:
            raise malformed("a DISCONNECT that is too long")
        properties: Properties = {}
        if len(rest) > 1:
            properties, at = read_properties_at(rest, 1, IN_DISCONNECT)
            if at != len(rest):
                raise malformed("bytes after DISCONNECT")
        return DisconnectPacket(rest[0] if rest else 0, properties)


def _will(rest: bytes, at: int, flags: int, version: Version) -> tuple[WillFields | None, int]:
    qos, retain = flags >> 3 & 3, bool(flags & 0x20)
    if not flags & 4:
        if qos or retain:
            raise malformed("a will's flags without a will")
        return None, at
    if qos == 3:
        raise malformed("a will with QoS 3")
    properties: Properties = {}
    if version == 5:
        properties, at = read_properties_at(rest, at, IN_WILL)
    topic, at = read_string(rest, at)
    body, at = read_binary(rest, at)
    return WillFields(topic, body, qos, retain, properties), at


def _binary_at(buffer: bytes, at: int, end: int) -> tuple[bytes, int]:
    """As `read_binary`, up to `end`."""
    begin = at + 2
    after = begin + int.from_bytes(buffer[at:begin], "big")
    if after > end:
        raise malformed("a message that ends before its body")
    return buffer[begin:after], after


def _ids(raw: bytes) -> list[int]:
    ids: list[int] = np.frombuffer(raw, dtype=">u2").tolist()
    if not ids or 0 in ids:
        raise malformed("a packet id is missing or 0")
    return ids


def _packet_id(rest: bytes) -> tuple[int, int]:
    number = _number(rest, 0)
    if not number:
        raise malformed("a packet id of 0")
    return number, 2


def _number(rest: bytes, at: int) -> int:
    if at + 2 > len(rest):
        raise malformed("a packet is too short")
    return int.from_bytes(rest[at : at + 2], "big")


def _byte(rest: bytes, at: int) -> int:
    if at >= len(rest):
        raise malformed("a packet is too short")
    return rest[at]
