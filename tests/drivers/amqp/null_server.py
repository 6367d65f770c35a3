"""The null server of AMQP 0-9-1. It decodes methods, and skips runs of equal messages at once."""

from typing import Final

import numpy as np
import numpy.typing as npt

from drivers.null_servers import NullServer
from mqlab.wire.amqp.content import CONTENT
from mqlab.wire.amqp.handshake import PROTOCOL_HEADER
from mqlab.wire.amqp.methods import BODY, FRAME, FRAME_EXTRA, HEADER, METHOD, Method, frame, method, read_method
from mqlab.wire.amqp.values import AmqpError
from mqlab.wire.fixed_rows import as_table, count_equal_rows

_FRAME_MAX: Final = 128 * 1024
_PUBLISH: Final = b"\0\x3c\0\x28"
_START: Final = method(0, "connection.start", 0, 9, {}, b"PLAIN", b"en_US")
_ANSWERS: Final[dict[str, tuple[object, ...]]] = {
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
        self._confirms = False
        self._published = 0
        # For the one consumer: its messages, the offset of their delivery tags, the last tag sent and acknowledged.
        self._table: npt.NDArray[np.uint8] | None = None
        self._tag_at = 0
        self._last = self._done = 0

    def handle_data(self, received: memoryview) -> None:
        data = self._rest + bytes(received)
        at, before = 0, self._published
        if data.startswith(PROTOCOL_HEADER):
            self.write(_START)
            at = len(PROTOCOL_HEADER)
        channel = 0
        while len(data) - at >= FRAME_EXTRA:
            kind, channel, size = FRAME.unpack_from(data, at)
            end = at + size + FRAME_EXTRA
            if end > len(data):
                break
            if kind == METHOD and data[at + FRAME.size : at + FRAME.size + 4] == _PUBLISH:
                end += self._skip_equal_messages(data, at)
                self._published += 1
            elif kind == METHOD:
                self._answer(read_method(channel, data[at + FRAME.size : end - 1]))
            at = end
        self._rest = data[at:]
        if self._confirms and self._published > before:
            self.write(method(channel, "basic.ack", self._published, True))

    def next_messages(self) -> bytes | None:
        if self._table is None:
            return None
        rows = len(self._table)
        if self._prefetch and self._last - self._done + rows > self._prefetch:
            rows = min(rows, self._prefetch - (self._last - self._done))
        # Wait for more credit rather than send ever smaller batches.
        if rows < min(len(self._table), self._prefetch // 2 or 1):
            return None
        tags = np.arange(self._last + 1, self._last + 1 + rows, dtype=">u8").view(np.uint8).reshape(rows, 8)
        self._table[:rows, self._tag_at : self._tag_at + 8] = tags
        self._last += rows
        return self._table[:rows].tobytes()

    def _skip_equal_messages(self, data: bytes, at: int) -> int:
        """Count the complete messages that equal the one at `at`; return their bytes, without its method frame."""
        try:
            length, body_at = _message(data, at)
        except AmqpError:
            return 0
        method_size = int(FRAME.unpack_from(data, at)[2]) + FRAME_EXTRA
        rows = count_equal_rows(as_table(data, at, (len(data) - at) // length, length), ((0, body_at),))
        self._published += rows - 1
        return rows * length - method_size

    def _answer(self, request: Method) -> None:
        if request.name == "basic.qos":
            self._prefetch = request.arguments[1]
        elif request.name == "confirm.select":
            self._confirms = True
        elif request.name == "basic.ack":
            self._done = request.arguments[0]
        answer = _ANSWERS.get(request.name)
        if answer is not None:
            name, *arguments = answer
            self.write(method(request.channel, str(name), *arguments))
        if request.name == "basic.consume":
            self._prepare_messages(request.channel)
        elif request.name == "channel.close":
            self._table = None

    def _prepare_messages(self, channel: int) -> None:
        head = method(channel, "basic.deliver", "c", 0, False, "exchange", "")
        self._tag_at = FRAME.size + 4 + 2
        head += frame(HEADER, channel, CONTENT.pack(60, 0, self.size, 0)) + FRAME.pack(BODY, channel, self.size)
        row = np.frombuffer(head + bytes(self.size) + b"\xce", np.uint8)
        self._table = np.tile(row, (self.batch, 1))
        self._table[:, len(head) : len(head) + self.size] = self.bodies


def _message(data: bytes, at: int) -> tuple[int, int]:
    """Return the length of the message at `at` and the offset of its body. Raise AmqpError if it is incomplete."""
    header_at = at + FRAME.unpack_from(data, at)[2] + FRAME_EXTRA
    if header_at + FRAME_EXTRA + CONTENT.size > len(data):
        raise AmqpError("incomplete message")
    body_at = header_at + FRAME.unpack_from(data, header_at)[2] + FRAME_EXTRA
    size = CONTENT.unpack_from(data, header_at + FRAME.size)[2]
    end = body_at + (size + FRAME_EXTRA if size else 0)
    if end > len(data) or size > _FRAME_MAX:
        raise AmqpError("incomplete message")
    return end - at, min(body_at + FRAME.size, end) - at
