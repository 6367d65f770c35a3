"""Encodes AMQP messages as rows of the broker: a body, and columns for the headers and properties.

The bare message reaches AMQP consumers as it was sent: the property `AMQP_SECTIONS` holds its encoded sections. The
columns are for selectors, for the order on the queue, and for clients of other protocols.
"""

from collections.abc import Sequence
from typing import Any, Final, NamedTuple
from uuid import UUID

import pyarrow as pa

from mqlab.broker.server.adapter.property_names import PropertyNameError, property_name
from mqlab.broker.server.amqp.messages.addresses import native_name
from mqlab.broker.server.amqp.messages.ids import text_of
from mqlab.wire.amqp10 import sections
from mqlab.wire.amqp10.decoder import decode, decode_all
from mqlab.wire.amqp10.sections import MessageSection, data_bytes, map_extent, split_sections
from mqlab.wire.amqp10.types import AmqpDecodeError, Symbol
from mqlab.wire.native.bodies import BINARY, Payload, encode
from mqlab.wire.native.columns import AMQP_SECTIONS, PROPERTY, Value, encode_columns, encode_single

# How the body of a message is stored; the first character of the property.
BODY_DATA: Final = "d"  # one data section: its content
BODY_TEXT: Final = "t"  # a value that is a string: its text
BODY_SECTIONS: Final = "s"  # any other body: its encoded sections

DEFAULT_PRIORITY: Final = 4
_HIGHEST_PRIORITY: Final = 9
_LATEST_MS: Final = 2**62
# Columns of a message beside its headers; further properties only reach AMQP consumers.
_MOST_PROPERTIES: Final = 80
_ARROW: Final = {
    "?": pa.bool_(), "b": pa.int8(), "h": pa.int16(), "i": pa.int32(), "q": pa.int64(), "f": pa.float32(),
    "d": pa.float64(), "s": pa.string(), "u": pa.binary(16),
}  # fmt: skip
# The letter of the column for an application property, by the constructor of its value.
_LETTERS: Final = {
    0x41: "?", 0x42: "?", 0x56: "?", 0x50: "h", 0x51: "b", 0x60: "i", 0x61: "h", 0x43: "q", 0x52: "q", 0x70: "q",
    0x54: "i", 0x71: "i", 0x44: "q", 0x53: "q", 0x80: "q", 0x55: "q", 0x81: "q", 0x72: "f", 0x82: "d", 0x83: "q",
    0xA1: "s", 0xB1: "s", 0xA3: "s", 0xB3: "s", 0x98: "s", 0x73: "s",
}  # fmt: skip
_MOST_LONG: Final = 2**63 - 1
_BODY_CODES: Final = (sections.DATA, sections.SEQUENCE, sections.VALUE)
# Sections of the bare message, and the annotations and footer that travel with it.
_KEPT: Final = (
    sections.MESSAGE_ANNOTATIONS, sections.PROPERTIES, sections.APPLICATION_PROPERTIES, sections.FOOTER,
)  # fmt: skip
# Values of the annotations that tell the kind of an address: a topic, and a temporary topic.
_TOPIC_KINDS: Final = (1, 3)
_LISTS: Final = (0x45, 0xC0, 0xD0)


class MessageRow(NamedTuple):
    """A message: the names, letters and values of its columns, and its body."""

    names: tuple[str, ...]
    letters: str
    values: list[Value]
    body: bytes
    persistent: bool

    def belongs_to(self, other: "MessageRow") -> bool:
        """Whether both can be rows of one batch."""
        return (
            self.persistent is other.persistent and self.letters == other.letters and self.names == other.names
        )  # fmt: skip


class _Columns:
    """Collects the columns of a message."""

    def __init__(self) -> None:
        self.names: list[str] = []
        self.letters: list[str] = []
        self.values: list[Value] = []

    def add(self, name: str, letter: str, value: Value) -> None:
        if name not in self.names:
            self.names.append(name)
            self.letters.append(letter)
            self.values.append(value)


