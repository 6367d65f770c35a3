"""The null server of AMQP 0-9-1. Messages that follow each other are passed over as a whole; only methods are read."""

from typing import Any, Final

import numpy as np

from mqlab.drivers.null_server.api import NullServer
from mqlab.wire.amqp import PROTOCOL_HEADER, AmqpError, Method, method
from mqlab.wire.amqp.content import CONTENT
from mqlab.wire.amqp.methods import BODY, FRAME, FRAME_EXTRA, HEADER, METHOD, frame, read_method
from mqlab.wire.fixed_rows import as_table, count_equal_rows

_FRAME_MAX: Final = 128 * 1024
_PUBLISH: Final = b"\0\x3c\0\x28"
_START: Final = method(0, "connection.start", 0, 9, {}, b"PLAIN", b"en_US")
_ANSWERS: Final[dict[str, tuple[Any, ...]]] = {
    "connection.start-ok": ("connection.tune", 2047, _FRAME_MAX, 0), "connection.open": ("connection.open-ok", ""),
    "connection.close": ("connection.close-ok",), "channel.open": ("channel.open-ok", b""),
    "channel.close": ("channel.close-ok",), "channel.flow": ("channel.flow-ok", True),
    "exchange.declare": ("exchange.declare-ok",),
    "queue.declare": ("queue.declare-ok", "null", 0, 0), "queue.bind": ("queue.bind-ok",),
    "queue.delete": ("queue.delete-ok", 0), "basic.qos": ("basic.qos-ok",), "basic.consume": ("basic.consume-ok", "c"),
    "tx.select": ("tx.select-ok",), "tx.commit": ("tx.commit-ok",), "confirm.select": ("confirm.select-ok",),
}  # fmt: skip


class AmqpNullServer(NullServer):
    def __init__(self, size: int, batch: int) -> None:
        super().__init__(size, batch)
        self._rest = b""
        self._prefetch = 0
        self._confirming = False
        self._published = 0
        # Of the one consumer: its messages, where their tags are, the last tag, and the last one acknowledged.
        self._table: Any = None
        self._tag_at = 0
        self._last = self._done = 0

    def received(self, data: memoryview) -> None:
        seen = self._rest + bytes(data)
        at, before = 0, self._published
        if seen.startswith(PROTOCOL_HEADER):
            self.write(_START)
            at = len(PROTOCOL_HEADER)
        channel = 0
        while len(seen) - at >= FRAME_EXTRA:
            kind, channel, size = FRAME.unpack_from(seen, at)
            end = at + size + FRAME_EXTRA
            if end > len(seen):
                break
            if kind == METHOD and seen[at + FRAME.size : at + FRAME.size + 4] == _PUBLISH:
                end += self._passed_over(seen, at)
                self._published += 1
            elif kind == METHOD:
                self._answer(read_method(channel, seen[at + FRAME.size : end - 1]))
            at = end
        self._rest = seen[at:]
        if self._confirming and self._published > before:
            self.write(method(channel, "basic.ack", self._published, True))

    def more(self) -> bytes | None:
        if self._table is None:
            return None
        rows = len(self._table)
        if self._prefetch and self._last - self._done + rows > self._prefetch:
            rows = min(rows, self._prefetch - (self._last - self._done))
        # Not in ever smaller pieces.
        if rows < min(len(self._table), self._prefetch // 2 or 1):
            return None
        tags = np.arange(self._last + 1, self._last + 1 + rows, dtype=">u8").view(np.uint8).reshape(rows, 8)
        self._table[:rows, self._tag_at : self._tag_at + 8] = tags
        self._last += rows
        sent: bytes = self._table[:rows].tobytes()
        return sent

    def _passed_over(self, seen: bytes, at: int) -> int:
        """Bytes of whole messages like the one that begins here, without its method; counts all but that one."""
        try:
            length, body_at = _message(seen, at)
        except AmqpError:
            return 0
        method_size = int(FRAME.unpack_from(seen, at)[2]) + FRAME_EXTRA
        rows = count_equal_rows(as_table(seen, at, (len(seen) - at) // length, length), ((0, body_at),))
        self._published += rows - 1
        return rows * length - method_size

    def _answer(self, said: Method) -> None:
        if said.name == "basic.qos":
            self._prefetch = said.arguments[1]
        elif said.name == "confirm.select":
            self._confirming = True
        elif said.name == "basic.ack":
            self._done = said.arguments[0]
        answer = _ANSWERS.get(said.name)
        if answer is not None:
            self.write(method(said.channel, *answer))
        if said.name == "basic.consume":
            self._consumed(said.channel)
        elif said.name == "channel.close":
            self._table = None

    def _consumed(self, channel: int) -> None:
        head = method(channel, "basic.deliver", "c", 0, False, "exchange", "")
        self._tag_at = FRAME.size + 4 + 2
        head += frame(HEADER, channel, CONTENT.pack(60, 0, self.size, 0)) + FRAME.pack(BODY, channel, self.size)
        row = np.frombuffer(head + bytes(self.size) + b"\xce", np.uint8)
        self._table = np.tile(row, (self.batch, 1))
        self._table[:, len(head) : len(head) + self.size] = self.bodies


def _message(seen: bytes, at: int) -> tuple[int, int]:
    """The length of the message that begins here, and where its body does. Raises AmqpError if it is not whole."""
    header_at = at + FRAME.unpack_from(seen, at)[2] + FRAME_EXTRA
    if header_at + FRAME_EXTRA + CONTENT.size > len(seen):
        raise AmqpError("not whole")
    body_at = header_at + FRAME.unpack_from(seen, header_at)[2] + FRAME_EXTRA
    size = CONTENT.unpack_from(seen, header_at + FRAME.size)[2]
    end = body_at + (size + FRAME_EXTRA if size else 0)
    if end > len(seen) or size > _FRAME_MAX:
        raise AmqpError("not whole")
    return end - at, min(body_at + FRAME.size, end) - at
