"""Translates the properties of MQTT messages to headers and properties of the broker's messages, and back."""

import json
import math
from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np

from mqlab.broker.core.dispatch.selection import as_text
from mqlab.broker.server.adapter.property_names import PropertyNameError, header_name, property_name
from mqlab.broker.server.mqtt.topics import destination_of, topic_of
from mqlab.wire.mqtt.properties import IN_PUBLISH, Properties, Property, decode_properties
from mqlab.wire.mqtt.reasons import MqttViolationError, Reason
from mqlab.wire.native.bodies import Payload, encode, encode_equal
from mqlab.wire.native.columns import AMQP_SECTIONS, HEADERS, PROPERTY, encode_single

# Any: values of headers and properties, by the types of their columns.
Fields = dict[str, Any]

# Properties of the broker's messages that have a meaning of their own in MQTT.
QOS: Final = f"{PROPERTY}mqtt_qos"
RETAIN: Final = f"{PROPERTY}mqtt_retain"
RETAINED: Final = f"{PROPERTY}mqtt_retained"
_FORMAT: Final = f"{PROPERTY}mqtt_payload_format"
_REPEATED: Final = f"{PROPERTY}mqtt_repeated_properties"
_CONTENT_TYPE: Final = f"{PROPERTY}content_type"
# No user properties: those above, and what only AMQP clients understand.
_INTERNAL: Final = frozenset((
    QOS, RETAIN, RETAINED, _FORMAT, _REPEATED, _CONTENT_TYPE, PROPERTY + AMQP_SECTIONS,
))  # fmt: skip
# Correlation data that is not UTF-8, or looks like this.
_HEX: Final = "hex:"
# Headers that are user properties in MQTT, by the names that STOMP and JMS use.
_HEADERS: Final = {
    "type": "type", "priority": "priority", "timestamp": "timestamp", "group": "JMSXGroupID", "id": "JMSMessageID",
}  # fmt: skip
_BY_NAME: Final = {"type": "type", "JMSXGroupID": "group"}
_MOST_PRIORITY: Final = 9
# Types of properties, by their letters in the native protocol.
_LETTERS: Final = ((bool, "?"), (int, "q"), (float, "d"), (str, "s"))


def fields_of(properties: Properties, now_ms: int) -> Fields:
    """Headers and properties for the properties of a message or a will. Raises MqttViolationError."""
    fields: Fields = {}
    for number, value in properties.items():
        if number == Property.MESSAGE_EXPIRY:
            fields["expiration"] = now_ms + 1000 * value
        elif number == Property.CORRELATION_DATA:
            fields["correlation_id"] = _correlation_id(value)
        elif number == Property.RESPONSE_TOPIC:
            fields["reply_to"] = destination_of(value)
        elif number == Property.CONTENT_TYPE:
            fields[_CONTENT_TYPE] = value
        elif number == Property.PAYLOAD_FORMAT:
            fields[_FORMAT] = value
        elif number == Property.USER_PROPERTY:
            _add_user_properties(fields, value)
    return fields


def decode_fields(raw: bytes, now_ms: int) -> Fields:
    """As `fields_of`, for the encoded properties of PUBLISH."""
    return fields_of(decode_properties(raw, IN_PUBLISH), now_ms) if raw else {}


def _add_user_properties(fields: Fields, pairs: Sequence[tuple[str, str]]) -> None:
    repeated = []
    for name, value in pairs:
        column = _column(name, value)
        if column is None or column in fields:
            repeated.append([name, value])
        else:
            fields[column] = int(value) if column == "priority" else value
    if repeated:
        # A column has one value: what comes again, or has no column, only MQTT clients see.
        fields[_REPEATED] = json.dumps(repeated)


def _column(name: str, value: str) -> str | None:
    if name in _BY_NAME:
        return _BY_NAME[name]
    if name == "priority" and value.isascii() and value.isdigit() and int(value) <= _MOST_PRIORITY:
        return "priority"
    try:
        column = PROPERTY + property_name(name) if name else None
    except PropertyNameError:
        return None
    return None if column in _INTERNAL else column


def _correlation_id(raw: bytes) -> str:
    try:
        text = raw.decode()
    except UnicodeDecodeError:
        return _HEX + raw.hex()
    return _HEX + raw.hex() if text.startswith(_HEX) else text


