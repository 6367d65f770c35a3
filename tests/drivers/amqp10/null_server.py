"""The null server of AMQP 1.0. It skips runs of equal transfers at once; Proton decodes all other frames."""

import struct
from typing import Any, Final

import numpy as np
import numpy.typing as npt
from proton import UNDESCRIBED, Array, Data, Described, symbol, ubyte, uint, ulong, ushort

from drivers.null_servers import NullServer
from mqlab.drivers.amqp10.messages import encode_before_body, value_span
from mqlab.wire.fixed_rows import as_table, count_equal_rows

# Any: Proton's type of a field is a union of all types of AMQP, and its place in the frame decides which.
_Value = Any
_PROTOCOL_HEADER: Final = b"AMQP"
_PROTOCOL_HEADER_SIZE: Final = 8
_SASL: Final = 3
# Size, data offset (in words of four bytes), type, channel.
_FRAME: Final = struct.Struct(">IBBH")
_OPEN, _BEGIN, _ATTACH, _FLOW, _TRANSFER, _DISPOSITION, _DETACH, _END, _CLOSE = range(0x10, 0x19)
_ACCEPTED: Final = 0x24
_MECHANISMS, _INIT, _OUTCOME = 0x40, 0x41, 0x44
# A described type whose descriptor is a small number, which follows.
_DESCRIBED: Final = b"\x00\x53"
_NULL, _TRUE, _FALSE = 0x40, 0x41, 0x42
# More than any test moves, so windows and credit are granted once.
_UNLIMITED: Final = 2**31 - 1
_MAX_FRAME_BYTES: Final = 1024 * 1024
_WRITE_BYTES: Final = 64 * 1024
# Offset of the delivery id in a transfer of this server: behind the frame, descriptor and list headers and the handle.
_ID_AT: Final = _FRAME.size + 3 + 3 + 5 + 1


