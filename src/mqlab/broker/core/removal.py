"""How messages leave a queue other than to a consumer that is done with them, and how they come back to it."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from mqlab.broker import limits
from mqlab.broker.core.dispatch.redelivery import put_back
from mqlab.broker.core.durability.pending_records import PendingRecords
from mqlab.broker.core.durability.records import Commit, Remove
from mqlab.broker.core.effects import Continue
from mqlab.broker.core.flow import Flow
from mqlab.broker.core.model.destination_names import parse
from mqlab.broker.core.model.destinations import DestinationRegistry
from mqlab.broker.core.model.messages import Span
from mqlab.broker.core.model.queue import Queue
from mqlab.broker.core.model.sessions import Consumer
from mqlab.broker.core.routing.placement import Placed, place, removes


class Removal:
    def __init__(self, destinations: DestinationRegistry, records: PendingRecords, flow: Flow) -> None:
        self._destinations = destinations
        self._records = records
        self._flow = flow

    def forget(self, gone: Placed) -> None:
        """These messages, off their queues already, are gone for good."""
        said = removes(gone)
        if len(said) == 1 or self._records.merges_removals:
            for remove in said:
                self._records.append_removal(*remove)
        elif said:
            self._records.append(Commit((), tuple(said)), None)
        for queue, span in gone:
            self._flow.released(queue, (span,))

    def acknowledged(self, queue: Queue, spans: Sequence[Span]) -> None:
        """A consumer is done with these messages. Mostly the journal knows nothing of them."""
        counters, lasting = queue.counters, False
        for span in spans:
            counters.acknowledged += span.rows
            if span.persistent:
                lasting = queue.stored
        if len(spans) == 1 and not (queue.closed or self._flow.held):
            # By far the most, where one waits for the other; nobody waits for its room.
            if lasting and self._records.merges_removals:
                self._records.append_removal(queue.number, spans[0].ranges())
            elif lasting:
                self._records.append(Remove(queue.number, tuple(spans[0].ranges())), None)
            queue.release(spans[0])
        elif lasting:
            self.forget([(queue, span) for span in spans])
        else:
            self._flow.released(queue, spans)

    def consumed(self, removed: Placed) -> None:
        """A transaction that received these messages has ended well; the journal knows."""
        for queue, span in removed:
            queue.counters.acknowledged += span.rows
            self._flow.released(queue, (span,))

    def put_back(self, returned: Placed) -> None:
        """What was delivered in vain goes back to where it belongs, or to the dead letters, if that was too often."""
        by_queue: dict[Queue, list[Span]] = {}
        for queue, span in returned:
            by_queue.setdefault(queue, []).append(span)
        for queue, spans in by_queue.items():
            if queue.closed:
                self.forget([(queue, span) for span in spans])
                continue
            dead: list[Span] = []
            alive: list[Span] = []
            for span in spans:
                (dead if self._is_dead(queue, span) else alive).append(span)
            queue.counters.redelivered += sum(span.rows for span in spans if span.delivered)
            put_back(queue, alive)
            if dead:
                queue.counters.dead += sum(span.rows for span in dead)
                self.transfer(queue, dead, self._destinations.queue(parse(queue.policy.dead_letters)[1], internal=True))

    def lacks_room(self, spans: Sequence[Span]) -> str:
        """Why the journal cannot take these messages once more, or ""."""
        sizes = [span.size for span in spans if span.persistent]
        return self._records.reason_no_space(sum(sizes), len(sizes)) if sizes else ""

    def transfer(self, queue: Queue, spans: Sequence[Span], to: Queue) -> None:
        """These messages, off their queue already, go to another one, in one step each."""
        for span in spans:
            origin = span.origin or queue.full_name
            placing = place((to,), span.encoded(), persistent=span.persistent, origin=origin, sender=None)
            for _, moved in placing.placed:
                # Where expired messages are kept they do not expire again, and what was due stays so.
                moved.expires, moved.due = 0, span.due
            lsn = 0
            gone = removes([(queue, span)])
            if placing.put is not None or gone:
                said = () if placing.put is None else (placing.put,)
                lsn = self._records.append(Commit(said, tuple(gone)), to)
            self._flow.released(queue, (span,))
            self._records.run_when_durable(lsn, self.make_visible, placing.placed)

    def make_visible(self, placed: Placed) -> None:
        for queue, span in placed:
            queue.unseen.discard(span)
            if queue.closed:
                self.forget([(queue, span)])
            else:
                queue.put(span)

    def delete(self, queue: Queue) -> None:
        """The queue, which has no consumer left, and all on it."""
        feeding = self._destinations.close(queue)
        self._let_go(queue)
        for destination in feeding:
            self._flow.reconsider(destination.producers)

    def delete_with(self, consumer: Consumer, messages: int) -> None:
        """The subscription of its last consumer, and all on it or with the consumer.

        `messages` are on the queues of all consumers that end with it: more than a slice of them go in later turns.
        """
        queue = consumer.queue
        queue.returned.extend(span for _, span in consumer.unacknowledged)
        consumer.unacknowledged.clear()
        if messages <= limits.SLICE:
            self.delete(queue)
            return
        for destination in self._destinations.close(queue):
            self._flow.reconsider(destination.producers)
        queue.context.effects.append(Continue(partial(self._let_go, queue)))

    def _let_go(self, queue: Queue) -> None:
        """Of what is on a closed queue, of which the journal needs to know no more: a slice."""
        left = limits.SLICE
        while left > 0 and (spans := queue.take_some(left)):
            self._flow.released(queue, spans)
            left -= len(spans)
        if left <= 0:
            queue.context.effects.append(Continue(partial(self._let_go, queue)))

    def expired(self, queue: Queue, span: Span) -> None:
        to = queue.policy.expired
        if to and to != queue.full_name:
            self.transfer(queue, [span], self._destinations.queue(parse(to)[1], internal=True))
        else:
            self.forget([(queue, span)])

    def drop_oldest(self, queue: Queue) -> None:
        """The policy of the subscription is to lose messages rather than to wait."""
        while queue.full and (span := queue.oldest) is not None:
            queue.unlink(span)
            queue.counters.dropped += span.rows
            self.forget([(queue, span)])

    def _is_dead(self, queue: Queue, span: Span) -> bool:
        """Deliveries that nobody knows of do not count: a restart alone makes no message one that nobody takes."""
        policy, times = queue.policy, span.delivered - span.doubtful
        if not 0 < policy.redelivery_limit <= times or queue.full_name == policy.dead_letters:
            return False
        # Queues may name each other: what came from another one stays, rather than go round for ever.
        return not span.origin or not self._destinations.leads_back(queue)