def _correlation_data(text: str) -> bytes:
    if text.startswith(_HEX):
        try:
            return bytes.fromhex(text.removeprefix(_HEX))
        except ValueError:
            pass
    return text.encode()


def encode_message(body: bytes, fields: Mapping[str, Any]) -> Payload:
    """One message with these headers and properties."""
    letters = "".join(_letter(name, value) for name, value in fields.items())
    return encode_single(body, tuple(fields), letters, [*fields.values()])


def encode_messages(chunks: Sequence[tuple[int, bytes]]) -> Payload:
    """Messages without headers: (rows, bodies of one size joined) for each chunk."""
    sizes = {len(bodies) // rows for rows, bodies in chunks}
    rows = sum(rows for rows, _ in chunks)
    if len(sizes) == 1 and sizes != {0}:
        return encode_equal(np.frombuffer(b"".join([bodies for _, bodies in chunks]), dtype=np.uint8), rows)
    return encode(split(chunks))


def split(chunks: Sequence[tuple[int, bytes]]) -> list[bytes]:
    """The bodies of these chunks, one by one."""
    bodies = []
    for rows, joined in chunks:
        size = len(joined) // rows
        bodies += [joined[at * size : (at + 1) * size] for at in range(rows)]
    return bodies


def _letter(name: str, value: object) -> str:
    if name in HEADERS:
        return HEADERS[name]
    return (
        "?" if isinstance(value, bool) else "q" if isinstance(value, int) else "d" if isinstance(value, float) else "s"
    )


def expiry_seconds(fields: Mapping[str, Any], now_ms: int) -> int | None:
    """The message expiry interval that is left, at least 1 second; None: the message does not expire."""
    expiration = fields.get("expiration")
    return None if not expiration else max(1, math.ceil((expiration - now_ms) / 1000))


def properties_of(fields: Mapping[str, Any], now_ms: int) -> Properties:
    """The MQTT properties of a message with these headers and properties."""
    values: Properties = {}
    pairs: list[tuple[str, str]] = []
    for name, value in fields.items():
        if value is None:
            continue
        if name == "correlation_id":
            values[Property.CORRELATION_DATA] = _correlation_data(value)
        elif name == "reply_to":
            values[Property.RESPONSE_TOPIC] = topic_of(value)
        elif name == _CONTENT_TYPE:
            values[Property.CONTENT_TYPE] = _text(value)
        elif name == _FORMAT:
            values[Property.PAYLOAD_FORMAT] = 1 if value else 0
        elif name in _HEADERS:
            pairs.append((_HEADERS[name], as_text(value) if name == "id" else _text(value)))
        elif name.startswith(PROPERTY) and name not in _INTERNAL:
            pairs.append((header_name(name[1:]), _text(value)))
    expiry = expiry_seconds(fields, now_ms)
    if expiry is not None:
        values[Property.MESSAGE_EXPIRY] = expiry
    pairs += _repeated(fields.get(_REPEATED))
    if pairs:
        values[Property.USER_PROPERTY] = pairs
    return values


def _repeated(text: object) -> list[tuple[str, str]]:
    if not isinstance(text, str):
        return []
    try:
        pairs = json.loads(text)
        return [(str(name), str(value)) for name, value in pairs]
    except (ValueError, TypeError):
        # A client of another protocol has set the property.
        return []


def _text(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    # MQTT has no way to write the character 0.
    return str(value).replace("\0", " ")


def qos_of(fields: Mapping[str, Any], *, persistent: bool) -> int:
    """The QoS with which a message was published; a message of another protocol has 1 if it is persistent."""
    qos = fields.get(QOS)
    return qos if isinstance(qos, int) and 0 <= qos <= 2 else int(persistent)


def check_payload_format(properties: Properties, bodies: Sequence[bytes]) -> None:
    """Raises MqttViolationError if the client says that bodies are UTF-8 and they are not."""
    if properties.get(Property.PAYLOAD_FORMAT):
        for body in bodies:
            try:
                body.decode()
            except UnicodeDecodeError:
                raise MqttViolationError(Reason.PAYLOAD_FORMAT_INVALID, "the payload is not UTF-8") from None
