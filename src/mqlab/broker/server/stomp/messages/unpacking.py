"""Encodes deliveries as MESSAGE frames."""

import re
from collections.abc import Callable
from typing import Final

import numpy as np

from mqlab.broker.core.dispatch.selection import as_text
from mqlab.broker.server.adapter.property_names import header_name
from mqlab.broker.server.stomp.messages.destination_names import stomp_name
from mqlab.broker.server.stomp.messages.headers import MESSAGE_HEADERS, TRANSPORT_HEADERS
from mqlab.wire.native.bodies import COLUMNS, SINGLE, Payload, decode
from mqlab.wire.native.columns import PROPERTY, Decoded, decode_batch, decode_single
from mqlab.wire.stomp.batch_encoder import decimals, equal_widths, paste
from mqlab.wire.stomp.frames import escape

# Characters that no header may contain, and in STOMP 1.0, which has no escapes, no value.
_FORBIDDEN: Final = re.compile("[\0]")
_FORBIDDEN_1_0: Final = re.compile("[\0\r\n]")


def header_line(name: str, value: str, version: str) -> bytes:
    """Encode a header. Characters that the version cannot escape become blanks."""
    if version == "1.0":
        name, value = _FORBIDDEN_1_0.sub(" ", name).replace(":", " "), _FORBIDDEN_1_0.sub(" ", value)
    else:
        name, value = _FORBIDDEN.sub(" ", name), _FORBIDDEN.sub(" ", value)
    return f"{escape(name, version)}:{escape(value, version)}\n".encode(errors="replace")


class MessageWriter:
    """Writes the messages of one subscription. `tag` is the prefix of their ids."""

    def __init__(self, version: str, tag: bytes, *, acknowledged: bool) -> None:
        self._version = version
        self._tag = tag
        # STOMP 1.2 repeats the id in the header `ack`.
        self._has_ack = acknowledged and version == "1.2"

    def write(self, head: bytes, first: int, payload: Payload) -> bytes:
        """`head` has the headers that all messages share; `first` is the delivery id of the first message."""
        if payload.form & SINGLE:
            return self._single(head, first, payload)
        if payload.form & COLUMNS:
            return self._rows(head, first, payload)
        bodies = decode(payload)
        table = bodies.table()
        if table is None:
            return b"".join([self._message(head, first + at, b"", body) for at, body in enumerate(bodies.tolist())])
        ids = np.arange(first, first + payload.rows)
        rest = b"\ncontent-length:%d\n\n" % table.shape[1]
        written = []
        for begin, end in equal_widths(ids):
            digits = decimals(ids[begin:end])
            ack = (b"\nack:" + self._tag, digits) if self._has_ack else ()
            components = (head + b"message-id:" + self._tag, digits, *ack, rest, table[begin:end], b"\0")
            written.append(paste(end - begin, components))
        return b"".join(written)

    def _single(self, head: bytes, number: int, payload: Payload) -> bytes:
        single = decode_single(payload)
        lines = b"".join([self._line(name, value) for name, value in single.values.items()]) if single.values else b""
        return self._message(head, number, lines, single.body)

    def _rows(self, head: bytes, first: int, payload: Payload) -> bytes:
        batch = decode_batch(payload)
        columns = [
            [b"" if value is None else self._line(name, value) for value in array.to_pylist()]
            for name, array in zip(batch.schema.names[1:], batch.columns[1:], strict=True)
        ]
        lines = [b"".join(row) for row in zip(*columns, strict=True)]
        bodies = batch.column(0).to_pylist()
        return b"".join([self._message(head, first + at, lines[at], body) for at, body in enumerate(bodies)])

    def _message(self, head: bytes, number: int, lines: bytes, body: bytes | memoryview) -> bytes:
        tag = self._tag
        ids = b"message-id:%b%d\n" % (tag, number)
        if self._has_ack:
            ids += b"ack:%b%d\n" % (tag, number)
        return b"".join((head, ids, lines, b"content-length:%d\n\n" % len(body), body, b"\0"))

    def _line(self, name: str, value: Decoded) -> bytes:
        if name.startswith(PROPERTY):
            header = header_name(name[1:])
            return b"" if header in TRANSPORT_HEADERS else header_line(header, _text(value), self._version)
        if name not in MESSAGE_HEADERS:
            return b""
        return header_line(MESSAGE_HEADERS[name], _FORMATTERS.get(name, _text)(value), self._version)


def _text(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)


_FORMATTERS: Final[dict[str, Callable[[Decoded], str]]] = {"reply_to": stomp_name, "id": as_text}
