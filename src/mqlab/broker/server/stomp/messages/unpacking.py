"""What the broker delivers, as MESSAGE frames."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, Final

import numpy as np

from mqlab.broker.server.stomp.messages.destination_names import stomp_name
from mqlab.broker.server.stomp.messages.headers import (
    CORRELATION_ID,
    DUPLICATE_ID,
    EXPIRES,
    GROUP,
    MESSAGE_ID,
    NOT_OF_THE_MESSAGE,
    PRIORITY,
    REPLY_TO,
    TIMESTAMP,
    TYPE,
)
from mqlab.broker.server.stomp.messages.properties import header_name
from mqlab.wire.native.bodies import COLUMNS, SINGLE, Payload, decode
from mqlab.wire.native.columns import PROPERTY, decode_batch, decode_single
from mqlab.wire.stomp import decimals, equal_widths, escape, paste

# How each header of a message is called; those that are not here say nothing to a consumer.
_NAMES: Final = {
    "correlation_id": CORRELATION_ID, "reply_to": REPLY_TO, "type": TYPE, "priority": PRIORITY, "expiration": EXPIRES,
    "timestamp": TIMESTAMP, "group": GROUP, "duplicate_id": DUPLICATE_ID, "id": MESSAGE_ID,
}  # fmt: skip
# No client expects these in a header, whatever the version can escape.
_NEVER: Final = re.compile("[\0]")
_NEVER_PLAIN: Final = re.compile("[\0\r\n]")


def header_line(name: str, value: str, version: str) -> bytes:
    """A header as it is written. What the version has no escape for becomes a blank."""
    if version == "1.0":
        name, value = _NEVER_PLAIN.sub(" ", name).replace(":", " "), _NEVER_PLAIN.sub(" ", value)
    else:
        name, value = _NEVER.sub(" ", name), _NEVER.sub(" ", value)
    return f"{escape(name, version)}:{escape(value, version)}\n".encode(errors="replace")


class MessageWriter:
    """Writes what one subscription gets. `tag` begins the ids by which its client acknowledges."""

    def __init__(self, version: str, tag: bytes, *, acknowledged: bool) -> None:
        self._version = version
        self._tag = tag
        # Only 1.2 has a header of its own for that.
        self._twice = acknowledged and version == "1.2"

    def write(self, head: bytes, first: int, payload: Payload) -> bytes:
        """`head` is what all of them have in common; `first` the delivery id of the first."""
        if payload.form & SINGLE:
            return self._single(head, first, payload)
        if payload.form & COLUMNS:
            return self._rows(head, first, payload)
        bodies = decode(payload)
        table = bodies.table()
        if table is None:
            return b"".join([self._one(head, first + at, b"", body) for at, body in enumerate(bodies.tolist())])
        ids = np.arange(first, first + payload.rows)
        rest = b"\ncontent-length:%d\n\n" % table.shape[1]
        written = []
        for begin, end in equal_widths(ids):
            digits = decimals(ids[begin:end])
            again = (b"\nack:" + self._tag, digits) if self._twice else ()
            components = (head + b"message-id:" + self._tag, digits, *again, rest, table[begin:end], b"\0")
            written.append(paste(end - begin, components))
        return b"".join(written)

    def _single(self, head: bytes, number: int, payload: Payload) -> bytes:
        single = decode_single(payload)
        lines = b"".join([self._line(name, value) for name, value in single.values.items()]) if single.values else b""
        return self._one(head, number, lines, single.body)

    def _rows(self, head: bytes, first: int, payload: Payload) -> bytes:
        batch = decode_batch(payload)
        columns = [
            [b"" if value is None else self._line(name, value) for value in array.to_pylist()]
            for name, array in zip(batch.schema.names[1:], batch.columns[1:], strict=True)
        ]
        lines = [b"".join(row) for row in zip(*columns, strict=True)]
        bodies = batch.column(0).to_pylist()
        return b"".join([self._one(head, first + at, lines[at], body) for at, body in enumerate(bodies)])

    def _one(self, head: bytes, number: int, lines: bytes, body: bytes | memoryview) -> bytes:
        tag = self._tag
        ids = b"message-id:%b%d\n" % (tag, number)
        if self._twice:
            ids += b"ack:%b%d\n" % (tag, number)
        return b"".join((head, ids, lines, b"content-length:%d\n\n" % len(body), body, b"\0"))

    def _line(self, name: str, value: Any) -> bytes:
        if name.startswith(PROPERTY):
            header = header_name(name[1:])
            return b"" if header in NOT_OF_THE_MESSAGE else header_line(header, _text(value), self._version)
        if name not in _NAMES:
            return b""
        return header_line(_NAMES[name][0], _SAID.get(name, _text)(value), self._version)


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)


_SAID: Final[dict[str, Callable[[Any], str]]] = {"reply_to": stomp_name, "id": lambda value: f"ID:{value.hex()}"}
