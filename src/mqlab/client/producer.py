"""Sending: credit, coalescing, confirmations."""

import asyncio
from collections import deque
from collections.abc import Mapping
from typing import Final, Unpack

from mqlab.client.connection import Wire
from mqlab.client.consumer import Consumer
from mqlab.client.errors import ClosedError, MessagingError
from mqlab.client.headers import Headers, Stamp
from mqlab.wire import native
from mqlab.wire.native.bodies import Buffer, Payload, as_body
from mqlab.wire.native.coalescing import as_singles
from mqlab.wire.native.columns import Value
from mqlab.wire.native.frames import Flag, Frame, Kind

# Plain sends that are ready together leave together, up to these bounds.
_MOST_ROWS: Final = 4096
_MOST_IN_A_ROW: Final = 128
_MOST_BYTES: Final = 256 * 1024

_PERSISTENT, _CONFIRM = int(Flag.PERSISTENT), int(Flag.CONFIRM)


class Producer:
    """Sends to one destination. In a transacted session nothing is visible before the commit."""

    def __init__(
        self, wire: Wire, session: int, link: int, destination: str, stamp: Stamp, *, transacted: bool
    ) -> None:
        self.destination = destination
        # Gives plain sends their ids and times; the batch API sends what it is given.
        self.stamp = stamp
        self._wire = wire
        self._session = session
        self._link = link
        self._transacted = transacted
        self._next_seq = 1
        self._credit = 0
        self._credit_came: asyncio.Future[None] | None = None
        self._unconfirmed: deque[tuple[int, asyncio.Future[None]]] = deque()
        self._ready: list[Buffer] = []
        self._ready_bytes = 0
        # Sends since it last gave way to others.
        self._in_a_row = 0
        self._error: MessagingError | None = None
        # The broker refused a send that nobody waited for.
        self._refusal: MessagingError | None = None

    async def send(
        self, body: Buffer, *, persistent: bool = False, properties: Mapping[str, Value] | None = None,
        **headers: Unpack[Headers],
    ) -> None:  # fmt: skip
        """One message. A persistent one outside a transaction is on the broker's disk when this returns.

        Others leave with all that are ready by the next turn of the loop; a single one leaves with that turn.
        """
        if not persistent and (headers or properties) and self.sent_at_once(body, headers, properties):
            return
        if self._error is not None or self._refusal is not None:
            self._raise_error()
        if persistent or properties or headers:
            payload = self.stamp.message(body, headers, properties)
            await self.send_batch(payload, persistent=persistent, confirm=persistent and not self._transacted)
            return
        body = as_body(body)
        self._ready.append(body)
        self._ready_bytes += len(body)
        if len(self._ready) == 1:
            self._wire.soon(self._flush_if_possible)
        elif len(self._ready) >= _MOST_ROWS or self._ready_bytes >= _MOST_BYTES:
            await self._wait_for_credit()
            self._flush()

    def sent_at_once(self, body: Buffer, headers: Headers, properties: Mapping[str, Value] | None = None) -> bool:
        """`send` of what is not persistent, if nothing has to be waited for. False: nothing has happened yet."""
        if self._must_wait():
            return False
        self._write(self.stamp.message(body, headers, properties), 0)
        return True

    def asked_at_once(self, payload: Payload, correlation_id: str, consumer: Consumer) -> bool:
        """The same, for a request whose reply this consumer, which can, then waits for."""
        if self._must_wait():
            return False
        first = self._next_seq
        self._next_seq = first + 1
        self._credit -= len(payload.data)
        self._wire.request(self._link, first, payload, *consumer.expecting(correlation_id))
        return True

    def batch_sent_at_once(self, payload: Payload) -> bool:
        """The same for `send_batch`. It leaves before what is said next, if nobody else was woken with its sender."""
        if self._must_wait():
            return False
        self._write(payload, 0)
        self._wire.about_to_wait()
        return True

    def _must_wait(self) -> bool:
        """For credit, for those that are ready already, for others to have their turn, or to hear of an error."""
        if self._error is not None or self._refusal is not None or self._ready or self._credit <= 0:
            return True
        self._in_a_row += 1
        return self._in_a_row > _MOST_IN_A_ROW

    async def send_batch(self, payload: Payload, *, persistent: bool = False, confirm: bool = False) -> None:
        """Messages that go together; with `confirm`, returns when the broker says that they are safe."""
        if self._ready:
            await self.flush()
        if self._credit <= 0 or self._error is not None or self._refusal is not None:
            await self._wait_for_credit()
        flags = _PERSISTENT if persistent else 0
        if not confirm:
            self._write(payload, flags)
            self._in_a_row += 1
            if self._in_a_row >= _MOST_IN_A_ROW:
                await self._give_way()
            return
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._unconfirmed.append((self._next_seq + payload.rows - 1, future))
        self._write(payload, flags | _CONFIRM)
        self._wire.about_to_wait()
        await future

    async def _give_way(self) -> None:
        """Who sends in a loop and waits for nothing must not keep the loop of the program from its other work."""
        self._in_a_row = 0
        await asyncio.sleep(0)

    async def flush(self) -> None:
        """Everything sent so far is on its way."""
        while self._ready:
            await self._wait_for_credit()
            self._flush()

    async def close(self) -> None:
        """Returns when the broker has everything that was sent."""
        await self.flush()
        self._raise_error()
        closing = native.header(Kind.CLOSE, session=self._session, link=self._link)
        await self._wire.ask(closing, Kind.CLOSED, link=self._link)
        refusal = self._refusal
        self.detach()
        if refusal is not None:
            raise refusal

    def forget_refusal(self) -> None:
        """The transaction it was part of is gone."""
        self._refusal = None

    @property
    def closed(self) -> bool:
        return self._error is not None

    # As a link of the connection

    def detach(self) -> None:
        """The broker knows it no more."""
        self._wire.detach(self._link)
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
        """Whoever waits for that send is told; if nobody does, whoever uses the producer next."""
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
        self._wire.about_to_wait()
        while self._credit <= 0 and self._error is None:
            if self._credit_came is None:
                self._credit_came = asyncio.get_running_loop().create_future()
            await asyncio.shield(self._credit_came)
            self._raise_error()
        self._raise_error()

    def _raise_error(self) -> None:
        if self._error is not None:
            raise self._error
        if self._refusal is not None:
            refusal, self._refusal = self._refusal, None
            raise refusal

    def _wake(self) -> None:
        if self._credit_came is not None:
            self._credit_came.set_result(None)
            self._credit_came = None

    def _flush_if_possible(self) -> None:
        if self._ready and self._credit > 0 and self._error is None:
            self._flush()

    def _flush(self) -> None:
        if self._ready:
            ready, self._ready, self._ready_bytes = self._ready, [], 0
            self._write(as_singles(self.stamp.batch(ready)), 0)

    def _write(self, payload: Payload, flags: int) -> None:
        data, rows, _ = payload
        first = self._next_seq
        self._next_seq = first + rows
        self._credit -= len(data)
        self._wire.put(self._session, self._link, first, payload, flags)
