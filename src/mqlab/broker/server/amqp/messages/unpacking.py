"""Encodes deliveries of the broker as AMQP messages."""

import struct
from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any, Final, NamedTuple
from uuid import UUID

from mqlab.broker.server.adapter.property_names import header_name
from mqlab.broker.server.amqp.messages.addresses import address_of
from mqlab.broker.server.amqp.messages.ids import id_of
from mqlab.broker.server.amqp.messages.packing import (
    BODY_SECTIONS,
    BODY_TEXT,
    DEFAULT_PRIORITY,
    are_body_sections,
    are_kept_sections,
)
from mqlab.wire.amqp10 import sections
from mqlab.wire.amqp10.encoder import encode, encode_described
from mqlab.wire.amqp10.sections import section_head
from mqlab.wire.amqp10.types import AmqpValue, Encoded, Symbol, Timestamp, UByte, UInt
from mqlab.wire.native.bodies import COLUMNS, SINGLE, Payload, decode
from mqlab.wire.native.columns import AMQP_SECTIONS, PROPERTY, columns_of, decode_batch, decode_single

_SECTIONS: Final = PROPERTY + AMQP_SECTIONS
_CONTENT_TYPE: Final = f"{PROPERTY}content_type"
_MOST_UINT: Final = 0xFFFFFFFF
# Constructors and widths of whole numbers by the letters of their columns.
_INTEGERS: Final = {"b": (b"\x51", 1), "h": (b"\x61", 2), "i": (b"\x71", 4), "q": (b"\x81", 8)}


class DeliveryFacts(NamedTuple):
    """Values that all messages of one delivery share."""

    persistent: bool
    # Earlier deliveries of these messages.
    delivered: int
    # The destination to which the messages were sent, if it is not that of the consumer.
    origin: str
    now_ms: int


def unpack_messages(payload: Payload, facts: DeliveryFacts) -> Iterator[bytes]:
    """The encoded messages of a payload."""
    if not payload.form & COLUMNS:
        head = _header(facts.persistent, DEFAULT_PRIORITY, facts.delivered)
        if facts.origin:
            head += _foreign({}, {}, facts.origin)
        bodies = [bytes(payload.data)] if payload.form & SINGLE else decode(payload).tolist()
        for body in bodies:
            yield b"".join((head, section_head(sections.DATA, len(body)), body))
        return
    layout = columns_of(payload)
    assert layout is not None
    letters = {part[1:]: part[0] for part in layout.written[2:].decode().split(",")}
    if payload.form & SINGLE:
        single = decode_single(payload)
        yield _message(single.values, letters, bytes(single.body), facts)
        return
    batch = decode_batch(payload)
    names, columns = batch.schema.names[1:], [column.to_pylist() for column in batch.columns]
    for body, *values in zip(*columns, strict=True):
        yield _message(dict(zip(names, values, strict=True)), letters, body, facts)


def _message(values: Mapping[str, Any], letters: Mapping[str, str], body: bytes, facts: DeliveryFacts) -> bytes:
    priority, expiration = values.get("priority"), values.get("expiration")
    if priority is None:
        priority = DEFAULT_PRIORITY
    if expiration is None:
        header = _header(facts.persistent, priority, facts.delivered)
    else:
        ttl = min(max(0, expiration - facts.now_ms), _MOST_UINT)
        header = _encoded_header(facts.persistent, priority, facts.delivered, UInt(ttl))
    written = values.get(_SECTIONS)
    if written is not None:
        kind, kept = written[:1], _kept(written)
        if kept is not None:
            return b"".join((header, *_with_body(kept, kind, body)))
    return b"".join((header, _foreign(values, letters, facts.origin), section_head(sections.DATA, len(body)), body))


def _kept(written: str) -> bytes | None:
    """The sections as they were sent; None if a native client wrote something else into the property."""
    try:
        kept = written[1:].encode("latin-1")
    except UnicodeEncodeError:
        return None
    return kept if not kept or are_kept_sections(kept) else None


