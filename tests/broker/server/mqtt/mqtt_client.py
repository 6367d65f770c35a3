"""A client that sends any packets, and takes apart what it gets."""

import asyncio
from contextlib import suppress
from typing import Any, NamedTuple

from broker.server.raw_client import opened
from mqlab.wire.address import Address
from mqlab.wire.mqtt.packets import packet, read_varint, text
from mqlab.wire.mqtt.properties import Property, encode_properties, read_properties_at
from mqlab.wire.mqtt.reasons import Reason

EVERY = frozenset(Property)
# Any: keys are numbers or their names, values have the types of the properties.
Properties = dict[Any, Any]

CONNACK, PUBLISH, PUBACK, PUBREC, PUBREL, PUBCOMP, SUBACK, UNSUBACK, PINGRESP, DISCONNECT = (
    2, 3, 4, 5, 6, 7, 9, 11, 13, 14,
)  # fmt: skip


class Packet(NamedTuple):
    kind: int
    flags: int
    rest: bytes


class Message(NamedTuple):
    topic: str
    body: bytes
    qos: int
    retain: bool
    dup: bool
    packet_id: int
    properties: Properties


class Will(NamedTuple):
    topic: str
    body: bytes
    qos: int = 0
    retain: bool = False
    properties: Properties = {}  # noqa: RUF012 - it is never changed


def connect(
    client_id: str = "", version: int = 5, *, clean: bool = True, keep_alive: int = 0, user: str | None = None,
    password: str | None = None, will: Will | None = None, properties: Properties | None = None,
) -> bytes:  # fmt: skip
    flags = clean << 1 | (user is not None) << 7 | (password is not None) << 6
    if will is not None:
        flags |= 4 | will.qos << 3 | will.retain << 5
    rest = text("MQTT") + bytes((version, flags)) + keep_alive.to_bytes(2, "big")
    if version == 5:
        rest += encode_properties(properties or {})
    rest += text(client_id)
    if will is not None:
        rest += encode_properties(will.properties) if version == 5 else b""
        rest += text(will.topic) + len(will.body).to_bytes(2, "big") + will.body
    for word in (user, password):
        rest += b"" if word is None else text(word)
    return packet(0x10, rest)


def publish(
    topic: str, body: bytes = b"", qos: int = 0, packet_id: int = 0, *, retain: bool = False, dup: bool = False,
    version: int = 5, properties: Properties | None = None,
) -> bytes:  # fmt: skip
    rest = text(topic) + (packet_id.to_bytes(2, "big") if qos else b"")
    rest += encode_properties(properties or {}) if version == 5 else b""
    return packet(0x30 | dup << 3 | qos << 1 | retain, rest + body)


def acknowledge(kind: int, packet_id: int, reason: int | None = None) -> bytes:
    rest = packet_id.to_bytes(2, "big") + (b"" if reason is None else bytes((reason,)))
    return packet(kind << 4 | (2 if kind == PUBREL else 0), rest)


class Peer:
    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, version: int) -> None:
        self.reader, self.writer, self.version = reader, writer, version
        self.connack = Packet(0, 0, b"")
        self._ids = 0

    @classmethod
    async def open(cls, address: Address, version: int = 5) -> "Peer":
        peer = cls(*await asyncio.open_connection(address.host, address.port), version)
        opened.append(peer)
        return peer

    @classmethod
    async def connect(cls, address: Address, client_id: str = "", version: int = 5, **options: Any) -> "Peer":
        peer = await cls.open(address, version)
        peer.send(connect(client_id, version, **options))
        peer.connack = await peer.packet(CONNACK)
        assert peer.connack.rest[1] == 0, peer.connack
        return peer

    async def close(self) -> None:
        """The test has ended."""
        self.writer.close()
        with suppress(OSError):
            await self.writer.wait_closed()

    @property
    def session_present(self) -> bool:
        return bool(self.connack.rest[0])

    @property
    def granted(self) -> Properties:
        return read_properties_at(self.connack.rest, 2, EVERY)[0]

    def send(self, *data: bytes) -> None:
        self.writer.write(b"".join(data))

    async def packet(self, kind: int | None = None) -> Packet:
        """The next one; of this kind. Raises IncompleteReadError at the end."""
        first = (await self.reader.readexactly(1))[0]
        length = b""
        while True:
            length += await self.reader.readexactly(1)
            size, _ = read_varint(length, 0)
            if size >= 0:
                break
        packet = Packet(first >> 4, first & 15, await self.reader.readexactly(size))
        assert kind is None or packet.kind == kind, packet
        return packet

    async def message(self) -> Message:
        return self.parsed(await self.packet(PUBLISH))

    def parsed(self, packet: Packet) -> Message:
        _, flags, rest = packet
        end = 2 + int.from_bytes(rest[:2], "big")
        topic, qos, packet_id = rest[2:end].decode(), flags >> 1 & 3, 0
        if qos:
            packet_id, end = int.from_bytes(rest[end : end + 2], "big"), end + 2
        properties: Properties = {}
        if self.version == 5:
            properties, end = read_properties_at(rest, end, EVERY)
        return Message(topic, rest[end:], qos, bool(flags & 1), bool(flags & 8), packet_id, properties)

    async def bodies(self, count: int) -> list[bytes]:
        return [(await self.message()).body for _ in range(count)]

    async def subscribe(self, *filters: str, options: int = 0, identifier: int = 0) -> list[int]:
        """Returns the reason codes."""
        self._ids += 1
        rest = self._ids.to_bytes(2, "big")
        if self.version == 5:
            rest += encode_properties({Property.SUBSCRIPTION_ID: identifier} if identifier else {})
        rest += b"".join(text(written) + bytes((options,)) for written in filters)
        self.send(packet(0x82, rest))
        answer = await self.packet(SUBACK)
        assert int.from_bytes(answer.rest[:2], "big") == self._ids
        return [*answer.rest[3 if self.version == 5 else 2 :]]

    async def unsubscribe(self, *filters: str) -> list[int]:
        self._ids += 1
        none = b"\0" if self.version == 5 else b""
        self.send(packet(0xA2, self._ids.to_bytes(2, "big") + none + b"".join(map(text, filters))))
        answer = await self.packet(UNSUBACK)
        return [*answer.rest[3:]]

    async def publish(self, topic: str, body: bytes = b"", qos: int = 1, **options: Any) -> int:
        """Publish with QoS 1, and wait for the acknowledgement. Returns its reason, 0 also if nobody subscribes."""
        self._ids += 1
        self.send(publish(topic, body, qos, self._ids, version=self.version, **options))
        answer = await self.packet(PUBACK)
        assert int.from_bytes(answer.rest[:2], "big") == self._ids
        reason = answer.rest[2] if len(answer.rest) > 2 else 0
        return 0 if reason == Reason.NO_MATCHING_SUBSCRIBERS else reason

    async def nothing(self) -> bool:
        """Whether no packet comes before the answer to a ping."""
        self.send(b"\xc0\0")
        await self.packet(PINGRESP)
        return True

    async def ended(self) -> int | None:
        """The reason of DISCONNECT, if there is one, and the end of the connection."""
        data = await self.reader.read()
        self.writer.close()
        return data[2] if data[:1] == b"\xe0" else None

    async def disconnect(self, reason: int = 0, properties: Properties | None = None) -> None:
        rest = bytes((reason,)) + encode_properties(properties or {}) if self.version == 5 else b""
        self.send(packet(0xE0, rest))
        await self.reader.read()
        self.writer.close()

    def cut(self) -> None:
        """Vanish without a DISCONNECT."""
        self.writer.transport.abort()
