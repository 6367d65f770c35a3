"""Encodes the packets of a broker, whole batches of messages at once."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from mqlab.wire.fixed_rows import Table
from mqlab.wire.mqtt import packets
from mqlab.wire.mqtt.packets import Version, packet, varint
from mqlab.wire.mqtt.properties import encode_properties
from mqlab.wire.mqtt.reasons import Reason, return_code

PINGRESP: bytes = b"\xd0\x00"


def connack(version: Version | None, reason: Reason, *, present: bool, properties: Mapping[int, Any]) -> bytes:
    """`version` None: the client's version is unknown, so the oldest form is used."""
    if version == 5:
        return packet(0x20, bytes((present, reason)) + encode_properties(properties))
    return packet(0x20, bytes((present, return_code(reason))))


def suback(version: Version, packet_id: int, reasons: Sequence[int]) -> bytes:
    none = b"\0" if version == 5 else b""
    # MQTT 3.1.1 knows only one code for a refusal.
    codes = reasons if version == 5 else [min(reason, packets.REFUSED) for reason in reasons]
    return packet(0x90, packet_id.to_bytes(2, "big") + none + bytes(codes))


def unsuback(version: Version, packet_id: int, reasons: Sequence[int]) -> bytes:
    rest = b"\0" + bytes(reasons) if version == 5 else b""
    return packet(0xB0, packet_id.to_bytes(2, "big") + rest)


def disconnect(reason: Reason, text: str = "") -> bytes:
    properties = encode_properties({0x1F: text}) if text else b"\0"
    return packet(0xE0, bytes((reason,)) + properties)


def acknowledgements(kind: int, ids: Sequence[int]) -> bytes:
    """PUBACK, PUBREC, PUBREL or PUBCOMP packets without a reason."""
    first = kind << 4 | (2 if kind == packets.PUBREL else 0)
    if len(ids) == 1:
        return bytes((first, 2)) + ids[0].to_bytes(2, "big")
    rows = np.empty((len(ids), 4), dtype=np.uint8)
    rows[:, :2] = (first, 2)
    rows[:, 2:] = np.array(ids, dtype=">u2").view(np.uint8).reshape(-1, 2)
    return rows.tobytes()


def refused(kind: int, packet_id: int, reason: Reason) -> bytes:
    """An acknowledgement of MQTT 5 with a reason."""
    first = kind << 4 | (2 if kind == packets.PUBREL else 0)
    return bytes((first, 3)) + packet_id.to_bytes(2, "big") + bytes((reason,))


def publish_table(first: int, topic: bytes, ids: Sequence[int], properties: bytes, bodies: Table) -> bytes:
    """PUBLISH packets with bodies of one size; `topic` and `properties` are encoded; `ids`: none with QoS 0."""
    rows, size = bodies.shape
    length = len(topic) + (2 if ids else 0) + len(properties) + size
    head = bytes((first,)) + varint(length) + topic
    table = np.empty((rows, len(head) + length - len(topic)), dtype=np.uint8)
    at = len(head)
    table[:, :at] = np.frombuffer(head, np.uint8)
    if ids:
        table[:, at : at + 2] = np.array(ids, dtype=">u2").view(np.uint8).reshape(rows, 2)
        at += 2
    if properties:
        table[:, at : at + len(properties)] = np.frombuffer(properties, np.uint8)
        at += len(properties)
    table[:, at:] = bodies
    return table.tobytes()


def publish(first: int, topic: bytes, packet_id: int, properties: bytes, body: bytes | memoryview) -> bytes:
    """One PUBLISH packet; `packet_id` 0: none."""
    number = packet_id.to_bytes(2, "big") if packet_id else b""
    length = len(topic) + len(number) + len(properties) + len(body)
    return b"".join((bytes((first,)), varint(length), topic, number, properties, body))
