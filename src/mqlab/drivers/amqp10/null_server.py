"""The null server of AMQP 1.0. Transfers that follow each other are passed over as a whole; the rest Proton reads."""

import struct
from typing import Any, Final

import numpy as np
from proton import UNDESCRIBED, Array, Data, Described, symbol, ubyte, uint, ulong, ushort

from mqlab.drivers.amqp10.messages import encode_before_body, value_span
from mqlab.drivers.null_server.api import NullServer
from mqlab.wire.fixed_rows import as_table, count_equal_rows

_GREETING: Final = b"AMQP"
_GREETING_SIZE: Final = 8
_SASL: Final = 3
# Size, where the body begins (in words of four bytes), type, channel.
_FRAME: Final = struct.Struct(">IBBH")
_OPEN, _BEGIN, _ATTACH, _FLOW, _TRANSFER, _DISPOSITION, _DETACH, _END, _CLOSE = range(0x10, 0x19)
_ACCEPTED: Final = 0x24
_MECHANISMS, _INIT, _OUTCOME = 0x40, 0x41, 0x44
# A described type by a small number, which follows.
_DESCRIBED: Final = b"\x00\x53"
_NULL, _TRUE, _FALSE = 0x40, 0x41, 0x42
# More than any calibration moves: windows and credit are given once.
_MOST: Final = 2**31 - 1
_MOST_FRAME: Final = 1024 * 1024
_WRITTEN: Final = 64 * 1024
# In a transfer as it is written here: after the frame's head, those of the transfer and of its list, and the handle.
_ID_AT: Final = _FRAME.size + 3 + 3 + 5 + 1


