"""Encodes messages and acknowledgements as packets, whole batches at once."""

from collections.abc import Iterable

import numpy as np
import numpy.typing as npt

from mqlab.wire.fixed_rows import Table
from mqlab.wire.mqtt.packets import (
    CORRELATION_DATA,
    MESSAGE_EXPIRY,
    RESPONSE_TOPIC,
    USER_PROPERTY,
    Version,
    data,
    packet,
    properties,
    text,
    varint,
)


class MqttPublisher:
    """Encodes messages for one topic, with QoS 0 or 1. Raises MqttError if something is too long."""

    def __init__(self, version: Version, topic: str, *, qos: int) -> None:
        self._version = version
        self._first = 0x30 | qos << 1
        self._qos = qos
        self._topic = text(topic)
        # The head of messages with bodies of one size.
        self._template = (-1, np.empty(0, dtype=np.uint8))

    def row_size(self, size: int) -> int:
        """The bytes of an encoded message with a body of this size."""
        return len(self._head(size)) + size

    def batch(self, bodies: Table, ids: npt.NDArray[np.uint16] | None = None) -> bytes:
        """Encode a message for each row; `ids`: the packet ids (uint16) for QoS 1."""
        rows, size = bodies.shape
        head = self._head(size)
        packets = np.empty((rows, len(head) + size), dtype=np.uint8)
        packets[:, : len(head)] = head
        packets[:, len(head) :] = bodies
        if self._qos:
            assert ids is not None
            at = len(head) - (3 if self._version == 5 else 2)
            packets[:, at : at + 2] = ids.astype(">u2").view(np.uint8).reshape(rows, 2)
        return packets.tobytes()

    def message(
        self,
        body: bytes,
        packet_id: int = 0,
        correlation: bytes = b"",
        response_topic: str = "",
        *,
        user_properties: Iterable[tuple[str, str]] = (),
        expires_s: int = 0,
    ) -> bytes:
        """Encode a single message; everything but the body needs MQTT 5."""
        fields = [(USER_PROPERTY, text(name) + text(value)) for name, value in user_properties]
        if expires_s:
            fields.append((MESSAGE_EXPIRY, expires_s.to_bytes(4, "big")))
        if response_topic:
            fields.append((RESPONSE_TOPIC, text(response_topic)))
        if correlation:
            fields.append((CORRELATION_DATA, data(correlation)))
        number = packet_id.to_bytes(2, "big") if self._qos else b""
        encoded_properties = properties(*fields) if self._version == 5 else b""
        return packet(self._first, b"".join((self._topic, number, encoded_properties, body)))

    def _head(self, size: int) -> npt.NDArray[np.uint8]:
        if self._template[0] != size:
            # The packet id and, in MQTT 5, the length 0 of the properties.
            gap = bytes((2 if self._qos else 0) + (self._version == 5))
            rest = self._topic + gap
            head = bytes((self._first,)) + varint(len(rest) + size) + rest
            self._template = (size, np.frombuffer(head, dtype=np.uint8))
        return self._template[1]


def acknowledgements(ids: bytes) -> bytes:
    """PUBACK packets for these ids, two bytes each."""
    rows = len(ids) // 2
    if rows == 1:
        return b"\x40\x02" + ids
    packets = np.empty((rows, 4), dtype=np.uint8)
    packets[:, :2] = (0x40, 2)
    packets[:, 2:] = np.frombuffer(ids, np.uint8).reshape(rows, 2)
    return packets.tobytes()
