"""Encodes messages: checks their headers and properties, and adds ids and timestamps."""

import secrets
import struct
import time
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple, TypedDict

import numpy as np

from mqlab.client.message import DEFAULT_PRIORITY
from mqlab.wire.native.bodies import Buffer, Payload, as_body
from mqlab.wire.native.columns import (
    HEADERS,
    PROPERTY,
    ColumnLayout,
    Value,
    encode_batch,
    encode_single,
    encode_texts,
    is_property_name,
    layout_of_columns,
)

# The reserved words of selectors.
_RESERVED: Final = frozenset(("NULL", "TRUE", "FALSE", "NOT", "AND", "OR", "BETWEEN", "LIKE", "IN", "IS", "ESCAPE"))
_INTEGERS: Final = {"b": 1 << 7, "h": 1 << 15, "i": 1 << 31, "q": 1 << 63}
_TEXTS: Final = frozenset(name for name, letter in HEADERS.items() if letter == "s")
# The current time plus this still fits 64 bits.
_MAX_DURATION_MS: Final = 1 << 61


class Byte(int):
    """A property of 8 bits. A plain int becomes a long, of 64 bits."""


class Short(int):
    """A property of 16 bits."""


class Int(int):
    """A property of 32 bits."""


class Float(float):
    """A property of 32 bits; a plain float has 64."""


_LETTERS: Final[Mapping[type, str]] = {
    bool: "?", Byte: "b", Short: "h", Int: "i", int: "q", Float: "f", float: "d", str: "s"
}  # fmt: skip


def property_type(name: str, value: Value) -> str:
    """The type letter of a property. Raises TypeError or ValueError for an invalid name or value."""
    is_reserved = name.startswith("JMS") and name[3:4] not in ("X", "_")
    if not is_property_name(name) or name.upper() in _RESERVED or is_reserved:
        raise ValueError(f"{name!r} cannot name a property: identifiers can, unless reserved by selectors or JMS")
    letter = _LETTERS.get(type(value))
    if letter is None:
        raise TypeError(
            f"property {name}: {type(value).__name__} cannot be a property; bool, Byte, Short, Int, int, Float, float "
            "and str can"
        )
    if not _fits(letter, value):
        raise ValueError(f"property {name}: {value!r} does not fit its type")
    return letter


def _fits(letter: str, value: Value) -> bool:
    limit = _INTEGERS.get(letter)
    if limit is not None and isinstance(value, int):
        return -limit <= value < limit
    if letter == "f":
        try:
            struct.pack("<f", value)
        except OverflowError:
            return False
    return True


class Headers(TypedDict, total=False):
    """Headers of one message. Times are in milliseconds."""

    correlation_id: str | None
    reply_to: str | None
    type: str | None
    group: str | None
    # The broker confirms and discards a second message with the same id to the same destination.
    duplicate_id: str | None
    # Instead of the producer's defaults.
    priority: int | None
    time_to_live: int | None
    delay: int | None


class ProducerDefaults(NamedTuple):
    """Headers of all messages of a producer, unless one has its own."""

    priority: int = DEFAULT_PRIORITY
    # Milliseconds until a message expires (0: never), and until it may be delivered (0: at once).
    time_to_live: int = 0
    delay: int = 0
    # Whether each message gets an id and the time of its send.
    ids: bool = True
    timestamps: bool = True

    @property
    def are_default(self) -> bool:
        return self.priority == DEFAULT_PRIORITY and not self.time_to_live and not self.delay


