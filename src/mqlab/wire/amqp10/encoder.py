"""Encodes values of the AMQP 1.0 type system."""

import struct
from collections.abc import Callable, Sequence
from typing import Final
from uuid import UUID

from mqlab.wire.amqp10.types import AmqpValue, Described, Encoded, Symbol, Timestamp, UByte, UInt, ULong, UShort

_u32: Final = struct.Struct(">I").pack
_BYTE: Final = 0xFF
NULL: Final = b"\x40"


def encode(value: AmqpValue) -> bytes:
    """A plain `int` becomes a long, `float` a double, `str` a string, `bytes` binary."""
    return _WRITERS[type(value)](value)


def writer_of(kind: type) -> Callable[[AmqpValue], bytes]:
    """Encodes values as this type, whatever number type they have."""
    return _WRITERS[kind]


def encode_described(code: int, fields: Sequence[AmqpValue]) -> bytes:
    """A described list; fields without a value at its end are left out."""
    return join_described(code, [_WRITERS[type(field)](field) for field in fields])


def join_described(code: int, fields: list[bytes]) -> bytes:
    """The same of fields that are encoded already."""
    count = len(fields)
    while count and fields[count - 1] == NULL:
        count -= 1
    content = b"".join(fields[:count])
    size = len(content) + 1
    if size <= _BYTE:
        return bytes((0, 0x53, code, 0xC0, size, count)) + content
    return bytes((0, 0x53, code, 0xD0)) + _u32(size + 3) + _u32(count) + content


def encode_symbols(symbols: Sequence[str]) -> Encoded:
    """An array of symbols."""
    content = b"".join(_u32(len(symbol)) + symbol.encode("ascii") for symbol in symbols)
    return Encoded(b"\xf0" + _u32(len(content) + 5) + _u32(len(symbols)) + b"\xb3" + content)


def _bool(value: bool) -> bytes:
    return b"\x41" if value else b"\x42"


def _uint(value: int) -> bytes:
    if value <= _BYTE:
        return bytes((0x52, value)) if value else b"\x43"
    return b"\x70" + _u32(value)


def _ulong(value: int) -> bytes:
    if value <= _BYTE:
        return bytes((0x53, value)) if value else b"\x44"
    return b"\x80" + struct.pack(">Q", value)


def _long(value: int) -> bytes:
    return struct.pack(">Bb", 0x55, value) if -128 <= value < 128 else struct.pack(">Bq", 0x81, value)


def _binary(value: bytes) -> bytes:
    size = len(value)
    return bytes((0xA0, size)) + value if size <= _BYTE else b"\xb0" + _u32(size) + value


def _string(value: str) -> bytes:
    text = value.encode()
    size = len(text)
    return bytes((0xA1, size)) + text if size <= _BYTE else b"\xb1" + _u32(size) + text


def _symbol(value: str) -> bytes:
    text = value.encode("ascii")
    size = len(text)
    return bytes((0xA3, size)) + text if size <= _BYTE else b"\xb3" + _u32(size) + text


def _compound(short: int, count: int, content: bytes) -> bytes:
    size = len(content) + 1
    if size <= _BYTE and count <= _BYTE:
        return bytes((short, size, count)) + content
    return bytes((short + 0x10,)) + _u32(size + 3) + _u32(count) + content


def _list(values: list[AmqpValue]) -> bytes:
    return _compound(0xC0, len(values), b"".join(map(encode, values))) if values else b"\x45"


def _map(values: dict[AmqpValue, AmqpValue]) -> bytes:
    return _compound(0xC1, 2 * len(values), b"".join([encode(key) + encode(value) for key, value in values.items()]))


def _described(value: Described) -> bytes:
    descriptor = value.descriptor
    code = ULong(descriptor) if type(descriptor) is int else descriptor
    return b"\0" + encode(code) + encode(value.value)  # type: ignore[arg-type] # a value that was decoded


_WRITERS: Final[dict[type, Callable[..., bytes]]] = {
    type(None): lambda _: NULL, bool: _bool, int: _long, float: lambda value: struct.pack(">Bd", 0x82, value),
    str: _string, bytes: _binary, UUID: lambda value: b"\x98" + value.bytes, Symbol: _symbol, list: _list, dict: _map,
    UByte: lambda value: bytes((0x50, value)), UShort: lambda value: struct.pack(">BH", 0x60, value), UInt: _uint,
    ULong: _ulong, Timestamp: lambda value: struct.pack(">Bq", 0x83, value), Described: _described,
    Encoded: lambda value: value.data,
}  # fmt: skip
