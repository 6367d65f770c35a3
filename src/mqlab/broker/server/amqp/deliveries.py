"""Deliveries to a client: their numbers, the session's window, and those that are not settled."""

import struct
from collections import deque
from collections.abc import Iterator
from itertools import chain
from typing import Final

from mqlab.broker.server.amqp.context import AmqpContext
from mqlab.wire.amqp10.performatives import Flow

_SERIAL: Final = 0xFFFFFFFF
# Bytes of a frame around the part of a message: its header, and a transfer.
_AROUND: Final = 64
# Longer messages leave in several frames, even if the client accepts longer ones.
_MOST_FRAME: Final = 1024 * 1024
# A transfer with six fields, and its size after the byte that tells it.
_TRANSFER: Final = struct.Struct(">6B BI BI BBI 3B")
_TRANSFER_BYTES: Final = _TRANSFER.size - 5
_pack: Final = _TRANSFER.pack


class OutgoingTransfers:
    """Transfers of one session, as many as the client's window allows; the others wait."""

    def __init__(self, context: AmqpContext, channel: int, window: int) -> None:
        self._context = context
        self._channel = channel
        # The id of the next transfer, and how many more the client accepts.
        self.next_id = 0
        self._window = window
        self._next_delivery = 0
        self._waiting: deque[Iterator[bytes]] = deque()
        # Bytes of each message that waits, and of all.
        self._sizes: deque[int] = deque()
        self.waiting_bytes = 0

    @property
    def room(self) -> int:
        """How many transfers the client accepts now."""
        return 0 if self._waiting else self._window

    def flow(self, flow: Flow) -> None:
        """The client announces its window."""
        # Before the client has seen the session, it counts from its first transfer.
        seen = 0 if flow.next_incoming_id is None else flow.next_incoming_id
        self._window = (seen + flow.incoming_window - self.next_id) & _SERIAL
        if self._window > _SERIAL >> 1:
            self._window = 0
        self._send_waiting()

    def send(self, handle: int, message: bytes, *, settled: bool) -> int:
        """Send a message, or let it wait for the window. Return its delivery id."""
        delivery, self._next_delivery = self._next_delivery, (self._next_delivery + 1) & _SERIAL
        size = len(message)
        if self._window > 0 and not self._waiting and size + _AROUND <= min(self._context.frame_limit, _MOST_FRAME):
            self._write(_transfer(handle, delivery, settled=settled, more=False), message)
        else:
            self._waiting.append(self._parts(handle, delivery, message, settled))
            self._sizes.append(size)
            self.waiting_bytes += size
            self._send_waiting()
        return delivery

    def _parts(self, handle: int, delivery: int, message: bytes, settled: bool) -> Iterator[bytes]:
        step = min(self._context.frame_limit, _MOST_FRAME) - _AROUND
        for begin in range(0, max(1, len(message)), step):
            more = begin + step < len(message)
            yield _transfer(handle, delivery, settled=settled, more=more) + message[begin : begin + step]

    def _send_waiting(self) -> None:
        waiting = self._waiting
        while waiting and self._window > 0:
            body = next(waiting[0], None)
            if body is None:
                self._drop_first()
                continue
            self._write(body, b"")
            if waiting and self._window == 0:
                # Drop an iterator that is at its end, so that `_waiting` is true only if something waits.
                following = next(waiting[0], None)
                if following is None:
                    self._drop_first()
                else:
                    waiting[0] = chain((following,), waiting[0])

    def clear(self) -> None:
        self._waiting.clear()
        self._sizes.clear()
        self.waiting_bytes = 0

    def _drop_first(self) -> None:
        self._waiting.popleft()
        self.waiting_bytes -= self._sizes.popleft()

    def _write(self, transfer: bytes, message: bytes) -> None:
        self._window -= 1
        self.next_id = (self.next_id + 1) & _SERIAL
        self._context.write_parts(self._channel, transfer, message)


def _transfer(handle: int, delivery: int, *, settled: bool, more: bool) -> bytes:
    """A transfer: handle, delivery id, delivery tag (the id again), message format 0, settled, more."""
    return _pack(
        0, 0x53, 0x14, 0xC0, _TRANSFER_BYTES, 6, 0x70, handle, 0x70, delivery, 0xA0, 4, delivery, 0x43,
        0x41 if settled else 0x42, 0x41 if more else 0x42,
    )  # fmt: skip
