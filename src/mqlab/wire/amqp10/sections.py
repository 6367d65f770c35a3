"""The sections of an AMQP 1.0 message."""

from typing import Final, NamedTuple

from mqlab.wire.amqp10.decoder import decode, skip
from mqlab.wire.amqp10.types import AmqpDecodeError, Symbol

HEADER: Final = 0x70
DELIVERY_ANNOTATIONS: Final = 0x71
MESSAGE_ANNOTATIONS: Final = 0x72
PROPERTIES: Final = 0x73
APPLICATION_PROPERTIES: Final = 0x74
DATA: Final = 0x75
SEQUENCE: Final = 0x76
VALUE: Final = 0x77
FOOTER: Final = 0x78

_NAMES: Final = {
    "amqp:header:list": HEADER, "amqp:delivery-annotations:map": DELIVERY_ANNOTATIONS,
    "amqp:message-annotations:map": MESSAGE_ANNOTATIONS, "amqp:properties:list": PROPERTIES,
    "amqp:application-properties:map": APPLICATION_PROPERTIES, "amqp:data:binary": DATA,
    "amqp:amqp-sequence:list": SEQUENCE, "amqp:amqp-value:*": VALUE, "amqp:footer:map": FOOTER,
}  # fmt: skip
_BODIES: Final = (DATA, SEQUENCE, VALUE)
_SMALL_ULONG: Final = 0x53
_BINARY: Final = (0xA0, 0xB0)
_MAPS: Final = (0xC1, 0xD1)


class MessageSection(NamedTuple):
    code: int
    # Offsets: of its descriptor, of its value, and after it.
    begin: int
    value_at: int
    end: int


def split_sections(data: bytes) -> list[MessageSection]:
    """The sections in the order that the specification demands; values are not looked at. Raises AmqpDecodeError."""
    sections, at, last, size = [], 0, 0, len(data)
    while at < size:
        begin = at
        try:
            if data[at]:
                raise AmqpDecodeError("a section without a descriptor")
            if data[at + 1] == _SMALL_ULONG:
                code, at = data[at + 2], at + 3
            else:
                descriptor, at = decode(data, at + 1)
                code = _NAMES.get(descriptor, 0) if isinstance(descriptor, Symbol) else descriptor
        except IndexError as error:
            raise AmqpDecodeError("a section without a value") from error
        if not isinstance(code, int) or not HEADER <= code <= FOOTER:
            raise AmqpDecodeError(f"{str(code)[:60]} is not a section of a message")
        may_repeat = code == last and code in (DATA, SEQUENCE)
        if not may_repeat and (code <= last or (code in _BODIES and last in _BODIES)):
            raise AmqpDecodeError("the sections of a message are in a wrong order")
        value_at, at = at, skip(data, at)
        sections.append(MessageSection(code, begin, value_at, at))
        last = code
    return sections


def map_extent(data: bytes, section: MessageSection) -> tuple[int, int]:
    """The offsets of the first key of a section that is a map, and of its end. Raises AmqpDecodeError."""
    code = data[section.value_at]
    if code not in _MAPS:
        raise AmqpDecodeError("annotations or properties of a message are not a map")
    return section.value_at + (3 if code == _MAPS[0] else 9), section.end


def data_bytes(data: bytes, section: MessageSection) -> bytes:
    """The content of a data section. Raises AmqpDecodeError."""
    code = data[section.value_at]
    if code not in _BINARY:
        raise AmqpDecodeError("a data section that is not binary")
    return data[section.value_at + (2 if code == _BINARY[0] else 5) : section.end]


def section_head(code: int, size: int) -> bytes:
    """The bytes before the content of a data section, or of a value section with a text."""
    constructor = 0xA0 if code == DATA else 0xA1
    if size < 256:
        return bytes((0, _SMALL_ULONG, code, constructor, size))
    return bytes((0, _SMALL_ULONG, code, constructor + 0x10)) + size.to_bytes(4)