def pack_message(data: bytes, now_ms: int) -> MessageRow:
    """Raises AmqpDecodeError."""
    columns, persistent, kept, bodies = _Columns(), False, list[bytes](), list[MessageSection]()
    reply_to_is_topic = False
    for section in split_sections(data):
        code = section.code
        if code in _BODY_CODES:
            bodies.append(section)
            continue
        if code == sections.HEADER:
            persistent = _read_header(_list(data, section), columns, now_ms)
            continue
        if code == sections.PROPERTIES:
            _read_properties(_list(data, section), columns, reply_to_is_topic=reply_to_is_topic)
        elif code == sections.APPLICATION_PROPERTIES:
            _read_application_properties(data, section, columns)
        else:
            annotations = _map(data, section)
            if code == sections.MESSAGE_ANNOTATIONS:
                reply_to_is_topic = annotations.get("x-opt-jms-reply-to") in _TOPIC_KINDS
                _read_annotations(annotations, columns, now_ms)
        if code in _KEPT and section.end - section.begin > len(b"\0\x53\x73\x45"):
            kept.append(data[section.begin : section.end])
    kind, body = _body(data, bodies)
    if kept or kind != BODY_DATA:
        columns.add(PROPERTY + AMQP_SECTIONS, "s", kind + b"".join(kept).decode("latin-1"))
    return MessageRow(tuple(columns.names), "".join(columns.letters), columns.values, body, persistent)


def relay_name(data: bytes) -> str | None:
    """The broker's name of the destination that the message itself names (`to`). Raises AmqpDecodeError."""
    is_topic, to = False, None
    for section in split_sections(data):
        if section.code == sections.MESSAGE_ANNOTATIONS:
            is_topic = _map(data, section).get("x-opt-jms-dest") in _TOPIC_KINDS
        elif section.code == sections.PROPERTIES:
            to = _field(_list(data, section), 2, str)
    return native_name(to, ("topic",) if is_topic else ()) if to else None


def payload_of(rows: Sequence[MessageRow]) -> Payload:
    """One payload of rows that belong together."""
    first = rows[0]
    if not first.names:
        return encode([row.body for row in rows])
    if len(rows) == 1:
        return encode_single(first.body, first.names, first.letters, first.values)
    bodies = pa.array([row.body for row in rows], BINARY)
    arrays = {
        name: pa.array([row.values[at] for row in rows], _ARROW[letter])
        for at, (name, letter) in enumerate(zip(first.names, first.letters, strict=True))
    }
    return encode_columns(bodies, arrays)


def _list(data: bytes, section: MessageSection) -> list[Any]:
    if data[section.value_at] not in _LISTS:
        raise AmqpDecodeError("header or properties of a message are not a list")
    value, end = decode(data, section.value_at)
    assert end == section.end
    return value  # type: ignore[no-any-return] # the constructor is that of a list


def _map(data: bytes, section: MessageSection) -> dict[Any, Any]:
    map_extent(data, section)
    value, _ = decode(data, section.value_at)
    return value  # type: ignore[no-any-return] # the constructor is that of a map


def _field(fields: list[Any], at: int, kind: type) -> Any:
    """A field of this exact type; None if it is absent. Raises AmqpDecodeError."""
    value = fields[at] if at < len(fields) else None
    if value is not None and type(value) is not kind:
        raise AmqpDecodeError("a header or property of a message has a wrong type")
    return value


def _read_header(fields: list[Any], columns: _Columns, now_ms: int) -> bool:
    """Returns whether the message is durable."""
    priority, ttl = _field(fields, 1, int), _field(fields, 2, int)
    if priority is not None and priority != DEFAULT_PRIORITY:
        columns.add("priority", "b", max(0, min(priority, _HIGHEST_PRIORITY)))
    if ttl is not None and ttl >= 0:
        columns.add("expiration", "q", now_ms + ttl)
    return _field(fields, 0, bool) is True


