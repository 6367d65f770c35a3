"""Sending: credit, coalescing, confirmations.

Single sends without headers of their own gather in the producer, and leave as one batch: at the next turn of the event
loop, before the connection sends anything else, when the caller waits, or when a frame is full. While the socket takes
nothing more, they go on gathering. A session keeps the order of all its sends: when another producer of the session
sends, what this one has gathered leaves first, unless the broker grants it no credit.
"""

import asyncio
from bisect import bisect_left
from collections import deque
from collections.abc import Mapping
from itertools import accumulate
from typing import Final, Unpack

from mqlab.client.connection import NativeClientConnection
from mqlab.client.consumer import Consumer
from mqlab.client.errors import ClosedError, MessagingError
from mqlab.client.headers import Headers, MessageEncoder
from mqlab.wire.native import frames as native
from mqlab.wire.native.bodies import Buffer, Payload, as_body
from mqlab.wire.native.coalescing import as_singles
from mqlab.wire.native.columns import Value
from mqlab.wire.native.frames import Flag, Frame, Kind

# Single sends are coalesced into one batch, up to these bounds.
MAX_ROWS: Final = 4096
MAX_BYTES: Final = 1024 * 1024
# Without credit for more, so that a producer overdraws little, or if the broker takes no frames of twice `MAX_BYTES`.
_LEAST_BYTES: Final = 256 * 1024
# A frame can be full of bodies up to this size only by their number: they are not counted in bytes.
SMALL_BYTES: Final = _LEAST_BYTES // MAX_ROWS
_MAX_CONSECUTIVE_SENDS: Final = 128

_PERSISTENT, _CONFIRM = int(Flag.PERSISTENT), int(Flag.CONFIRM)