class Amqp10NullServer(NullServer):
    # The client is slow, and looks up only after all that it has read at once: thousands of small messages.
    warm_up_s = 0.5
    measure_s = 2.0

    def __init__(self, size: int, batch: int) -> None:
        # A message is a frame of its own; a broker writes many of them at once all the same.
        super().__init__(size, max(batch, _WRITTEN // size))
        self._rest = b""
        self._most_frame = _MOST_FRAME
        # By channel: the delivery that came last, and those since the last answer that want one.
        self._came: dict[int, int] = {}
        self._unsettled: dict[int, tuple[int, int]] = {}
        # Of the one receiver: its channel and handle, its messages, where their numbers are, how many were sent, how
        # many it wants in all, and the most that it ever wanted at once.
        self._link: tuple[int, int] | None = None
        self._table: Any = None
        self._ids_at: list[int] = []
        self._sent = self._wanted = self._most = 0

    def received(self, data: memoryview) -> None:
        seen, at = self._rest + bytes(data), 0
        while len(seen) - at >= _FRAME.size:
            if seen.startswith(_GREETING, at):
                self._greet(seen[at : at + _GREETING_SIZE])
                at += _GREETING_SIZE
                continue
            size, words, _, channel = _FRAME.unpack_from(seen, at)
            if size < _FRAME.size:
                self.refuse()
                return
            if at + size > len(seen):
                break
            begin = at + 4 * words
            if seen[begin : begin + 3] == _DESCRIBED + bytes((_TRANSFER,)):
                at += self._passed_over(seen, at, size, channel)
                continue
            if begin < at + size:
                self._answer(channel, seen[begin : at + size])
            at += size
        self._rest = seen[at:]
        for channel, (first, last) in self._unsettled.items():
            accepted = Described(ulong(_ACCEPTED), [])
            self._say(channel, _DISPOSITION, True, uint(first), uint(last), True, accepted)
        self._unsettled.clear()

    def more(self) -> bytes | None:
        if self._link is None:
            return None
        rows = min(len(self._table), self._wanted - self._sent)
        # Not in ever smaller pieces.
        if rows < min(len(self._table), self._most // 2 or 1):
            return None
        ids = np.arange(self._sent, self._sent + rows, dtype=">u4").view(np.uint8).reshape(rows, 4)
        for at in self._ids_at:
            self._table[:rows, at : at + 4] = ids
        self._sent += rows
        sent: bytes = self._table[:rows].tobytes()
        return sent

    def _greet(self, greeting: bytes) -> None:
        self.write(greeting)
        if greeting[len(_GREETING)] == _SASL:
            known = Array(UNDESCRIBED, Data.SYMBOL, symbol("ANONYMOUS"), symbol("PLAIN"))
            self._say(0, _MECHANISMS, known, kind=1)

    def _answer(self, channel: int, said: bytes) -> None:
        code, values = _read(said)
        if code == _INIT:
            self._say(0, _OUTCOME, ubyte(0), kind=1)
        elif code == _OPEN:
            self._most_frame = min(_MOST_FRAME, values[2]) if len(values) > 2 and values[2] else _MOST_FRAME
            self._say(channel, _OPEN, "null", None, uint(_MOST_FRAME))
        elif code == _BEGIN:
            self._say(channel, _BEGIN, ushort(channel), uint(0), uint(_MOST), uint(_MOST))
        elif code == _ATTACH:
            self._attach(channel, values)
        elif code == _FLOW and len(values) > 6 and self._link == (channel, values[4]):
            self._wanted = values[5] + values[6]
            self._most = max(self._most, self._wanted - self._sent)
        elif code == _DETACH:
            if self._link == (channel, values[0]):
                self._link = None
            self._say(channel, _DETACH, *values[:2])
        elif code in (_END, _CLOSE):
            self._say(channel, code)

    def _attach(self, channel: int, values: list[Any]) -> None:
        name, handle, receives, *modes = values[:5]
        self._say(channel, _ATTACH, name, handle, not receives, *modes, *values[5:7], None, None, uint(0))
        if receives:
            self._prepare(channel, handle)
        else:
            self._say(channel, _FLOW, uint(0), uint(_MOST), uint(0), uint(_MOST), handle, uint(0), uint(_MOST))

    def _prepare(self, channel: int, handle: int) -> None:
        """Large messages come in several transfers."""
        begin = np.frombuffer(encode_before_body(self.size), np.uint8)
        messages = np.hstack((np.tile(begin, (self.batch, 1)), self.bodies))
        parts, length, step = [], messages.shape[1], self._most_frame - len(_head(0, 0, 0, more=False))
        self._ids_at, at = [], 0
        for start in range(0, length, step):
            stop = min(start + step, length)
            head = np.frombuffer(_head(channel, handle, stop - start, more=stop < length), np.uint8)
            parts += [np.tile(head, (self.batch, 1)), messages[:, start:stop]]
            self._ids_at.append(at + _ID_AT)
            at += len(head) + stop - start
        self._table = np.hstack(parts)
        self._link = channel, handle
        self._sent = self._wanted = self._most = 0

    def _passed_over(self, seen: bytes, at: int, size: int, channel: int) -> int:
        """Bytes of whole transfers like the one that begins here: those that differ in number, tag and body alone."""
        fields, end = _fields(seen, at + 4 * seen[at + 4] + 3)
        number, tag = fields[1], fields[2]
        is_same = seen[number[0] - 1] == _NULL
        parts = ((0, number[0] - at), (tag[1] - at, end - at))
        rows = 1 if is_same else count_equal_rows(as_table(seen, at, (len(seen) - at) // size, size), parts)
        before = (rows - 1) * size
        if not is_same:
            self._came[channel] = int.from_bytes(seen[number[0] + before : number[1] + before], "big")
        last = self._came[channel]
        settled, more = (len(fields) > place and seen[fields[place][0] - 1] == _TRUE for place in (4, 5))
        if not settled and not more:
            first, _ = self._unsettled.get(channel, (last - rows + 1, 0))
            self._unsettled[channel] = (first, last)
        return rows * size

    def _say(self, channel: int, code: int, *values: Any, kind: int = 0) -> None:
        data = Data()
        data.put_object(Described(ulong(code), list(values)))
        said = bytes(data.encode())
        self.write(_FRAME.pack(_FRAME.size + len(said), 2, kind, channel) + said)


def _head(channel: int, handle: int, size: int, *, more: bool) -> bytes:
    """All of a transfer that has so many bytes of a message, up to these."""
    # Handle, number, tag, format, settled (no), more.
    fields = b"\x70%s\x70\0\0\0\0\xa0\x01t\x43\x42%c" % (handle.to_bytes(4, "big"), _TRUE if more else _FALSE)
    said = _DESCRIBED + bytes((_TRANSFER, 0xC0, len(fields) + 1, 6)) + fields
    return _FRAME.pack(_FRAME.size + len(said) + size, 2, 0, channel) + said


def _read(said: bytes) -> tuple[int, list[Any]]:
    """What kind it is, and its values."""
    data = Data()
    data.decode(said)
    data.rewind()
    data.next()
    found = data.get_object()
    return int(found.descriptor), list(found.value)


def _fields(seen: bytes, at: int) -> tuple[list[tuple[int, int]], int]:
    """Where each value of the list at this place begins and ends, and the list itself ends."""
    begin, end = value_span(seen, at)
    # After their number, which is as long as the size.
    place, found = begin + (begin - at - 1), []
    while place < end:
        found.append(value_span(seen, place))
        place = found[-1][1]
    return found, end
