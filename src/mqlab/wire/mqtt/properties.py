"""Encodes and decodes the properties of MQTT 5 packets with their types."""

from collections.abc import Mapping
from enum import IntEnum
from typing import Any, Final

from mqlab.wire.mqtt.packets import PROPERTY_KINDS, data, read_varint, text, varint
from mqlab.wire.mqtt.reasons import MqttViolationError, Reason


class Property(IntEnum):
    PAYLOAD_FORMAT = 0x01
    MESSAGE_EXPIRY = 0x02
    CONTENT_TYPE = 0x03
    RESPONSE_TOPIC = 0x08
    CORRELATION_DATA = 0x09
    SUBSCRIPTION_ID = 0x0B
    SESSION_EXPIRY = 0x11
    ASSIGNED_CLIENT_ID = 0x12
    SERVER_KEEP_ALIVE = 0x13
    AUTHENTICATION_METHOD = 0x15
    AUTHENTICATION_DATA = 0x16
    REQUEST_PROBLEM_INFORMATION = 0x17
    WILL_DELAY = 0x18
    REQUEST_RESPONSE_INFORMATION = 0x19
    REASON_STRING = 0x1F
    RECEIVE_MAXIMUM = 0x21
    TOPIC_ALIAS_MAXIMUM = 0x22
    TOPIC_ALIAS = 0x23
    MAXIMUM_QOS = 0x24
    RETAIN_AVAILABLE = 0x25
    USER_PROPERTY = 0x26
    MAXIMUM_PACKET_SIZE = 0x27
    SHARED_AVAILABLE = 0x2A


# Any: numbers, texts, bytes and pairs of texts, by the type of the property.
Properties = dict[int, Any]

# Properties that each packet of a client may have.
IN_CONNECT: Final = frozenset((
    Property.SESSION_EXPIRY, Property.RECEIVE_MAXIMUM, Property.MAXIMUM_PACKET_SIZE, Property.TOPIC_ALIAS_MAXIMUM,
    Property.REQUEST_RESPONSE_INFORMATION, Property.REQUEST_PROBLEM_INFORMATION, Property.USER_PROPERTY,
    Property.AUTHENTICATION_METHOD, Property.AUTHENTICATION_DATA,
))  # fmt: skip
_OF_MESSAGES: Final = frozenset((
    Property.PAYLOAD_FORMAT, Property.MESSAGE_EXPIRY, Property.CONTENT_TYPE, Property.RESPONSE_TOPIC,
    Property.CORRELATION_DATA, Property.USER_PROPERTY,
))  # fmt: skip
IN_WILL: Final = _OF_MESSAGES | {Property.WILL_DELAY}
IN_PUBLISH: Final = _OF_MESSAGES | {Property.TOPIC_ALIAS}
IN_ACKNOWLEDGEMENT: Final = frozenset((Property.REASON_STRING, Property.USER_PROPERTY))
IN_SUBSCRIBE: Final = frozenset((Property.SUBSCRIPTION_ID, Property.USER_PROPERTY))
IN_UNSUBSCRIBE: Final = frozenset((Property.USER_PROPERTY,))
IN_DISCONNECT: Final = frozenset((Property.SESSION_EXPIRY, Property.REASON_STRING, Property.USER_PROPERTY))

# Properties that are bits, and those that must not be 0.
_BITS: Final = frozenset((
    Property.PAYLOAD_FORMAT, Property.REQUEST_PROBLEM_INFORMATION, Property.REQUEST_RESPONSE_INFORMATION,
))  # fmt: skip
_NOT_ZERO: Final = frozenset((Property.RECEIVE_MAXIMUM, Property.MAXIMUM_PACKET_SIZE, Property.SUBSCRIPTION_ID))
_BINARY: Final = frozenset((Property.CORRELATION_DATA, Property.AUTHENTICATION_DATA))


