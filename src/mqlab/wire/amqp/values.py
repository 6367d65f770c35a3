"""Encodes and decodes the values of AMQP 0-9-1: strings, numbers and field tables."""

import struct
from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

from mqlab.errors import MqlabError

# A field table; its values may be tables and lists.
Value = str | bytes | int | float | bool | None | list["Value"] | Mapping[str, "Value"]
Table = Mapping[str, Value]

# Tables of real brokers are two levels deep; a hostile one must not exhaust the stack.
MAX_DEPTH: Final = 8


class AmqpError(MqlabError, ValueError):
    """The peer breaks the protocol or a limit."""


class _Number(NamedTuple):
    form: struct.Struct
    kind: type


# The type letters of RabbitMQ, which differ from those of the specification.
_NUMBERS: Final = {
    ord(letter): _Number(struct.Struct(f">{form}"), kind)
    for letter, form, kind in (
        ("t", "?", bool), ("b", "b", int), ("B", "B", int), ("s", "h", int), ("u", "H", int), ("I", "i", int),
        ("i", "I", int), ("l", "q", int), ("T", "Q", int), ("f", "f", float), ("d", "d", float),
    )
}  # fmt: skip
_LONG: Final = struct.Struct(">I")


def short(text: str) -> bytes:
    raw = text.encode()
    if len(raw) > 255:
        raise AmqpError(f"a name of {len(raw)} bytes, where 255 are the most")
    return bytes((len(raw),)) + raw


def long(raw: bytes) -> bytes:
    return _LONG.pack(len(raw)) + raw


def table(fields: Table) -> bytes:
    return long(b"".join(short(name) + _value(value) for name, value in fields.items()))


def _value(value: Value) -> bytes:
    match value:
        case None:
            return b"V"
        case bool():
            return b"t\x01" if value else b"t\x00"
        case int():
            return b"l" + value.to_bytes(8, "big", signed=True)
        case float():
            return b"d" + struct.pack(">d", value)
        case str():
            return b"S" + long(value.encode())
        case bytes():
            return b"x" + long(value)
        case list():
            return b"A" + long(b"".join(map(_value, value)))
        case _:
            return b"F" + table(value)


class ValueReader:
    """Decodes values in order. Every method raises AmqpError if the bytes end too soon."""

    def __init__(self, data: bytes, at: int = 0) -> None:
        self._data = data
        self._at = at

    def number(self, size: int) -> int:
        return int.from_bytes(self._raw(size), "big")

    def short(self) -> str:
        return _text(self._raw(self.number(1)))

    def long(self) -> bytes:
        return self._raw(self.number(4))

    def table(self, depth: int = 0) -> dict[str, Value]:
        inner = ValueReader(self.long())
        fields: dict[str, Value] = {}
        while inner._more:
            name = inner.short()
            fields[name] = inner._value(depth + 1)
        return fields

    @property
    def _more(self) -> bool:
        return self._at < len(self._data)

    def _raw(self, size: int) -> bytes:
        begin = self._at
        self._at = begin + size
        if self._at > len(self._data):
            raise AmqpError("a frame ends in the middle of a value")
        return self._data[begin : self._at]

    def _value(self, depth: int) -> Value:
        if depth > MAX_DEPTH:
            raise AmqpError(f"a table more than {MAX_DEPTH} deep")
        letter = self.number(1)
        if letter in _NUMBERS:
            form, kind = _NUMBERS[letter]
            number: Value = kind(form.unpack(self._raw(form.size))[0])
            return number
        others: dict[int, Callable[[], Value]] = {
            ord("S"): lambda: _text(self.long()), ord("x"): self.long, ord("V"): lambda: None,
            ord("F"): lambda: self.table(depth), ord("A"): lambda: self._list(depth),
            ord("D"): lambda: [self.number(1), self.number(4)],
        }  # fmt: skip
        if letter not in others:
            raise AmqpError(f"a table has a value of the unknown type {chr(letter)!r}")
        return others[letter]()

    def _list(self, depth: int) -> list[Value]:
        inner = ValueReader(self.long())
        values: list[Value] = []
        while inner._more:
            values.append(inner._value(depth + 1))
        return values


def _text(raw: bytes) -> str:
    # The lab only shows these texts; those of a broker may have any bytes.
    return raw.decode(errors="replace")
