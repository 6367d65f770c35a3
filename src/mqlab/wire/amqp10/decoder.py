"""Decodes values of the AMQP 1.0 type system. All input is untrusted."""

import struct
from collections.abc import Callable
from typing import Any, Final
from uuid import UUID

from mqlab.wire.amqp10.types import AmqpDecodeError, Described, Symbol

# Any: only the constructor of a value tells its type.
Decoded = Any
Reader = Callable[[bytes, int, int], tuple[Decoded, int]]

# Levels of lists, maps, arrays and descriptors in each other.
_MOST_NESTED: Final = 32

_U16, _U32, _U64 = struct.Struct(">H"), struct.Struct(">I"), struct.Struct(">Q")
_I16, _I32, _I64 = struct.Struct(">h"), struct.Struct(">i"), struct.Struct(">q")
_I8, _F32, _F64 = struct.Struct(">b"), struct.Struct(">f"), struct.Struct(">d")
_u32: Final = _U32.unpack_from
# The errors that malformed bytes raise: too short, not UTF-8, a map with a key that is a list.
_ERRORS: Final = (IndexError, struct.error, UnicodeDecodeError, TypeError)


def decode(data: bytes, at: int = 0) -> tuple[Decoded, int]:
    """The value that begins there, and the offset after it. Raises AmqpDecodeError."""
    try:
        return _READERS[data[at]](data, at + 1, 0)
    except _ERRORS as error:
        raise AmqpDecodeError(f"not a value of AMQP 1.0: {error}") from error


def decode_all(data: bytes) -> list[Decoded]:
    """All values in the bytes. Raises AmqpDecodeError."""
    values, at = [], 0
    while at < len(data):
        value, at = decode(data, at)
        values.append(value)
    return values


def skip(data: bytes, at: int) -> int:
    """The offset after the value that begins there; its content is not looked at. Raises AmqpDecodeError."""
    try:
        while not data[at]:
            at = skip(data, at + 1)
        code = data[at]
        width = _WIDTHS[code >> 4]
        if width >= 0:
            at += 1 + width
        elif code >> 4 in _SIZE_OF_ONE_BYTE:
            at += 2 + data[at + 1]
        else:
            at += 5 + _u32(data, at + 1)[0]
    except (*_ERRORS, RecursionError) as error:
        raise AmqpDecodeError(f"not a value of AMQP 1.0: {error}") from error
    if at > len(data):
        raise AmqpDecodeError("a value reaches beyond the end of the data")
    return at


# Bytes of a value by the first digit of its constructor; -1: the bytes begin with their size.
_WIDTHS: Final = (-1, -1, -1, -1, 0, 1, 2, 4, 8, 16, -1, -1, -1, -1, -1, -1)
_SIZE_OF_ONE_BYTE: Final = (0xA, 0xC, 0xE)


def _constant(value: object) -> Reader:
    return lambda _data, at, _depth: (value, at)


def _number(form: struct.Struct) -> Reader:
    unpack, size = form.unpack_from, form.size
    return lambda data, at, _depth: (unpack(data, at)[0], at + size)


def _ubyte(data: bytes, at: int, _depth: int) -> tuple[int, int]:
    return data[at], at + 1


def _boolean(data: bytes, at: int, _depth: int) -> tuple[bool, int]:
    if data[at] > 1:
        raise AmqpDecodeError("a boolean is neither 0 nor 1")
    return data[at] == 1, at + 1


def _character(data: bytes, at: int, _depth: int) -> tuple[str, int]:
    code = _u32(data, at)[0]
    if code > 0x10FFFF:
        raise AmqpDecodeError("a character beyond the end of Unicode")
    return chr(code), at + 4


def _opaque(size: int) -> Reader:
    """A decimal number, whose bytes stay as they are."""
    return lambda data, at, _depth: (_part(data, at, at + size), at + size)


def _uuid(data: bytes, at: int, _depth: int) -> tuple[UUID, int]:
    return UUID(bytes=_part(data, at, at + 16)), at + 16


def _part(data: bytes, begin: int, end: int) -> bytes:
    if end > len(data):
        raise AmqpDecodeError("a value reaches beyond the end of the data")
    return data[begin:end]


def _binary8(data: bytes, at: int, _depth: int) -> tuple[bytes, int]:
    end = at + 1 + data[at]
    return _part(data, at + 1, end), end


def _binary32(data: bytes, at: int, _depth: int) -> tuple[bytes, int]:
    end = at + 4 + _u32(data, at)[0]
    return _part(data, at + 4, end), end


def _string8(data: bytes, at: int, _depth: int) -> tuple[str, int]:
    end = at + 1 + data[at]
    return _part(data, at + 1, end).decode(), end


def _string32(data: bytes, at: int, _depth: int) -> tuple[str, int]:
    end = at + 4 + _u32(data, at)[0]
    return _part(data, at + 4, end).decode(), end