def _with_body(kept: bytes, kind: str, body: bytes) -> tuple[bytes, ...]:
    footer_at = _footer_at(kept)
    before, footer = kept[:footer_at], kept[footer_at:]
    if kind == BODY_SECTIONS and are_body_sections(body):
        return before, body, footer
    if kind == BODY_TEXT and _is_text(body):
        return before, section_head(sections.VALUE, len(body)), body, footer
    return before, section_head(sections.DATA, len(body)), body, footer


def _footer_at(kept: bytes) -> int:
    if sections.FOOTER not in kept:
        return len(kept)
    return next((part.begin for part in sections.split_sections(kept) if part.code == sections.FOOTER), len(kept))


def _is_text(body: bytes) -> bool:
    try:
        body.decode()
    except UnicodeDecodeError:
        return False
    return True


@lru_cache(maxsize=256)
def _header(persistent: bool, priority: int, delivered: int) -> bytes:
    """The header of a message that does not expire."""
    return _encoded_header(persistent, priority, delivered, None)


def _encoded_header(persistent: bool, priority: int, delivered: int, ttl: UInt | None) -> bytes:
    fields: list[AmqpValue] = [
        True if persistent else None,
        None if priority == DEFAULT_PRIORITY else UByte(max(0, min(priority, 9))),
        ttl,
        None if delivered else True,
        UInt(delivered) if delivered else None,
    ]
    return encode_described(sections.HEADER, fields)


def _foreign(values: Mapping[str, Any], letters: Mapping[str, str], origin: str) -> bytes:
    """Properties and application properties of a message of another protocol."""
    message_id, created = values.get("id"), values.get("timestamp")
    reply_to, content_type = values.get("reply_to"), values.get(_CONTENT_TYPE)
    correlation_id = values.get("correlation_id")
    fields: list[AmqpValue] = [
        None if message_id is None else UUID(bytes=message_id),
        None,
        address_of(origin) if origin else None,
        values.get("type"),
        None if reply_to is None else address_of(reply_to),
        None if correlation_id is None else id_of(correlation_id),
        Symbol(content_type) if isinstance(content_type, str) and content_type.isascii() else None,
        None,
        None,
        None if created is None else Timestamp(created),
        values.get("group"),
    ]
    written = encode_described(sections.PROPERTIES, fields)
    properties = {
        name: value
        for name, value in values.items()
        if value is not None and name[0] == PROPERTY and name not in (_SECTIONS, _CONTENT_TYPE)
    }
    annotations = _annotations(values, reply_to)
    if not properties:
        return annotations + written
    pairs: dict[AmqpValue, AmqpValue] = {
        header_name(name[1:]): _typed(letters[name], value) for name, value in properties.items()
    }
    return annotations + written + bytes((0, 0x53, sections.APPLICATION_PROPERTIES)) + encode(pairs)


def _annotations(values: Mapping[str, Any], reply_to: str | None) -> bytes:
    """Annotations of the AMQP binding of JMS: the kind of the reply-to address, and the time of delivery."""
    annotations: dict[AmqpValue, AmqpValue] = {}
    if reply_to is not None:
        annotations[Symbol("x-opt-jms-reply-to")] = Encoded(b"\x51\x01" if reply_to.startswith("topic:") else b"\x51\0")
    if values.get("deliver_at") is not None:
        annotations[Symbol("x-opt-delivery-time")] = Timestamp(values["deliver_at"])
    return bytes((0, 0x53, sections.MESSAGE_ANNOTATIONS)) + encode(annotations) if annotations else b""


def _typed(letter: str, value: Any) -> AmqpValue:
    if letter in _INTEGERS:
        constructor, width = _INTEGERS[letter]
        return Encoded(constructor + value.to_bytes(width, signed=True))
    if letter == "f":
        return Encoded(struct.pack(">Bf", 0x72, value))
    return value  # type: ignore[no-any-return] # a bool, a float or a text
