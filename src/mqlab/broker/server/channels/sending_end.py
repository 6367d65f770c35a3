"""This end of a channel: the transmission queue, what of it is in hand, and what the journal does not know yet."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Final

from mqlab.broker.core.effects import Committed, Deliver, Opened
from mqlab.broker.core.model.messages import Span
from mqlab.broker.core.model.sessions import Consumer
from mqlab.broker.core.routing.transmission import dead_letter, drop_arrived
from mqlab.broker.server.channels.batch import ChannelBatch, HeldDelivery
from mqlab.broker.server.channels.host import ChannelHost
from mqlab.broker.server.channels.token import IdRanges

# Bytes that go together, more or less: a transaction lives in the memory of the other broker until it is committed.
_MOST_BYTES: Final = 4 * 1024 * 1024


class SendingEnd:
    """Owns a session of the core. What is in hand stays so while the other broker cannot be reached."""

    def __init__(self, broker: ChannelHost, to: str, batch: int) -> None:
        self._broker = broker
        self._core = broker.core
        self._to = to
        self._batch = batch
        self._session = self._core.open_session(self, 1, transacted=True)
        self._consumer: Consumer | None = None
        self._ready: deque[HeldDelivery] = deque()
        self._came = asyncio.Event()
        # Messages that have arrived over there, oldest first, and are here as long as their removal is not durable.
        self._leaving: deque[tuple[IdRanges, bool]] = deque()

    def resume(self, arrived: IdRanges) -> int:
        """Begin, or go on after the connection was lost. These messages are over there; how many were still here."""
        self._broker.update_clock()
        queue = self._core.destinations.transmission_queue(self._to)
        dropped = drop_arrived(self._session, queue, arrived) + self._drop_in_hand(arrived)
        self._leave(arrived, persistent=any(span.persistent for span in dropped))
        if self._consumer is None:
            # Twice a batch: the next one is ready when the one that is under way has arrived.
            self._consumer = self._core.open_consumer(self._session, 1, queue.full_name, 2 * self._batch)
        self._broker.run_effects()
        return sum(span.rows for span in dropped)

    def _drop_in_hand(self, arrived: IdRanges) -> list[Span]:
        """The rest is to be sent again, in its order."""
        consumer = self._consumer
        if consumer is None:
            return []
        dropped = []
        for first, span in [*consumer.unacknowledged]:
            # A token names deliveries as they were given, so all of one or nothing.
            if span.within(arrived).all():
                dropped.append(span)
                self._core.acknowledge_rows(consumer, first, span.rows)
        self._ready = deque(HeldDelivery(first, span) for first, span in consumer.unacknowledged)
        self._room(sum(span.rows for span in dropped))
        return dropped

    async def next_batch(self) -> ChannelBatch:
        """What is there, at once; else what comes first."""
        while not self._ready:
            self._came.clear()
            await self._came.wait()
        given = [self._ready.popleft()]
        rows, size = given[0].span.rows, given[0].span.size
        while self._ready:
            span = self._ready[0].span
            rows, size = rows + span.rows, size + span.size
            if rows > self._batch or size > _MOST_BYTES:
                break
            given.append(self._ready.popleft())
        return ChannelBatch(given)

    @property
    def leaving(self) -> tuple[IdRanges, bool]:
        """What the token must go on naming, since a crash now would bring it back; and whether any of it lasts."""
        return [one for ranges, _ in self._leaving for one in ranges], any(lasting for _, lasting in self._leaving)

    def done(self, batch: ChannelBatch) -> None:
        """It has arrived."""
        assert self._consumer is not None
        self._broker.update_clock()
        for first, span in batch.given:
            self._core.acknowledge_rows(self._consumer, first, span.rows)
        self._leave(batch.ranges, persistent=batch.persistent)
        self._room(batch.rows)
        self._broker.run_effects()

    def give_up(self, batch: ChannelBatch) -> None:
        """The other broker refuses it: it goes to the dead letters here."""
        assert self._consumer is not None
        self._broker.update_clock()
        for first, span in batch.given:
            dead_letter(self._core, self._consumer, first, span.rows)
        self._room(batch.rows)
        self._broker.run_effects()

    def rest(self) -> None:
        """What is in hand goes back, as if it had never left."""
        if self._consumer is not None:
            self._broker.update_clock()
            self._core.close_consumer(self._consumer, 0)
            self._consumer = None
            self._ready.clear()
            self._broker.run_effects()

    # Effects

    def opened(self, _effect: Opened) -> None:
        """Nobody waits for it."""

    def deliver(self, effect: Deliver) -> None:
        self._ready.append(HeldDelivery(effect.first_delivery, effect.span))
        self._came.set()

    def committed(self, _effect: Committed) -> None:
        self._leaving.popleft()

    def _leave(self, ranges: IdRanges, *, persistent: bool) -> None:
        """A transaction of its own for each: its end tells that these are gone for good."""
        self._leaving.append((ranges, persistent))
        self._core.commit(self._session)

    def _room(self, rows: int) -> None:
        assert self._consumer is not None
        self._core.acknowledge(self._consumer, 0, rows)
