"""Packs the messages of a connection. Many have the same header and properties, which are then read once."""

from typing import Final

from mqlab.broker.server.amqp.messages.packing import MessageRow, pack_message
from mqlab.wire.amqp10.sections import DATA, section_head, split_sections

# Columns whose value depends on the time at which the message comes.
_TIMED: Final = frozenset(("expiration", "deliver_at"))
_LONGEST_PREFIX: Final = 1024
_SHORT, _LONG = section_head(DATA, 0)[:4], section_head(DATA, 256)[:4]


class MessagePacker:
    def __init__(self) -> None:
        # The bytes before the data section of a message, and the columns that they became.
        self._prefix = b""
        self._row: MessageRow | None = None
        # Those of the last message: they are kept if the next one has the same.
        self._last: bytes | None = None

    def pack(self, data: bytes, now_ms: int) -> MessageRow:
        """The same as `pack_message`. Raises AmqpDecodeError."""
        known = self._row
        if known is not None and data.startswith(self._prefix):
            body = _only_data_section(data, len(self._prefix))
            if body is not None:
                return MessageRow(known.names, known.letters, known.values, body, known.persistent)
        row = pack_message(data, now_ms)
        self._keep(data, row)
        return row

    def _keep(self, data: bytes, row: MessageRow) -> None:
        at = len(data) - len(section_head(DATA, len(row.body))) - len(row.body)
        if not 0 <= at <= _LONGEST_PREFIX:
            return
        prefix = data[:at]
        if prefix != self._last:
            self._last = prefix
            return
        last = split_sections(data)[-1]
        if (last.code, last.begin) == (DATA, at) and _TIMED.isdisjoint(row.names):
            self._prefix, self._row = prefix, row


def _only_data_section(data: bytes, at: int) -> bytes | None:
    """The content of the data section that is there and reaches to the end; None if there is another thing."""
    form = data[at : at + 4]
    if form == _SHORT and len(data) > at + 4 and at + 5 + data[at + 4] == len(data):
        return data[at + 5 :]
    if form == _LONG and len(data) >= at + 8 and at + 8 + int.from_bytes(data[at + 4 : at + 8]) == len(data):
        return data[at + 8 :]
    return None
