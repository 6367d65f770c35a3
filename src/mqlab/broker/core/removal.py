"""Removal of messages from queues: acknowledged, expired, dead, moved, purged or deleted; and requeueing."""

from collections.abc import Sequence
from functools import partial

from mqlab.broker import limits
from mqlab.broker.core.dispatch.redelivery import requeue
from mqlab.broker.core.durability.pending_records import PendingRecords
from mqlab.broker.core.durability.records import Commit, Remove
from mqlab.broker.core.effects import Continue
from mqlab.broker.core.flow import FlowControl
from mqlab.broker.core.model.destination_names import parse
from mqlab.broker.core.model.destinations import DestinationRegistry
from mqlab.broker.core.model.messages import Span
from mqlab.broker.core.model.queue import Queue
from mqlab.broker.core.model.sessions import CoreConsumer
from mqlab.broker.core.routing.placement import Placed, place, removal_records


class Removal:
    def __init__(
        self, destinations: DestinationRegistry, records: PendingRecords, flow: FlowControl, memory_limit: int
    ) -> None:
        self._destinations = destinations
        self._most_dead = max(limits.DEAD_LETTERS_LEAST, memory_limit // limits.DEAD_LETTERS_SHARE)
        self._records = records
        self._flow = flow

    def remove(self, removed: Placed) -> None:
        """Remove messages that are in no list any more, for good."""
        records = removal_records(removed)
        if len(records) == 1 or self._records.merges_removals:
            for record in records:
                self._records.append_removal(*record)
        elif records:
            self._records.append(Commit((), tuple(records)), None)
        for queue, span in removed:
            self._flow.release(queue, (span,))

    def acknowledged(self, queue: Queue, spans: Sequence[Span]) -> None:
        """A consumer has acknowledged messages. Only persistent ones have a record."""
        is_stored = False
        for span in spans:
            queue.counters.acknowledged += span.rows
            is_stored = is_stored or (span.persistent and queue.stored)
        if len(spans) == 1 and not (queue.closed or self._flow.held):
            # One message, and no producer waits for its space. Without this case G has 7 % fewer messages a second of
            # processor time, and RR1 4 % fewer (`bench/cpu_time.py OLD`).
            if is_stored and self._records.merges_removals:
                self._records.append_removal(queue.number, spans[0].ranges())
            elif is_stored:
                self._records.append(Remove(queue.number, tuple(spans[0].ranges())), None)
            queue.release(spans[0])
        elif is_stored:
            self.remove([(queue, span) for span in spans])
        else:
            self._flow.release(queue, spans)

    def committed(self, removed: Placed) -> None:
        """Release messages that a committed transaction acknowledged; their record is durable."""
        for queue, span in removed:
            queue.counters.acknowledged += span.rows
            self._flow.release(queue, (span,))

    def requeue(self, unacknowledged: Placed) -> None:
        """Messages go back to their queues or, after too many deliveries, to the dead letter queue."""
        by_queue: dict[Queue, list[Span]] = {}
        for queue, span in unacknowledged:
            by_queue.setdefault(queue, []).append(span)
        for queue, spans in by_queue.items():
            if queue.closed:
                self.remove([(queue, span) for span in spans])
                continue
            dead: list[Span] = []
            alive: list[Span] = []
            for span in spans:
                (dead if self._is_dead(queue, span) else alive).append(span)
            queue.counters.redelivered += sum(span.rows for span in spans if span.delivered)
            requeue(queue, alive)
            if dead:
                self._bury(queue, dead)

    def reject(self, unacknowledged: Placed) -> None:
        """Move messages that a consumer cannot process to the dead letter queue; without room there, requeue them."""
        for queue, span in unacknowledged:
            if not queue.closed and self._has_dead_letters(queue, span):
                self._bury(queue, [span])
            else:
                self.requeue([(queue, span)])

    def reason_no_space(self, spans: Sequence[Span]) -> str:
        """Why the journal cannot take these messages once more, or ""."""
        sizes = [span.size for span in spans if span.persistent]
        return self._records.reason_no_space(sum(sizes), len(sizes)) if sizes else ""

    def transfer(self, queue: Queue, spans: Sequence[Span], to: Queue) -> None:
        """Move messages that are in no list any more to another queue, each span in one atomic record."""
        for span in spans:
            origin = span.origin or queue.full_name
            placement = place((to,), span.encoded(), persistent=span.persistent, origin=origin, sender=None)
            for _, moved in placement.placed:
                # A moved message does not expire again, and stays due.
                moved.expires, moved.due = 0, span.due
            lsn = 0
            removes = removal_records([(queue, span)])
            if placement.put is not None or removes:
                puts = () if placement.put is None else (placement.put,)
                lsn = self._records.append(Commit(puts, tuple(removes)), to)
            self._flow.release(queue, (span,))
            self._records.run_when_durable(lsn, self.make_visible, placement.placed)

    def make_visible(self, placed: Placed) -> None:
        """Dispatch reserved messages, whose records are durable now."""
        for queue, span in placed:
            queue.unhide(span)
            if queue.closed:
                self.remove([(queue, span)])
            else:
                queue.put(span)

    def delete(self, queue: Queue) -> None:
        """Delete a queue without consumers, with its messages."""
        sources = self._destinations.close(queue)
        self._release_slice(queue)
        for destination in sources:
            self._flow.reconsider(destination.producers)

    def delete_with(self, consumer: CoreConsumer, messages: int) -> None:
        """Delete the subscription of its last consumer, with its messages and those of the consumer.

        `messages` are on the queues of all consumers that are closed together: more than a slice goes in later slices.
        """
        queue = consumer.queue
        queue.requeue(span for _, span in consumer.unacknowledged)
        consumer.unacknowledged.clear()
        if messages <= limits.SLICE:
            self.delete(queue)
            return
        for destination in self._destinations.close(queue):
            self._flow.reconsider(destination.producers)
        queue.context.effects.append(Continue(partial(self._release_slice, queue)))

    def _release_slice(self, queue: Queue) -> None:
        """Release a slice of the messages of a deleted queue; the journal has the deletion already."""
        left = limits.SLICE
        while left > 0 and (spans := queue.take_some(left)):
            self._flow.release(queue, spans)
            left -= len(spans)
        if left <= 0:
            queue.context.effects.append(Continue(partial(self._release_slice, queue)))

    def expired(self, queue: Queue, span: Span) -> None:
        """Move expired messages to the queue that the policy names, or remove them."""
        to = queue.policy.expired
        if to and to != queue.full_name:
            self.transfer(queue, [span], self._destinations.queue(parse(to)[1], internal=True))
        else:
            self.remove([(queue, span)])

    def drop_oldest(self, queue: Queue) -> None:
        """Drop the oldest messages of a full subscription, as its policy says."""
        while queue.full and (span := queue.oldest) is not None:
            queue.unlink(span)
            queue.counters.dropped += span.rows
            self.remove([(queue, span)])

    def _bury(self, queue: Queue, dead: Sequence[Span]) -> None:
        queue.counters.dead += sum(span.rows for span in dead)
        self.transfer(queue, dead, self._destinations.queue(parse(queue.policy.dead_letters)[1], internal=True))

    def _is_dead(self, queue: Queue, span: Span) -> bool:
        """Deliveries before a restart do not count: they may never have reached a consumer."""
        times = span.delivered - span.doubtful
        return 0 < queue.policy.redelivery_limit <= times and self._has_dead_letters(queue, span)

    def _has_dead_letters(self, queue: Queue, span: Span) -> bool:
        """Whether the queue has a dead letter queue that can take these messages."""
        policy = queue.policy
        if queue.full_name == policy.dead_letters:
            return False
        dead_letters = self._destinations.queues.get(parse(policy.dead_letters)[1])
        if dead_letters is not None and dead_letters.in_memory + span.memory > self._most_dead:
            return False
        # Policies may form a circle: a message that was moved already stays, rather than go round for ever.
        return not span.origin or not self._destinations.leads_back(queue)