class MessageEncoder:
    """Encodes the messages of one producer. An id is 8 random bytes of the producer and the number of the message."""

    def __init__(self, defaults: ProducerDefaults) -> None:
        _check(defaults.priority, defaults.time_to_live, defaults.delay)
        self.defaults = defaults
        self._token = secrets.token_bytes(8)
        self._names = (("id",) if defaults.ids else ()) + (("timestamp",) if defaults.timestamps else ())
        self._letters = "".join(HEADERS[name] for name in self._names)
        self._stamps_all = defaults.ids and defaults.timestamps
        self._default_numbers = defaults.are_default
        # Column layouts of messages by the names of their string headers.
        self._layouts: dict[tuple[str, ...], ColumnLayout] = {}
        self._next = 1

    def message(self, body: Buffer, headers: Headers, properties: Mapping[str, Value] | None) -> Payload:
        """Encode one message. Raises TypeError or ValueError for an invalid header or property."""
        layout = None if properties else self._layouts.get(tuple(headers))
        try:
            if layout is None:
                return self._any_message(body, headers, properties)
            texts: Any = headers  # mypy does not narrow the values of a TypedDict
            try:
                strings = [*map(str.encode, texts.values())]
            except TypeError:
                return self._any_message(body, headers, properties)
            stamps = self._next_stamp(_now_ms())
            return encode_texts(body if type(body) is bytes else as_body(body), layout, stamps, texts, strings)
        except UnicodeEncodeError as error:
            raise ValueError(f"{error.object!r} is not a text: it has half of a surrogate pair") from error

    def _any_message(self, body: Buffer, headers: Headers, properties: Mapping[str, Value] | None) -> Payload:
        now = _now_ms()
        names, letters, values = [*self._names], self._letters, [*self._next_stamp(now).values()]
        numbers: dict[str, object] = {}
        for name, value in headers.items():
            if value is None:
                continue
            if name not in _TEXTS:
                numbers[name] = value
            elif isinstance(value, str):
                names.append(name)
                letters += "s"
                values.append(value)
            else:
                raise TypeError(f"{name}: a text, not {type(value).__name__}")
        if numbers or not self._default_numbers:
            for name, number in self._numbers(numbers, now).items():
                names.append(name)
                letters += HEADERS[name]
                values.append(number)
        for name, property_value in (properties or {}).items():
            letters += property_type(name, property_value)
            names.append(PROPERTY + name)
            values.append(property_value)
        is_textual = names and not properties and _TEXTS.issuperset(headers) and None not in headers.values()
        if is_textual and self._default_numbers:
            # The next message with the same string headers takes the shorter path.
            self._layouts[tuple(headers)] = layout_of_columns(tuple(names), letters)
        return encode_single(as_body(body), tuple(names), letters, values)

    def batch(self, bodies: Sequence[bytes]) -> Payload:
        """Encode messages that have no headers of their own."""
        rows, now = len(bodies), _now_ms()
        if rows == 1 and self._default_numbers:
            return encode_single(bodies[0], self._names, self._letters, [*self._next_stamp(now).values()])
        if rows == 1:
            return self.message(bodies[0], {}, None)
        headers = {}
        if self.defaults.ids:
            headers["id"] = self._next_ids(rows)
        if self.defaults.timestamps:
            headers["timestamp"] = _repeated("timestamp", now, rows)
        if not self._default_numbers:
            headers |= {name: _repeated(name, value, rows) for name, value in self._numbers({}, now).items()}
        return encode_batch(bodies, headers)

    def _next_stamp(self, now: int) -> dict[str, Value]:
        if not self._names:
            return {}
        number = self._next
        self._next = number + 1
        stamps: dict[str, Value] = {"id": self._token + number.to_bytes(8, "big"), "timestamp": now}
        return stamps if self._stamps_all else {name: stamps[name] for name in self._names}

    def _next_ids(self, rows: int) -> bytes:
        ids = np.empty((rows, 2), dtype=">u8")
        ids[:, 0] = int.from_bytes(self._token, "big")
        ids[:, 1] = np.arange(self._next, self._next + rows)
        self._next += rows
        return ids.tobytes()

    # Any: a TypedDict gives its values as objects; `_check` refuses those that are not whole numbers.
    def _numbers(self, chosen: dict[str, Any], now: int) -> dict[str, int]:
        """The numeric headers as they are sent: absolute times, without default values."""
        defaults = self.defaults
        priority = chosen.pop("priority", defaults.priority)
        time_to_live, delay = chosen.pop("time_to_live", defaults.time_to_live), chosen.pop("delay", defaults.delay)
        if chosen:
            raise TypeError(f"a message has no header {min(chosen)!r}; it has: {', '.join(Headers.__annotations__)}")
        _check(priority, time_to_live, delay)
        headers: dict[str, int] = {}
        if priority != DEFAULT_PRIORITY:
            headers["priority"] = priority
        if time_to_live:
            headers["expiration"] = now + time_to_live
        if delay:
            headers["deliver_at"] = now + delay
        return headers


def _repeated(header: str, value: int, rows: int) -> bytes:
    return struct.pack("<" + HEADERS[header], value) * rows


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


def _check(priority: object, time_to_live: object, delay: object) -> None:
    if not _is_whole(priority, 9):
        raise ValueError(f"priority: {priority!r} is not a whole number from 0 to 9")
    for name, value in (("time_to_live", time_to_live), ("delay", delay)):
        if not _is_whole(value, _MAX_DURATION_MS):
            raise ValueError(f"{name}: {value!r} is not a number of milliseconds of 0 or more")


def _is_whole(value: object, maximum: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= maximum
