"""Sending: credit, coalescing, confirmations."""

import asyncio
from collections import deque
from collections.abc import Mapping
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
_MAX_ROWS: Final = 4096
_MAX_CONSECUTIVE_SENDS: Final = 128
_MAX_BYTES: Final = 256 * 1024

_PERSISTENT, _CONFIRM = int(Flag.PERSISTENT), int(Flag.CONFIRM)


class Producer:
    """Sends to one destination. In a transacted session nothing is visible before the commit."""

    def __init__(
        self, connection: NativeClientConnection, session: int, link: int, destination: str, encoder: MessageEncoder, *,
        transacted: bool,
    ) -> None:  # fmt: skip
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
        self._unsent: list[Buffer] = []
        self._unsent_bytes = 0
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

        Other messages are coalesced, and leave at the next turn of the loop.
        """
        if not persistent and (headers or properties) and self.try_send(body, headers, properties):
            return
        if self._error is not None or self._refusal is not None:
            self._raise_error()
        if persistent or properties or headers:
            payload = self.encoder.message(body, headers, properties)
            await self.send_batch(payload, persistent=persistent, confirm=persistent and not self._transacted)
            return
        body = as_body(body)
        self._unsent.append(body)
        self._unsent_bytes += len(body)
        if len(self._unsent) == 1:
            self._connection.flush_later(self._flush_if_possible)
        elif len(self._unsent) >= _MAX_ROWS or self._unsent_bytes >= _MAX_BYTES:
            await self._wait_for_credit()
            self._flush()

    def try_send(self, body: Buffer, headers: Headers, properties: Mapping[str, Value] | None = None) -> bool:
        """Send a non-persistent message now. Returns False, with nothing changed, if the caller would have to wait."""
        if self._must_wait():
            return False
        self._write(self.encoder.message(body, headers, properties), 0)
        return True

    def try_request(self, payload: Payload, correlation_id: str, consumer: Consumer) -> bool:
        """The same for a request, whose reply goes to this consumer (see `Consumer.can_await_reply`)."""
        if self._must_wait():
            return False
        first = self._next_seq
        self._next_seq = first + 1
        self._credit -= len(payload.data)
        self._connection.send_request(self._link, first, payload, *consumer.expect_reply(correlation_id))
        return True

    def try_send_batch(self, payload: Payload) -> bool:
        """The same for `send_batch`."""
        if self._must_wait():
            return False
        self._write(payload, 0)
        self._connection.flush_before_wait()
        return True

    def _must_wait(self) -> bool:
        """Whether a send must wait for credit, for unsent messages or for other tasks, or must raise an error."""
        if self._error is not None or self._refusal is not None or self._unsent or self._credit <= 0:
            return True
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
            self._flush()

    async def close(self) -> None:
        """Close the producer. Returns when the broker has received everything that was sent."""
        await self.flush()
        self._raise_error()
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
        self._wake()

    def lost(self, error: MessagingError) -> None:
        self._error = error
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
            self._raise_error()
        self._raise_error()

    def _raise_error(self) -> None:
        if self._error is not None:
            raise self._error
        if self._refusal is not None:
            refusal, self._refusal = self._refusal, None
            raise refusal

    def _wake(self) -> None:
        if self._credit_arrival is not None:
            self._credit_arrival.set_result(None)
            self._credit_arrival = None

    def _flush_if_possible(self) -> None:
        if self._unsent and self._credit > 0 and self._error is None:
            self._flush()

    def _flush(self) -> None:
        if self._unsent:
            unsent, self._unsent, self._unsent_bytes = self._unsent, [], 0
            self._write(as_singles(self.encoder.batch(unsent)), 0)

    def _write(self, payload: Payload, flags: int) -> None:
        data, rows, _ = payload
        first = self._next_seq
        self._next_seq = first + rows
        self._credit -= len(data)
        self._connection.send_messages(self._session, self._link, first, payload, flags)