def _symbol8(data: bytes, at: int, _depth: int) -> tuple[Symbol, int]:
    end = at + 1 + data[at]
    return Symbol(_part(data, at + 1, end).decode("ascii")), end


def _symbol32(data: bytes, at: int, _depth: int) -> tuple[Symbol, int]:
    end = at + 4 + _u32(data, at)[0]
    return Symbol(_part(data, at + 4, end).decode("ascii")), end


def _extent(data: bytes, at: int, width: int) -> tuple[int, int, int]:
    """Size and count of a list, map or array: the offsets of its content and its end, and the count."""
    if width == 1:
        end, count = at + 1 + data[at], data[at + 1]
    else:
        end, count = at + 4 + _u32(data, at)[0], _u32(data, at + 4)[0]
    begin = at + 2 * width
    # Each element has a byte or more, so that a short message cannot make a long list.
    if end > len(data) or begin + count > end:
        raise AmqpDecodeError("a list reaches beyond the end of the data")
    return begin, end, count


def _elements(data: bytes, begin: int, end: int, count: int, depth: int) -> list[Decoded]:
    if depth >= _MOST_NESTED:
        raise AmqpDecodeError(f"more than {_MOST_NESTED} lists in each other")
    values, at = [], begin
    for _ in range(count):
        value, at = _READERS[data[at]](data, at + 1, depth + 1)
        values.append(value)
    if at != end:
        raise AmqpDecodeError("a list has another size than it announces")
    return values


def _list(width: int) -> Reader:
    def read(data: bytes, at: int, depth: int) -> tuple[list[Decoded], int]:
        begin, end, count = _extent(data, at, width)
        return _elements(data, begin, end, count, depth), end

    return read


def _map(width: int) -> Reader:
    def read(data: bytes, at: int, depth: int) -> tuple[dict[Decoded, Decoded], int]:
        begin, end, count = _extent(data, at, width)
        if count % 2:
            raise AmqpDecodeError("a map has a key without a value")
        values = _elements(data, begin, end, count, depth)
        return dict(zip(values[::2], values[1::2], strict=True)), end

    return read


def _array(width: int) -> Reader:
    def read(data: bytes, at: int, depth: int) -> tuple[list[Decoded], int]:
        if depth >= _MOST_NESTED:
            raise AmqpDecodeError(f"more than {_MOST_NESTED} lists in each other")
        begin, end, count = _extent(data, at, width)
        descriptor, described, at = None, not data[begin], begin
        if described:
            descriptor, at = _READERS[data[begin + 1]](data, begin + 2, depth + 1)
        reader, at = _READERS[data[at]], at + 1
        values = []
        for _ in range(count):
            value, at = reader(data, at, depth + 1)
            values.append(Described(descriptor, value) if described else value)
        if at != end:
            raise AmqpDecodeError("an array has another size than it announces")
        return values, end

    return read


def _described(data: bytes, at: int, depth: int) -> tuple[Described, int]:
    if depth >= _MOST_NESTED:
        raise AmqpDecodeError(f"more than {_MOST_NESTED} descriptors in each other")
    descriptor, at = _READERS[data[at]](data, at + 1, depth + 1)
    value, at = _READERS[data[at]](data, at + 1, depth + 1)
    return Described(descriptor, value), at


def _unknown(_data: bytes, _at: int, _depth: int) -> tuple[None, int]:
    raise AmqpDecodeError("an unknown constructor of a value")


_KNOWN: Final[dict[int, Reader]] = {
    0x00: _described, 0x40: _constant(None), 0x41: _constant(True), 0x42: _constant(False), 0x43: _constant(0),
    0x44: _constant(0), 0x45: lambda _data, at, _depth: ([], at), 0x50: _ubyte, 0x51: _number(_I8), 0x52: _ubyte,
    0x53: _ubyte, 0x54: _number(_I8), 0x55: _number(_I8), 0x56: _boolean, 0x60: _number(_U16), 0x61: _number(_I16),
    0x70: _number(_U32), 0x71: _number(_I32), 0x72: _number(_F32), 0x73: _character, 0x74: _opaque(4),
    0x80: _number(_U64), 0x81: _number(_I64), 0x82: _number(_F64), 0x83: _number(_I64), 0x84: _opaque(8),
    0x94: _opaque(16), 0x98: _uuid, 0xA0: _binary8, 0xA1: _string8, 0xA3: _symbol8, 0xB0: _binary32, 0xB1: _string32,
    0xB3: _symbol32, 0xC0: _list(1), 0xC1: _map(1), 0xD0: _list(4), 0xD1: _map(4), 0xE0: _array(1), 0xF0: _array(4),
}  # fmt: skip
_READERS: Final = [_KNOWN.get(code, _unknown) for code in range(256)]