class Amqp10NullServer(NullServer):
    def __init__(self, size: int, batch: int) -> None:
        # A frame holds one message, but a broker writes many frames at once.
        super().__init__(size, max(batch, _WRITE_BYTES // size))
        self._rest = b""
        self._max_frame_bytes = _MAX_FRAME_BYTES
        # For each channel: the last delivery id, and the first and last unsettled ones since the last disposition.
        self._last_delivery: dict[int, int] = {}
        self._unsettled: dict[int, tuple[int, int]] = {}
        # For the one receiver: its channel and handle, its messages, the offsets of their delivery ids, how many were
        # sent, how many its credit allows in all, and its largest credit so far.
        self._link: tuple[int, int] | None = None
        self._table: npt.NDArray[np.uint8] = np.empty((0, 0), np.uint8)
        self._ids_at: list[int] = []
        self._sent = self._allowed = self._max_credit = 0

    def handle_data(self, received: memoryview) -> None:
        data, at = self._rest + bytes(received), 0
        while len(data) - at >= _FRAME.size:
            if data.startswith(_PROTOCOL_HEADER, at):
                self._answer_protocol_header(data[at : at + _PROTOCOL_HEADER_SIZE])
                at += _PROTOCOL_HEADER_SIZE
                continue
            size, words, _, channel = _FRAME.unpack_from(data, at)
            if size < _FRAME.size:
                self.abort()
                return
            if at + size > len(data):
                break
            begin = at + 4 * words
            if data[begin : begin + 3] == _DESCRIBED + bytes((_TRANSFER,)):
                at += self._skip_equal_transfers(data, at, size, channel)
                continue
            if begin < at + size:
                self._answer(channel, data[begin : at + size])
            at += size
        self._rest = data[at:]
        for channel, (first, last) in self._unsettled.items():
            accepted = Described(ulong(_ACCEPTED), [])
            self._send(channel, _DISPOSITION, True, uint(first), uint(last), True, accepted)
        self._unsettled.clear()

    def next_messages(self) -> bytes | None:
        if self._link is None:
            return None
        rows = min(len(self._table), self._allowed - self._sent)
        # Wait for more credit rather than send ever smaller batches.
        if rows < min(len(self._table), self._max_credit // 2 or 1):
            return None
        ids = np.arange(self._sent, self._sent + rows, dtype=">u4").view(np.uint8).reshape(rows, 4)
        for at in self._ids_at:
            self._table[:rows, at : at + 4] = ids
        self._sent += rows
        return self._table[:rows].tobytes()

    def _answer_protocol_header(self, header: bytes) -> None:
        self.write(header)
        if header[len(_PROTOCOL_HEADER)] == _SASL:
            mechanisms = Data.SYMBOL, symbol("ANONYMOUS"), symbol("PLAIN")
            known = Array(UNDESCRIBED, *mechanisms)  # type: ignore[arg-type] # Proton's types leave UNDESCRIBED out
            self._send(0, _MECHANISMS, known, kind=1)

    def _answer(self, channel: int, encoded: bytes) -> None:
        code, values = _read(encoded)
        if code == _INIT:
            self._send(0, _OUTCOME, ubyte(0), kind=1)
        elif code == _OPEN:
            self._max_frame_bytes = (
                min(_MAX_FRAME_BYTES, values[2]) if len(values) > 2 and values[2] else _MAX_FRAME_BYTES
            )
            self._send(channel, _OPEN, "null", None, uint(_MAX_FRAME_BYTES))
        elif code == _BEGIN:
            self._send(channel, _BEGIN, ushort(channel), uint(0), uint(_UNLIMITED), uint(_UNLIMITED))
        elif code == _ATTACH:
            self._attach(channel, values)
        elif code == _FLOW and len(values) > 6 and self._link == (channel, values[4]):
            self._allowed = values[5] + values[6]
            self._max_credit = max(self._max_credit, self._allowed - self._sent)
        elif code == _DETACH:
            if self._link == (channel, values[0]):
                self._link = None
            self._send(channel, _DETACH, *values[:2])
        elif code in (_END, _CLOSE):
            self._send(channel, code)

    def _attach(self, channel: int, values: list[_Value]) -> None:
        name, handle, receives, *modes = values[:5]
        self._send(channel, _ATTACH, name, handle, not receives, *modes, *values[5:7], None, None, uint(0))
        if receives:
            self._prepare_messages(channel, handle)
        else:
            self._send(
                channel, _FLOW, uint(0), uint(_UNLIMITED), uint(0), uint(_UNLIMITED), handle, uint(0), uint(_UNLIMITED)
            )

    def _prepare_messages(self, channel: int, handle: int) -> None:
        """Build the transfers of all messages; a large message needs several."""
        begin = np.frombuffer(encode_before_body(self.size), np.uint8)
        messages = np.hstack((np.tile(begin, (self.batch, 1)), self.bodies))
        parts, length, step = [], messages.shape[1], self._max_frame_bytes - len(_head(0, 0, 0, more=False))
        self._ids_at, at = [], 0
        for start in range(0, length, step):
            stop = min(start + step, length)
            head = np.frombuffer(_head(channel, handle, stop - start, more=stop < length), np.uint8)
            parts += [np.tile(head, (self.batch, 1)), messages[:, start:stop]]
            self._ids_at.append(at + _ID_AT)
            at += len(head) + stop - start
        self._table = np.hstack(parts)
        self._link = channel, handle
        self._sent = self._allowed = self._max_credit = 0

    def _skip_equal_transfers(self, data: bytes, at: int, size: int, channel: int) -> int:
        """Return the bytes of the complete transfers that differ from the one at `at` in id, tag and body only."""
        fields, end = _fields(data, at + 4 * data[at + 4] + 3)
        number, tag = fields[1], fields[2]
        is_same = data[number[0] - 1] == _NULL
        parts = ((0, number[0] - at), (tag[1] - at, end - at))
        rows = 1 if is_same else count_equal_rows(as_table(data, at, (len(data) - at) // size, size), parts)
        before = (rows - 1) * size
        if not is_same:
            self._last_delivery[channel] = int.from_bytes(data[number[0] + before : number[1] + before], "big")
        last = self._last_delivery[channel]
        settled, more = (len(fields) > place and data[fields[place][0] - 1] == _TRUE for place in (4, 5))
        if not settled and not more:
            first, _ = self._unsettled.get(channel, (last - rows + 1, 0))
            self._unsettled[channel] = (first, last)
        return rows * size

    def _send(self, channel: int, code: int, *values: _Value, kind: int = 0) -> None:
        data = Data()
        data.put_object(Described(ulong(code), list(values)))
        encoded = bytes(data.encode())
        self.write(_FRAME.pack(_FRAME.size + len(encoded), 2, kind, channel) + encoded)


def _head(channel: int, handle: int, size: int, *, more: bool) -> bytes:
    """Return the start of a transfer frame that carries `size` bytes of a message."""
    # Handle, delivery id, tag, format, settled (no), more.
    fields = b"\x70%s\x70\0\0\0\0\xa0\x01t\x43\x42%c" % (handle.to_bytes(4, "big"), _TRUE if more else _FALSE)
    encoded = _DESCRIBED + bytes((_TRANSFER, 0xC0, len(fields) + 1, 6)) + fields
    return _FRAME.pack(_FRAME.size + len(encoded) + size, 2, 0, channel) + encoded


def _read(encoded: bytes) -> tuple[int, list[_Value]]:
    """Decode a performative: its descriptor and its fields."""
    data = Data()
    data.decode(encoded)
    data.rewind()
    data.next()
    described: _Value = data.get_object()
    return int(described.descriptor), list(described.value)


def _fields(data: bytes, at: int) -> tuple[list[tuple[int, int]], int]:
    """Return the start and end of each field of the list at `at`, and the end of the list."""
    begin, end = value_span(data, at)
    # The fields follow their count, which has the width of the size.
    position, fields = begin + (begin - at - 1), []
    while position < end:
        fields.append(value_span(data, position))
        position = fields[-1][1]
    return fields, end
