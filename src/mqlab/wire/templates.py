"""Message templates: messages that differ in one header and the body are encoded and decoded by known offsets.

Without them, RR1 has 12 % fewer round trips a second of processor time (`bench/cpu_time.py OLD --key RR1`).
`test_template_equals_encode_single` and `test_template_equals_decode_single` prove that the general functions give the
same messages.
"""

import struct
from collections.abc import Sequence
from typing import Final

from mqlab.wire.native.columns import layout_of_columns
from mqlab.wire.native.payload import COLUMNS, SINGLE, Buffer, Payload

_SINGLE_COLUMNS: Final = SINGLE | COLUMNS
_LENGTH: Final = struct.Struct("<I")
_pack, _unpack = _LENGTH.pack, _LENGTH.unpack_from


class MessageTemplate:
    """Single messages whose headers are these texts: the first differs from message to message, the others do not."""

    def __init__(self, names: Sequence[str], others: Sequence[str] = ()) -> None:
        layout, rest = layout_of_columns(tuple(names), "s" * len(names)), [text.encode() for text in others]
        self.name = names[0]
        self._column_list = layout.written
        self._lengths = b"".join(_pack(len(text)) for text in rest)
        self._rest = b"".join(rest)
        # Offsets of the length of the first text, of the lengths of the others, and of the text.
        self._length_at, self._lengths_at = layout.size, layout.size + _LENGTH.size
        self._text_at = layout.strings_at

    def message(self, text: str, body: bytes) -> Payload:
        first = text.encode()
        parts = (self._column_list, _pack(len(first)), self._lengths, first, self._rest, body)
        return Payload(b"".join(parts), 1, _SINGLE_COLUMNS)

    def body(self, payload: Payload, text: str) -> bytes | None:
        """The body of a message of this template with that text; None if the message is different."""
        data, _, form = payload
        before = self.message(text, b"").data
        size = len(before)
        return bytes(data[size:]) if form == _SINGLE_COLUMNS and data[:size] == before else None

    def parts(self, payload: Payload) -> tuple[str, Buffer] | None:
        """Text and body of a message of this template; None if the message is different."""
        data, _, form = payload
        lengths_at, text_at = self._lengths_at, self._text_at
        if form != _SINGLE_COLUMNS or len(data) < text_at or data[: self._length_at] != self._column_list:
            return None
        end = text_at + _unpack(data, self._length_at)[0]
        begin = end + len(self._rest)
        if begin > len(data) or data[lengths_at:text_at] != self._lengths or data[end:begin] != self._rest:
            return None
        return str(data[text_at:end], "utf-8"), data[begin:]
