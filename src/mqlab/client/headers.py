"""What a producer says of a message beside its body, checked and put into the columns of the wire."""

from __future__ import annotations

import secrets
import struct
import time
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple, TypedDict

import numpy as np
import pyarrow as pa

from mqlab.client.message import DEFAULT_PRIORITY
from mqlab.wire.native.bodies import BINARY, Buffer, Payload, as_body, encode
from mqlab.wire.native.columns import (
    HEADERS,
    PROPERTY,
    ColumnLayout,
    Value,
    encode_columns,
    encode_single,
    encode_texts,
    is_property_name,
    layout_of_columns,
)

# Words that selectors keep for themselves.
_RESERVED: Final = frozenset(("NULL", "TRUE", "FALSE", "NOT", "AND", "OR", "BETWEEN", "LIKE", "IN", "IS", "ESCAPE"))
_INTEGERS: Final = {"b": 1 << 7, "h": 1 << 15, "i": 1 << 31, "q": 1 << 63}
_TEXTS: Final = frozenset(name for name, letter in HEADERS.items() if letter == "s")
# With any of these added to the time of today, 64 bits are enough.
_MOST_MILLISECONDS: Final = 1 << 61


class Byte(int):
    """A property of 8 bits; a plain int is a long, as in most languages a whole number without a suffix is not."""


class Short(int):
    """A property of 16 bits."""


class Int(int):
    """A property of 32 bits."""


class Float(float):
    """A property of 32 bits; a plain float has 64."""


_LETTERS: Final[Mapping[type, str]] = {
    bool: "?", Byte: "b", Short: "h", Int: "i", int: "q", Float: "f", float: "d", str: "s"
}  # fmt: skip


def letter_of(name: str, value: Value) -> str:
    """The type of a property. Raises TypeError or ValueError for what none can be."""
    of_the_broker = name.startswith("JMS") and name[3:4] not in ("X", "_")
    if not is_property_name(name) or name.upper() in _RESERVED or of_the_broker:
        raise ValueError(f"{name!r} is no name of a property: an identifier, no word of selectors, not JMS in front")
    letter = _LETTERS.get(type(value))
    if letter is None:
        raise TypeError(
            f"property {name}: {type(value).__name__} is no type of a property: bool, Byte, Short, Int, int, Float, "
            "float or str"
        )
    if not _fits(letter, value):
        raise ValueError(f"property {name}: {value!r} does not fit its type")
    return letter


def _fits(letter: str, value: Any) -> bool:
    most = _INTEGERS.get(letter)
    if most is not None:
        return bool(-most <= value < most)
    if letter == "f":
        try:
            struct.pack("<f", value)
        except OverflowError:
            return False
    return True


class Headers(TypedDict, total=False):
    """What can be said of one message. Times are milliseconds."""

    correlation_id: str | None
    reply_to: str | None
    type: str | None
    group: str | None
    # A second message with the same id to the same destination is confirmed, and forgotten.
    duplicate_id: str | None
    # In place of what the producer says of all its messages.
    priority: int | None
    time_to_live: int | None
    delay: int | None


class Standing(NamedTuple):
    """What a producer says of all its messages, unless it says otherwise of one."""

    priority: int = DEFAULT_PRIORITY
    # Milliseconds after which a message expires, and before which it is not delivered; 0: never, at once.
    time_to_live: int = 0
    delay: int = 0
    # Whether each message gets an id and the time of its sending: without, the wire carries less.
    ids: bool = True
    timestamps: bool = True

    @property
    def plain(self) -> bool:
        return self.priority == DEFAULT_PRIORITY and not self.time_to_live and not self.delay


