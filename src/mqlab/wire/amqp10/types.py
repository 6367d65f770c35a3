"""The values of AMQP 1.0 that have no type of their own in Python."""

from dataclasses import dataclass
from typing import NamedTuple
from uuid import UUID

from mqlab.errors import MqlabError


class AmqpDecodeError(MqlabError, ValueError):
    """The bytes are not a valid encoding of AMQP 1.0."""


class Symbol(str):
    """A text of ASCII characters from a set of known names."""

    __slots__ = ()


class UByte(int):
    __slots__ = ()


class UShort(int):
    __slots__ = ()


class UInt(int):
    __slots__ = ()


class ULong(int):
    __slots__ = ()


class Timestamp(int):
    """Milliseconds since 1970."""

    __slots__ = ()


class Described(NamedTuple):
    """A value with a descriptor: a code, or the symbol that stands for it."""

    descriptor: object
    value: object


@dataclass(frozen=True, slots=True)
class Encoded:
    """A value that is encoded already."""

    data: bytes


# Values that `encode` accepts, and those that `decode` gives: all whole numbers become `int`.
AmqpValue = (
    None
    | bool
    | int
    | float
    | str
    | bytes
    | UUID
    | Described
    | Encoded
    | list["AmqpValue"]
    | dict["AmqpValue", "AmqpValue"]
)