class Producer:
    """Sends to one destination. In a transacted session nothing is visible before the commit."""

    def __init__(
        self, connection: NativeClientConnection, session: int, link: int, destination: str, encoder: MessageEncoder, *,
        transacted: bool, gathering: "list[Producer]",
    ) -> None:  # fmt: skip
        """`gathering`: the producers of the session that have unsent messages."""
        self.destination = destination
        # Adds ids and timestamps to single sends; `send_batch` sends its payload as it is.
        self.encoder = encoder
        self._connection = connection
        self._session = session
        self._link = link
        self._transacted = transacted
        self._next_seq = 1
        self._credit = 0
        self._credit_arrival: asyncio.Future[None] | None = None
        self._unconfirmed: deque[tuple[int, asyncio.Future[None]]] = deque()
        self._gathering = gathering
        self._unsent: list[bytes] = []
        # `_unsent`, while single sends need no more than to be appended to it.
        self._open: list[bytes] | None = None
        # The size of the unsent bodies that are not small.
        self._large_bytes = 0
        self._flushing = False
        # Frames with messages that were sent.
        self.frames = 0
        # Sends since this producer last yielded to the event loop.
        self._consecutive_sends = 0
        self._error: MessagingError | None = None
        # The broker refused a send without confirmation: the next use of the producer raises this.
        self._refusal: MessagingError | None = None

    async def send(
        self, body: Buffer, *, persistent: bool = False, properties: Mapping[str, Value] | None = None,
        **headers: Unpack[Headers],
    ) -> None:  # fmt: skip
        """Send one message. A persistent one outside a transaction is on the broker's disk when this returns.

        Messages without headers are coalesced, and leave at the next turn of the loop at the latest.
        """
        if persistent or properties or headers:
            if persistent or not self.try_send(body, headers, properties):
                payload = self.encoder.message(body, headers, properties)
                await self.send_batch(payload, persistent=persistent, confirm=persistent and not self._transacted)
            return
        if type(body) is not bytes:
            body = as_body(body)
        unsent = self._open
        if unsent is None:
            self.raise_error()
            unsent = self._gather()
        unsent.append(body)
        if len(body) > SMALL_BYTES:
            self._large_bytes += len(body)
            if self._large_bytes < MAX_BYTES:
                return
        elif len(unsent) < MAX_ROWS:
            return
        await self.flush()
        await self._yield_to_loop()

    def gather(self, bodies: list[bytes]) -> None:
        """Send each of these bodies as a single message, without waiting. A closed producer discards them."""
        if self._error is None:
            self._gather().extend(bodies)
            if len(self._unsent) >= MAX_ROWS:
                self._flush_if_possible()

    def _gather(self) -> list[bytes]:
        """The list to which single sends are appended. Messages that other producers have gathered leave before."""
        for producer in [*self._gathering]:
            if producer is not self:
                producer._flush_if_possible()
        if self not in self._gathering:
            self._gathering.append(self)
        self._connection.flush_later(self._flush_if_possible)
        self._open = self._unsent
        return self._unsent

    def try_send(self, body: Buffer, headers: Headers, properties: Mapping[str, Value] | None = None) -> bool:
        """Send a non-persistent message now. Returns False, with nothing changed, if the caller would have to wait."""
        if self._must_yield() or self._must_wait():
            return False
        self._write(self.encoder.message(body, headers, properties), 0)
        return True

    def try_request(self, payload: Payload, correlation_id: str, consumer: Consumer) -> bool:
        """The same for a request, whose reply goes to this consumer (see `Consumer.can_await_reply`)."""
        return not self._must_yield() and self.request_now(payload, correlation_id, consumer)

    # For callbacks of the event loop, which need not yield to it

    def send_now(self, body: bytes, headers: Headers) -> bool:
        if self._must_wait():
            return False
        self._write(self.encoder.message(body, headers, None), 0)
        return True

    def request_now(self, payload: Payload, correlation_id: str, consumer: Consumer) -> bool:
        if self._must_wait():
            return False
        first = self._next_seq
        self._next_seq = first + 1
        self._credit -= len(payload.data)
        self._connection.send_request(self._link, first, payload, *consumer.expect_reply(correlation_id))
        return True

    def _must_wait(self) -> bool:
        """Whether a send must wait for credit or for unsent messages, or must raise an error."""
        return self._error is not None or self._refusal is not None or bool(self._unsent) or self._credit <= 0

    def _must_yield(self) -> bool:
        """Whether a task that sends must let other tasks run before."""
        self._consecutive_sends += 1
        return self._consecutive_sends > _MAX_CONSECUTIVE_SENDS

    async def send_batch(self, payload: Payload, *, persistent: bool = False, confirm: bool = False) -> None:
        """Send a batch. With `confirm`, returns when the broker has confirmed it."""
        if self._unsent:
            await self.flush()
        if self._credit <= 0 or self._error is not None or self._refusal is not None:
            await self._wait_for_credit()
        flags = _PERSISTENT if persistent else 0
        if not confirm:
            self._write(payload, flags)
            self._consecutive_sends += 1
            if self._consecutive_sends >= _MAX_CONSECUTIVE_SENDS:
                await self._yield_to_loop()
            return
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._unconfirmed.append((self._next_seq + payload.rows - 1, future))
        self._write(payload, flags | _CONFIRM)
        self._connection.flush_before_wait()
        await future

    async def _yield_to_loop(self) -> None:
        """A task that sends in a loop without waiting must not keep other tasks from running."""
        self._consecutive_sends = 0
        await asyncio.sleep(0)

    async def flush(self) -> None:
        """Hand everything sent so far to the connection."""
        while self._unsent:
            await self._wait_for_credit()
            self._flush_if_possible()

    async def close(self) -> None:
        """Close the producer. Returns when the broker has received everything that was sent."""
        await self.flush()
        self.raise_error()
        closing = native.header(Kind.CLOSE, session=self._session, link=self._link)
        await self._connection.call(closing, Kind.CLOSED, link=self._link)
        refusal = self._refusal
        self.detach()
        if refusal is not None:
            raise refusal

    def clear_refusal(self) -> None:
        """The transaction of the refused send was rolled back."""
        self._refusal = None

    @property
    def closed(self) -> bool:
        return self._error is not None

    @property
    def unsent(self) -> int:
        """How many messages have not been handed to the connection."""
        return len(self._unsent)

    def raise_error(self) -> None:
        """Raise the error of this producer, or once the refusal of a send that was not confirmed."""
        if self._error is not None:
            raise self._error
        if self._refusal is not None:
            refusal, self._refusal = self._refusal, None
            raise refusal

    # Called by the connection

    def detach(self) -> None:
        """The broker has closed this producer."""
        self._connection.detach(self._link)
        self.lost(ClosedError("the producer is closed"))

    def handle(self, frame: Frame) -> None:
        if frame.kind == Kind.CONFIRM:
            unconfirmed = self._unconfirmed
            while unconfirmed and unconfirmed[0][0] <= frame.first:
                _, future = unconfirmed.popleft()
                if not future.done():
                    future.set_result(None)
        elif frame.kind == Kind.CREDIT:
            self._credit += frame.amount
            if self._credit > 0:
                self._wake()
                self._flush_if_possible()

    def refused(self, seq: int, error: MessagingError) -> None:
        """Fail the send that waits for this confirmation, or else the next use of the producer."""
        for number, future in self._unconfirmed:
            if number == seq:
                self._unconfirmed.remove((number, future))
                if not future.done():
                    future.set_exception(error)
                return
        self._refusal = error
        self._open = None
        self._wake()

    def lost(self, error: MessagingError) -> None:
        self._error = error
        self._open = None
        if self in self._gathering:
            self._gathering.remove(self)
        self._wake()
        while self._unconfirmed:
            _, future = self._unconfirmed.popleft()
            if not future.done():
                future.set_exception(error)

    async def _wait_for_credit(self) -> None:
        self._connection.flush_before_wait()
        while self._credit <= 0 and self._error is None:
            if self._credit_arrival is None:
                self._credit_arrival = asyncio.get_running_loop().create_future()
            await asyncio.shield(self._credit_arrival)
            self.raise_error()
        self.raise_error()

    def _wake(self) -> None:
        if self._credit_arrival is not None:
            self._credit_arrival.set_result(None)
            self._credit_arrival = None

    def _flush_if_possible(self) -> None:
        """Send what has gathered, in full frames, as far as the credit goes."""
        if self._flushing:
            # The connection runs all flushes before it sends a frame, also the first frame of this one.
            return
        self._flushing = True
        try:
            while self._unsent and self._error is None and self._credit > 0:
                unsent = self._unsent
                rows = _rows_of_frame(unsent, self._max_frame_bytes)
                self._unsent, self._open, self._large_bytes = unsent[rows:], None, 0
                self._write(as_singles(self.encoder.batch(unsent[:rows])), 0)
        finally:
            self._flushing = False
        if not self._unsent and self in self._gathering:
            self._gathering.remove(self)

    @property
    def _max_frame_bytes(self) -> int:
        has_room = self._connection.frame_limit >= 2 * MAX_BYTES and self._credit >= MAX_BYTES
        return MAX_BYTES if has_room else _LEAST_BYTES

    def _write(self, payload: Payload, flags: int) -> None:
        data, rows, _ = payload
        first = self._next_seq
        self._next_seq = first + rows
        self._credit -= len(data)
        self.frames += 1
        self._connection.send_messages(self._session, self._link, first, payload, flags)


def _rows_of_frame(bodies: list[bytes], max_bytes: int) -> int:
    """How many of these bodies, from the first on, one frame takes."""
    most = bodies[:MAX_ROWS]
    if sum(map(len, most)) <= max_bytes:
        return len(most)
    return bisect_left([*accumulate(map(len, most))], max_bytes) + 1