def decode_properties(raw: bytes, allowed: frozenset[Property]) -> Properties:
    """Values by number; user properties are a list of pairs. Raises MqttViolationError."""
    values: Properties = {}
    at, end = 0, len(raw)
    while at < end:
        number, at = raw[at], at + 1
        kind = PROPERTY_KINDS.get(number)
        if kind is None:
            raise malformed(f"an unknown property: {number}")
        if number not in allowed:
            raise MqttViolationError(Reason.PROTOCOL_ERROR, f"property {number} does not belong into this packet")
        if kind == "p":
            name, at = _string(raw, at)
            value, at = _string(raw, at)
            values.setdefault(number, []).append((name, value))
            continue
        if number in values:
            raise MqttViolationError(Reason.PROTOCOL_ERROR, f"property {number} comes twice")
        values[number], at = _value(raw, at, number, kind)
    return values


def _value(raw: bytes, at: int, number: int, kind: int | str) -> tuple[Any, int]:
    if kind == "t":
        return _binary(raw, at) if number in _BINARY else _string(raw, at)
    if kind == "v":
        value, end = read_varint(raw, at)
        if value < 0:
            raise malformed("a property is incomplete")
    else:
        assert isinstance(kind, int)
        end = at + kind
        if end > len(raw):
            raise malformed("a property is incomplete")
        value = int.from_bytes(raw[at:end], "big")
    if (number in _BITS and value > 1) or (number in _NOT_ZERO and not value):
        raise MqttViolationError(Reason.PROTOCOL_ERROR, f"property {number} cannot be {value}")
    return value, end


def encode_properties(values: Mapping[int, Any]) -> bytes:
    """The properties of a packet, with their length. A value that is a list is repeated."""
    return with_length(encode_fields(values))


def with_length(fields: bytes) -> bytes:
    return varint(len(fields)) + fields


def encode_fields(values: Mapping[int, Any]) -> bytes:
    fields = []
    for number, value in values.items():
        for each in value if isinstance(value, list) else (value,):
            fields.append(bytes((number,)))
            fields.append(_encoded(PROPERTY_KINDS[number], each))
    return b"".join(fields)


def _encoded(kind: int | str, value: Any) -> bytes:  # Any: see Properties
    if isinstance(kind, int):
        return int(value).to_bytes(kind, "big")
    if kind == "v":
        return varint(value)
    if kind == "p":
        return text(value[0]) + text(value[1])
    return data(value) if isinstance(value, bytes) else text(value)


def malformed(message: str) -> MqttViolationError:
    return MqttViolationError(Reason.MALFORMED_PACKET, message)


def _binary(raw: bytes, at: int) -> tuple[bytes, int]:
    begin = at + 2
    end = begin + int.from_bytes(raw[at:begin], "big")
    if begin > len(raw) or end > len(raw):
        raise malformed("a field is incomplete")
    return raw[begin:end], end


def read_binary(raw: bytes, at: int) -> tuple[bytes, int]:
    """Bytes with their length before them, and the offset after them. Raises MqttViolationError."""
    return _binary(raw, at)


def _string(raw: bytes, at: int) -> tuple[str, int]:
    encoded, end = _binary(raw, at)
    try:
        decoded = encoded.decode()
    except UnicodeDecodeError:
        raise malformed("a text is not UTF-8") from None
    if "\0" in decoded:
        raise malformed("a text has a character that MQTT forbids")
    return decoded, end


def read_string(raw: bytes, at: int) -> tuple[str, int]:
    """A text with its length before it, and the offset after it. Raises MqttViolationError."""
    return _string(raw, at)


def read_properties_at(raw: bytes, at: int, allowed: frozenset[Property]) -> tuple[Properties, int]:
    """Properties with their length before them, and the offset after them. Raises MqttViolationError."""
    size, begin = read_varint(raw, at)
    if size < 0 or begin + size > len(raw):
        raise malformed("the properties are incomplete")
    return decode_properties(raw[begin : begin + size], allowed), begin + size
