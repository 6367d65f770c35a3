"""Receiving: deliveries in hand, acknowledgement, room for more."""

import asyncio
from collections import deque
from typing import NamedTuple

from mqlab.client.connection import Wire
from mqlab.client.errors import ClosedError, MessagingError
from mqlab.client.message import Message
from mqlab.wire import native
from mqlab.wire.bodies import Bodies, Payload, decode, encode
from mqlab.wire.native import Flag, Frame, Kind

_LONE, _REDELIVERED = int(Flag.LONE), int(Flag.REDELIVERED)


class Delivery(NamedTuple):
    """Messages that came together."""

    first: int
    payload: Payload
    redelivered: bool

    @property
    def rows(self) -> int:
        return self.payload.rows

    def bodies(self) -> Bodies:
        return decode(self.payload)


class Consumer:
    """Receives from one destination, at most `prefetch` messages ahead of its application.

    Automatic acknowledgement: what was received is acknowledged when the next is asked for, so messages that were in
    hand at a crash come again. In a transacted session it is acknowledged with the commit.
    """

    def __init__(self, wire: Wire, link: int, destination: str, prefetch: int) -> None:
        self.destination = destination
        self._wire = wire
        self._link = link
        self._prefetch = prefetch
        self._deliveries: deque[Delivery] = deque()
        self._came: asyncio.Future[None] | None = None
        self._error: MessagingError | None = None
        # Given to the application and not yet acknowledged: up to this delivery id, so many messages.
        self._consumed = 0
        self._consumed_rows = 0
        # The rest of the delivery that is given out one by one: messages in reverse order.
        self.in_hand: list[Message] = []
        self._dropping = False

    async def receive_batch(self, timeout: float | None = None) -> Delivery:
        """The next messages that came together. Raises TimeoutError if none came in so many seconds."""
        if self.in_hand:
            return self._rest_in_hand()
        if self._consumed_rows:
            self.acknowledge()
        if not self._deliveries:
            if timeout is None:
                await self._wait()
            else:
                async with asyncio.timeout(timeout):
                    await self._wait()
        delivery = self._deliveries.popleft()
        self._consumed_rows = delivery.payload.rows
        self._consumed = delivery.first + self._consumed_rows - 1
        return delivery

    async def receive(self, timeout: float | None = None) -> Message:
        """The next message. Raises TimeoutError if none came in so many seconds."""
        if not self.in_hand:
            await self.fill_hand(timeout)
        return self.in_hand.pop()

    async def fill_hand(self, timeout: float | None = None) -> None:
        """Take the next delivery apart; `in_hand.pop()` then gives its messages one after the other."""
        delivery = await self.receive_batch(timeout)
        bodies = delivery.bodies().tolist()
        self.in_hand = [Message(body, delivery.redelivered) for body in reversed(bodies)]

    async def _wait(self) -> None:
        while not self._deliveries:
            if self._error is not None:
                raise self._error
            self._came = asyncio.get_running_loop().create_future()
            await self._came

    def _rest_in_hand(self) -> Delivery:
        rest, self.in_hand = self.in_hand[::-1], []
        first = self._consumed - len(rest) + 1
        return Delivery(first, encode([message.body for message in rest]), rest[0].redelivered)

    def __aiter__(self) -> "Consumer":
        return self

    async def __anext__(self) -> Message:
        try:
            return await self.receive()
        except ClosedError:
            raise StopAsyncIteration from None

    def acknowledge(self) -> None:
        """Tell the broker now that all given to the application is done."""
        done, rows = self._consumed - len(self.in_hand), self._consumed_rows - len(self.in_hand)
        if rows > 0:
            self._wire.write(native.HEADER.pack(0, Kind.ACKNOWLEDGE, 0, 0, self._link, done, rows))
            self._consumed_rows -= rows

    async def close(self) -> None:
        """What was not given to the application goes back to the queue."""
        if self._error is None:
            self.acknowledge()
            await self._wire.ask(native.header(Kind.CLOSE, link=self._link), Kind.CLOSED, link=self._link)
            self.detach()

    # For the session's rollback: what is in hand, and what is still on its way, will come again.

    def drop(self) -> None:
        self._dropping = True
        self._deliveries.clear()
        self.in_hand.clear()
        self._consumed_rows = 0

    def go_on(self) -> None:
        self._dropping = False
        self._wire.write(native.HEADER.pack(0, Kind.ACKNOWLEDGE, 0, 0, self._link, 0, self._prefetch))

    @property
    def closed(self) -> bool:
        return self._error is not None

    # As a link of the connection

    def detach(self) -> None:
        """The broker knows it no more; what it had in hand goes to others."""
        self._wire.detach(self._link)
        self._deliveries.clear()
        self.in_hand.clear()
        self.lost(ClosedError("the consumer is closed"))

    def handle(self, frame: Frame) -> None:
        if frame.kind != Kind.DELIVER or self._dropping:
            return
        _, flags, _, _, first, rows, payload = frame
        came = Payload(payload, rows, bool(flags & _LONE))
        self._deliveries.append(Delivery(first, came, bool(flags & _REDELIVERED)))
        self._wake()

    def lost(self, error: MessagingError) -> None:
        self._error = error
        self._wake()

    def _wake(self) -> None:
        if self._came is not None:
            if not self._came.done():
                self._came.set_result(None)
            self._came = None
