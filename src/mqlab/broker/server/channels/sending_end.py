"""The sending end of a channel: a transacted consumer on the transmission queue."""

import asyncio
from collections import deque
from typing import Final

from mqlab.broker.core.effects import Committed, Deliver, Opened
from mqlab.broker.core.model.messages import Span
from mqlab.broker.core.model.sessions import CoreConsumer
from mqlab.broker.core.routing.transmission import dead_letter, drop_arrived
from mqlab.broker.server.channels.batch import ChannelBatch, HeldDelivery
from mqlab.broker.server.channels.host import ChannelHost
from mqlab.broker.server.channels.token import IdRanges

# Bytes of a batch, approximately: the other broker holds the transaction in memory until its commit.
_MOST_BYTES: Final = 4 * 1024 * 1024


class SendingEnd:
    """Owns a session of the core. Deliveries stay unacknowledged while the other broker cannot be reached."""

    def __init__(self, broker: ChannelHost, to: str, batch: int) -> None:
        self._broker = broker
        self._core = broker.core
        self._to = to
        self._batch = batch
        self._session = self._core.open_session(self, 1, transacted=True)
        self._consumer: CoreConsumer | None = None
        self._ready: deque[HeldDelivery] = deque()
        self._delivered = asyncio.Event()
        # Messages that have arrived at the other broker and whose removal here is not durable yet, oldest first.
        self._leaving: deque[tuple[IdRanges, bool]] = deque()

    def resume(self, arrived: IdRanges) -> int:
        """Begin, or go on after a lost connection. Remove the messages that have arrived; return their number."""
        self._broker.update_clock()
        queue = self._core.destinations.transmission_queue(self._to)
        dropped = drop_arrived(self._session, queue, arrived) + self._acknowledge_arrived(arrived)
        self._remove(arrived, persistent=any(span.persistent for span in dropped))
        if self._consumer is None:
            # Twice a batch: the next batch is ready while one is under way.
            self._consumer = self._core.open_consumer(self._session, 1, queue.full_name, 2 * self._batch)
        self._broker.run_effects()
        return sum(span.rows for span in dropped)

    def _acknowledge_arrived(self, arrived: IdRanges) -> list[Span]:
        """The other deliveries are sent again, in order."""
        consumer = self._consumer
        if consumer is None:
            return []
        dropped = []
        for first, span in [*consumer.unacknowledged]:
            # A token names whole deliveries.
            if span.within(arrived).all():
                dropped.append(span)
                self._core.acknowledge_rows(consumer, first, span.rows)
        self._ready = deque(HeldDelivery(first, span) for first, span in consumer.unacknowledged)
        self._grant_credit(sum(span.rows for span in dropped))
        return dropped

    async def next_batch(self) -> ChannelBatch:
        """The deliveries that are ready; wait if there are none."""
        while not self._ready:
            self._delivered.clear()
            await self._delivered.wait()
        held = [self._ready.popleft()]
        rows, size = held[0].span.rows, held[0].span.size
        while self._ready:
            span = self._ready[0].span
            rows, size = rows + span.rows, size + span.size
            if rows > self._batch or size > _MOST_BYTES:
                break
            held.append(self._ready.popleft())
        return ChannelBatch(held)

    @property
    def leaving(self) -> tuple[IdRanges, bool]:
        """The ids that the next token must name, since a crash would restore them; whether any is persistent."""
        all_ids = [ids for ranges, _ in self._leaving for ids in ranges]
        return all_ids, any(persistent for _, persistent in self._leaving)

    def arrived(self, batch: ChannelBatch) -> None:
        """The other broker has committed the batch: acknowledge it."""
        assert self._consumer is not None
        self._broker.update_clock()
        for first, span in batch.held:
            self._core.acknowledge_rows(self._consumer, first, span.rows)
        self._remove(batch.ranges, persistent=batch.persistent)
        self._grant_credit(batch.rows)
        self._broker.run_effects()

    def give_up(self, batch: ChannelBatch) -> None:
        """The other broker refuses the batch: move it to the dead letter queue."""
        assert self._consumer is not None
        self._broker.update_clock()
        for first, span in batch.held:
            dead_letter(self._core, self._consumer, first, span.rows)
        self._grant_credit(batch.rows)
        self._broker.run_effects()

    def release(self) -> None:
        """Put unacknowledged deliveries back on the queue, as if they had not been delivered."""
        if self._consumer is not None:
            self._broker.update_clock()
            self._core.close_consumer(self._consumer, 0)
            self._consumer = None
            self._ready.clear()
            self._broker.run_effects()

    # Effects

    def opened(self, _effect: Opened) -> None:
        """The channel does not wait for this answer."""

    def deliver(self, effect: Deliver) -> None:
        self._ready.append(HeldDelivery(effect.first_delivery, effect.span))
        self._delivered.set()

    def committed(self, _effect: Committed) -> None:
        self._leaving.popleft()

    def _remove(self, ranges: IdRanges, *, persistent: bool) -> None:
        """Remove these messages in a transaction of their own. Its commit says that the removal is durable."""
        self._leaving.append((ranges, persistent))
        self._core.commit(self._session)

    def _grant_credit(self, rows: int) -> None:
        assert self._consumer is not None
        self._core.acknowledge(self._consumer, 0, rows)
