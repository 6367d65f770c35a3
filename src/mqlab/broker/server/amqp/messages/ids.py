"""Message ids and correlation ids of AMQP, which have four types, as texts and back.

The texts are those of the AMQP binding of JMS, so a JMS client sees the same text whichever broker it uses.
"""

import binascii
from typing import Final
from uuid import UUID

from mqlab.wire.amqp10.types import AmqpValue, ULong

_PREFIX: Final = "ID:"
_BINARY, _UUID, _ULONG, _STRING = "AMQP_BINARY:", "AMQP_UUID:", "AMQP_ULONG:", "AMQP_STRING:"
_ENCODED: Final = (_BINARY, _UUID, _ULONG, _STRING)
_MOST_ULONG: Final = 2**64 - 1


def text_of(value: object) -> str | None:
    """The text of an id; None for a value that is not an id."""
    if isinstance(value, str):
        return f"{_PREFIX}{_STRING}{value}" if value.removeprefix(_PREFIX).startswith(_ENCODED) else value
    if isinstance(value, UUID):
        return f"{_PREFIX}{_UUID}{value}"
    if isinstance(value, bytes):
        return f"{_PREFIX}{_BINARY}{value.hex().upper()}"
    if type(value) is int and value >= 0:
        return f"{_PREFIX}{_ULONG}{value}"
    return None


def id_of(text: str) -> AmqpValue:
    """The id whose text this is. A text that is none stays a text."""
    rest = text.removeprefix(_PREFIX)
    if rest == text or not rest.startswith(_ENCODED):
        return text
    kind, _, content = rest.partition(":")
    try:
        if kind + ":" == _BINARY:
            return binascii.unhexlify(content)
        if kind + ":" == _UUID:
            return UUID(content)
        if kind + ":" == _ULONG:
            return ULong(content) if 0 <= int(content) <= _MOST_ULONG else text
    except ValueError:
        return text
    return content