def _read_annotations(annotations: dict[Any, Any], columns: _Columns, now_ms: int) -> None:
    at, delay = annotations.get("x-opt-delivery-time"), annotations.get("x-opt-delivery-delay")
    if type(at) is int and 0 < at < _LATEST_MS:
        columns.add("deliver_at", "q", at)
    elif type(delay) is int and 0 < delay < _LATEST_MS:
        columns.add("deliver_at", "q", now_ms + delay)
    duplicate_id = annotations.get("x-opt-duplicate-id")
    if isinstance(duplicate_id, str):
        columns.add("duplicate_id", "s", str(duplicate_id))


def _read_properties(fields: list[Any], columns: _Columns, *, reply_to_is_topic: bool) -> None:
    message_id = fields[0] if fields else None
    if isinstance(message_id, UUID):
        columns.add("id", "u", message_id.bytes)
    elif message_id is not None and text_of(message_id) is None:
        raise AmqpDecodeError("a message id has a wrong type")
    correlation_id = fields[5] if len(fields) > 5 else None
    if correlation_id is not None:
        text = text_of(correlation_id)
        if text is None:
            raise AmqpDecodeError("a correlation id has a wrong type")
        columns.add("correlation_id", "s", str(text))
    subject, reply_to = _field(fields, 3, str), _field(fields, 4, str)
    if subject is not None:
        columns.add("type", "s", subject)
    if reply_to:
        columns.add("reply_to", "s", native_name(reply_to, ("topic",) if reply_to_is_topic else ()))
    expires, created = _field(fields, 8, int), _field(fields, 9, int)
    if expires is not None and 0 < expires < _LATEST_MS:
        columns.add("expiration", "q", expires)
    if created is not None and 0 <= created < _LATEST_MS:
        columns.add("timestamp", "q", created)
    group, content_type = _field(fields, 10, str), _field(fields, 6, Symbol)
    if group:
        columns.add("group", "s", group)
    if content_type:
        columns.add(f"{PROPERTY}content_type", "s", str(content_type))


def _read_application_properties(data: bytes, section: MessageSection, columns: _Columns) -> None:
    # The types of the values are in their constructors only.
    at, end = map_extent(data, section)
    while at < end:
        name, at = decode(data, at)
        if type(name) is not str:
            raise AmqpDecodeError("the name of a property is not a string")
        letter = _LETTERS.get(data[at]) if at < end else None
        value, at = decode(data, at)
        if letter is None or len(columns.names) >= _MOST_PROPERTIES or (letter == "q" and value > _MOST_LONG):
            continue
        try:
            column = PROPERTY + property_name(name)
        except (PropertyNameError, IndexError):
            # A name that selectors cannot use.
            continue
        columns.add(column, letter, str(value) if letter == "s" else value)
    if at != end:
        raise AmqpDecodeError("the properties of a message have another size than they announce")


def _body(data: bytes, bodies: list[MessageSection]) -> tuple[str, bytes]:
    if not bodies:
        # The specification demands a body. Some clients leave an empty one out.
        return BODY_SECTIONS, b""
    first = bodies[0]
    if first.code == sections.DATA:
        content = [data_bytes(data, section) for section in bodies]
        if len(content) == 1:
            return BODY_DATA, content[0]
    else:
        value, _ = decode(data, first.value_at)
        if first.code == sections.VALUE and type(value) is str and data[first.value_at] != 0x73:
            return BODY_TEXT, value.encode()
        for section in bodies:
            decode(data, section.value_at)
    return BODY_SECTIONS, data[first.begin : bodies[-1].end]


def are_sections(data: bytes, codes: Sequence[int]) -> bool:
    """Whether the bytes are well-formed sections with these codes. A native client can write any property."""
    try:
        found = split_sections(data)
        decode_all(data)
    except AmqpDecodeError:
        return False
    return all(section.code in codes for section in found)


def are_kept_sections(data: bytes) -> bool:
    return are_sections(data, _KEPT)


def are_body_sections(data: bytes) -> bool:
    return are_sections(data, _BODY_CODES)