class Stamp:
    """Gives the messages of one producer their ids: 8 random bytes of the producer, and the number of the message."""

    def __init__(self, standing: Standing) -> None:
        _check(standing.priority, standing.time_to_live, standing.delay)
        self.standing = standing
        self._token = secrets.token_bytes(8)
        self._names = (("id",) if standing.ids else ()) + (("timestamp",) if standing.timestamps else ())
        self._letters = "".join(HEADERS[name] for name in self._names)
        self._stamps_all = standing.ids and standing.timestamps
        self._plain = standing.plain
        # Messages say only what is said of each.
        self.adds_nothing = standing.plain and not self._names
        # The columns of messages with just these texts.
        self._shapes: dict[tuple[str, ...], ColumnLayout] = {}
        self._next = 1

    def message(self, body: Buffer, headers: Headers, properties: Mapping[str, Value] | None) -> Payload:
        """One message. Raises TypeError or ValueError for what cannot be said of one."""
        shape = None if properties else self._shapes.get(tuple(headers))
        try:
            if shape is None:
                return self._any_message(body, headers, properties)
            texts: Any = headers
            for text in texts.values():
                if type(text) is not str:
                    return self._any_message(body, headers, properties)
            stamps = self._stamped(_now()) if self._names else {}
            return encode_texts(body if type(body) is bytes else as_body(body), shape, stamps, texts)
        except UnicodeEncodeError as error:
            raise ValueError(f"{error.object!r} is no text: it has half of a character") from error

    def _any_message(self, body: Buffer, headers: Headers, properties: Mapping[str, Value] | None) -> Payload:
        now = _now()
        names, letters, values = [*self._names], self._letters, [*self._stamped(now).values()]
        numbers: dict[str, Any] = {}
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
        if numbers or not self._plain:
            for name, number in self._numbers(numbers, now).items():
                names.append(name)
                letters += HEADERS[name]
                values.append(number)
        for name, one in (properties or {}).items():
            letters += letter_of(name, one)
            names.append(PROPERTY + name)
            values.append(one)
        if headers and self._plain and not properties and _TEXTS.issuperset(headers) and None not in headers.values():
            # The next one with the same texts, as most are, need not be taken apart.
            self._shapes[tuple(headers)] = layout_of_columns(tuple(names), letters)
        return encode_single(as_body(body), tuple(names), letters, values)

    def batch(self, bodies: Sequence[Buffer]) -> Payload:
        """Messages with nothing said of them."""
        rows = len(bodies)
        now = _now()
        if rows == 1 and self._plain:
            return encode_single(bodies[0], self._names, self._letters, [*self._stamped(now).values()])
        if rows == 1:
            return self.message(bodies[0], {}, None)
        if self._plain and not self._names:
            return encode(bodies)
        columns = self._stamps(rows, now)
        for name, value in self._numbers({}, now).items():
            columns[name] = pa.array(np.full(rows, value, dtype=np.int8 if name == "priority" else np.int64))
        return encode_columns(pa.array(bodies, type=BINARY), columns)

    def _stamped(self, now: int) -> dict[str, Value]:
        if not self._names:
            return {}
        number = self._next
        self._next = number + 1
        stamps: dict[str, Value] = {"id": self._token + number.to_bytes(8, "big"), "timestamp": now}
        return stamps if self._stamps_all else {name: stamps[name] for name in self._names}

    def _stamps(self, rows: int, now: int) -> dict[str, pa.Array]:
        columns = {}
        if self.standing.ids:
            ids = np.empty((rows, 2), dtype=">u8")
            ids[:, 0] = int.from_bytes(self._token, "big")
            ids[:, 1] = np.arange(self._next, self._next + rows)
            self._next += rows
            columns["id"] = pa.Array.from_buffers(pa.binary(16), rows, [None, pa.py_buffer(ids)])
        if self.standing.timestamps:
            columns["timestamp"] = pa.array(np.full(rows, now, dtype=np.int64))
        return columns

    def _numbers(self, said: dict[str, Any], now: int) -> dict[str, int]:
        """The headers that are numbers, as they are sent: times counted from now, nothing that goes without saying."""
        standing = self.standing
        priority = said.pop("priority", standing.priority)
        time_to_live, delay = said.pop("time_to_live", standing.time_to_live), said.pop("delay", standing.delay)
        if said:
            raise TypeError(f"a message has no {min(said)!r}; it has: {', '.join(Headers.__annotations__)}")
        _check(priority, time_to_live, delay)
        found: dict[str, int] = {}
        if priority != DEFAULT_PRIORITY:
            found["priority"] = priority
        if time_to_live:
            found["expiration"] = now + time_to_live
        if delay:
            found["deliver_at"] = now + delay
        return found


def _now() -> int:
    return time.time_ns() // 1_000_000


def _check(priority: object, time_to_live: object, delay: object) -> None:
    if not _is_whole(priority, 9):
        raise ValueError(f"priority: {priority!r} is not a whole number from 0 to 9")
    for name, value in (("time_to_live", time_to_live), ("delay", delay)):
        if not _is_whole(value, _MOST_MILLISECONDS):
            raise ValueError(f"{name}: {value!r} is not a number of milliseconds of 0 or more")


def _is_whole(value: object, most: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= most
