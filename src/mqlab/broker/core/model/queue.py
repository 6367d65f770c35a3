"""Queues with their spans and consumers, and topics. A subscription of a topic has a queue of its own.

Other modules read the state of a queue, but change it by its methods only. `dispatch` decides who gets which message.
"""

import sys
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, islice
from typing import Final

from mqlab.broker import limits
from mqlab.broker.core.context import CoreContext
from mqlab.broker.core.model.messages import Span
from mqlab.broker.core.model.queue_consumer import QueueConsumer, WaitingReceives
from mqlab.broker.core.model.queue_usage import QueueUsage
from mqlab.broker.core.model.schedule import Schedule
from mqlab.broker.core.model.span_list import SpanList
from mqlab.broker.core.model.subscription import Subscription
from mqlab.broker.core.routing.ordering import DEFAULT_PRIORITY, expired, next_expiry
from mqlab.broker.policy import Policy

# Expiry times of messages that have left are dropped when they outnumber the messages on the queue by so much.
_SLACK: Final = 64


class Topic:
    """Every subscription gets every message that is sent while it exists."""

    closed: Final = False  # unlike a queue, it cannot be deleted

    def __init__(self, name: str) -> None:
        self.name = name
        self.subscriptions: list[Queue] = []
        self.producers: set[object] = set()

    def add(self, queue: "Queue") -> None:
        self.subscriptions.append(queue)
        queue.topics[self.name] = self

    def remove(self, queue: "Queue") -> None:
        self.subscriptions.remove(queue)
        del queue.topics[self.name]

    def drop(self) -> None:
        """No queue names it any more. It keeps its subscriptions for transactions that end later."""
        for queue in self.subscriptions:
            del queue.topics[self.name]

    @property
    def full_name(self) -> str:
        return f"topic:{self.name}"


class Queue(QueueUsage):
    # Looked up for each message: CPython finds attributes quickly in slots, or among at most 30 of an object.
    __slots__ = (
        "__weakref__", "_delayed", "_expiring", "_selective_consumers", "_wakes_at", "closed", "consumers",
        "dispatch_deferred", "grouped", "groups", "name", "number", "owner", "producers", "ready", "receives",
        "requeued", "selective", "span_lists", "subscription", "topics",
    )  # fmt: skip

    def __init__(
        self, number: int, name: str, policy: Policy, context: CoreContext, *, stored: bool, next_id: int = 1,
        subscription: Subscription | None = None, owner: object | None = None,
    ) -> None:  # fmt: skip
        super().__init__(policy, context, stored=stored, next_id=next_id)
        self.number = number
        self.name = name
        # By priority, the highest first.
        self.span_lists: list[SpanList] = [SpanList(DEFAULT_PRIORITY)]
        self.consumers: list[QueueConsumer] = []
        # The consumers that have credit, in the order of their turns.
        self.ready: deque[QueueConsumer] = deque()
        self.producers: set[object] = set()
        # Messages that come back from consumers and are not in a list of spans yet.
        self.requeued: deque[Span] = deque()
        # A queue of a subscription: what it subscribes to, and the topics that feed it.
        self.subscription = subscription
        self.topics: dict[str, Topic] = {}
        # The connection that a temporary queue belongs to.
        self.owner = owner
        self.closed = False
        # Which consumer has the messages of a group.
        self.groups: dict[str, QueueConsumer] = {}
        self.grouped = False
        # Dispatch must look at more than whose turn it is: groups, or consumers that are selective.
        self.selective = False
        self._selective_consumers = 0
        # Dispatch goes on in a later slice.
        self.dispatch_deferred = False
        self._delayed = Schedule()
        self._expiring = Schedule()
        # When it will be woken, as far as that is arranged.
        self._wakes_at: int | None = None
        # None until the first receive by id.
        self.receives: WaitingReceives | None = None

    @property
    def full_name(self) -> str:
        return f"queue:{self.name}" if self.subscription is None else f"subscription:{self.name}"

    @property
    def guarded_as(self) -> str:
        """The destination whose rights decide about it."""
        return self.full_name if self.subscription is None else f"topic:{self.subscription.terms.topic}"

    @property
    def sources(self) -> "Iterable[Queue | Topic]":
        """The destinations whose producers wait when it is full."""
        return (self,) if self.subscription is None else self.topics.values()

    def spans(self) -> Iterator[Span]:
        """All that could be delivered now, best first."""
        return chain.from_iterable(self.span_lists)

    @property
    def oldest(self) -> Span | None:
        """The span with the lowest id that could be delivered now, whatever its priority."""
        heads = (span_list.first for span_list in self.span_lists if span_list.first is not None)
        return min(heads, key=lambda span: span.first_id, default=None)

    def replace(self, run: Sequence[Span], made: Sequence[Span]) -> None:
        """Put `made` in the place of `run`, which are neighbours in a list and have the same messages."""
        full, span_list, messages = self.full, run[0].span_list, self.messages
        assert isinstance(span_list, SpanList)
        for span in run:
            span_list.unlink(span)
            self.release(span)
        for span in made:
            self.reserve(span)
            span.since = run[0].since
            span_list.insert(span)
            if self.receives is not None:
                self.receives.on_replaced(span)
        assert self.messages == messages
        # No message has left: producers wait until one does.
        self.full |= full

    # Consumers

    def attach(self, consumer: QueueConsumer) -> None:
        assert not consumer.waiting
        self.consumers.append(consumer)
        self._selective_consumers += consumer.is_selective
        self.selective = self.grouped or self._selective_consumers > 0
        self.dispatch_to(consumer)

    def detach(self, consumer: QueueConsumer) -> None:
        self.consumers.remove(consumer)
        self.revoke_credit(consumer)
        self.cancel_receives(consumer)
        for span_list, cursor in consumer.cursors.items():
            span_list.cursors.remove(cursor)
        left = {group: owner for group, owner in self.groups.items() if owner is not consumer}
        if len(left) < len(self.groups):
            self.groups = left
            for span_list in self.span_lists:
                span_list.reset_cursors()
        self._selective_consumers -= consumer.is_selective
        self.selective = self.grouped or self._selective_consumers > 0
        assert self._selective_consumers >= 0

    def dispatch_to(self, consumer: QueueConsumer) -> None:
        """The consumer may have credit now: it gets its turn."""
        if not consumer.waiting and consumer.ready:
            consumer.waiting = True
            self.ready.append(consumer)
        self.dispatch()

    def add_credit(self, consumer: QueueConsumer, messages: int) -> None:
        before = consumer.credit
        consumer.credit += messages
        if before <= 0 or not consumer.waiting or self.selective:
            self.dispatch_to(consumer)

    def revoke_credit(self, consumer: QueueConsumer) -> None:
        consumer.credit = 0
        if consumer.waiting:
            consumer.waiting = False
            self.ready.remove(consumer)

    def take_ready(self) -> QueueConsumer | None:
        """The consumer whose turn it is; it leaves `ready`."""
        ready = self.ready
        while ready:
            consumer = ready.popleft()
            if consumer.credit > 0 and not consumer.paused:
                return consumer
            consumer.waiting = False
        return None

    def use_credit(self, consumer: QueueConsumer, messages: int) -> None:
        """A consumer that left `ready` gets messages; with credit left it will have another turn."""
        consumer.credit -= messages
        assert consumer.credit >= 0
        if consumer.credit > 0:
            self.ready.append(consumer)
        else:
            consumer.waiting = False

    def set_ready(self, consumers: Iterable[QueueConsumer]) -> None:
        """The consumers with credit, in the order of their turns."""
        self.ready.clear()
        self.ready.extend(consumers)

    def drop_ready(self, consumer: QueueConsumer) -> None:
        self.ready.remove(consumer)
        consumer.waiting = False

    def end_turn(self, consumer: QueueConsumer) -> None:
        """Another consumer comes first the next time."""
        self.ready.remove(consumer)
        self.ready.append(consumer)

    def claim_group(self, group: str, consumer: QueueConsumer) -> None:
        assert group not in self.groups
        self.groups[group] = consumer
        if len(self.groups) > limits.GROUPS:
            del self.groups[next(iter(self.groups))]

    def cancel_receives(self, consumer: QueueConsumer) -> None:
        if self.receives is not None:
            self.receives.cancel(consumer)

    def set_receives(self, receives: WaitingReceives) -> None:
        assert self.receives is None
        self.receives = receives

    # Messages

    def put(self, span: Span) -> None:
        """Make reserved messages visible; those that are not due yet wait for their time."""
        self.count_put(span)
        if span.due:
            if span.due > self.context.now_ms:
                self._delay(span)
                return
            span.due = 0
        self.enter(span)
        self.dispatch()
        if self.policy.save_extent and span.span_list is not None:
            self.context.save_beyond_extent(self, span)

    def restore(self, span: Span) -> None:
        """At start: messages that the journal had. Those that have expired meanwhile leave with the first wake."""
        self.reserve(span)
        span.since = self.context.monotonic_us
        if span.due > self.context.now_ms:
            self._delay(span)
            return
        span.due = 0
        for part in self._list_of(span.priority).insert(span):
            self._watch_expiry(part, part.expires)

    def requeue(self, spans: Iterable[Span]) -> None:
        """Messages come back from consumers; `enter_requeued` puts them where their ids belong."""
        self.requeued.extend(spans)

    def enter_requeued(self, most: int) -> bool:
        """Dispatch is deferred until all are back: a later message must not overtake an earlier one."""
        requeued = self.requeued
        for _ in range(min(most, len(requeued))):
            self.enter(requeued.popleft())
        self.dispatch_deferred = bool(requeued)
        return self.dispatch_deferred

    def enter(self, span: Span) -> None:
        """Insert a span into its list, unless it has expired."""
        for part in self._list_of(span.priority).insert(span):
            if part.expires > self.context.now_ms:
                self._watch_expiry(part, part.expires)
            elif part.expires and not self.drop_expired(part):
                continue
            if self.receives is not None:
                self.receives.on_entered(part)

    def unlink(self, span: Span) -> None:
        """Take a span out of its list."""
        assert isinstance(span.span_list, SpanList)
        span.span_list.unlink(span)

    def take_some(self, most: int) -> list[Span]:
        """At most so many spans that no consumer holds leave the queue."""
        spans = [*islice(self.spans(), most)]
        for span in spans:
            self.unlink(span)
        back = [self.requeued.popleft() for _ in range(min(most, len(self.requeued)))]
        return spans + back or [*self._delayed.take_until(sys.maxsize, most)]

    def delayed(self) -> list[Span]:
        """Spans that are not due yet, in the order in which they came."""
        return self._delayed.in_order()

    def drop_delayed(self, gone: set[Span]) -> None:
        """These spans, or parts of spans that are delayed, leave the queue before they are due."""
        self._delayed.retain(lambda _, span: span not in gone)

    # Dispatch and time

    def dispatch(self) -> None:
        """Deliver what there is to consumers with credit."""
        if self.selective:
            self.context.dispatch_selective(self)
        elif self.ready:
            self.context.dispatch_round_robin(self)

    def defer_dispatch(self) -> bool:
        """Dispatch goes on in a later slice. False if that is arranged already."""
        was_deferred, self.dispatch_deferred = self.dispatch_deferred, True
        return not was_deferred

    def resume_dispatch(self) -> None:
        self.dispatch_deferred = bool(self.requeued)
        self.dispatch()

    def wake(self, most: int = limits.SLICE) -> int:
        """Make due messages visible and remove expired ones, `most` spans at a time. Returns how many."""
        now = self.context.now_ms
        if self._wakes_at is None or self._wakes_at > now:
            # An earlier wake took the place of this one: were it to arrange the next as well, they would multiply.
            return 0
        self._wakes_at, looks = None, 0
        for span in self._delayed.take_until(now, most):
            span.due = 0
            self.enter(span)
            looks += 1
        for span in self._expiring.take_until(now, most - looks):
            self.drop_expired(span)
            looks += 1
        self.dispatch()
        times = [schedule.next_time for schedule in (self._delayed, self._expiring) if schedule.next_time is not None]
        if times:
            self._wake_at(min(times))
        return looks

    def clock_set_back(self, step_ms: int) -> None:
        """Delays last as long as before; an expiry is a time of the wall clock, and stays what it is."""
        for span in self._delayed.take_all():
            span.due -= step_ms
            self._delay(span)

    def drop_expired(self, span: Span) -> bool:
        """Remove the expired messages of a span. Returns whether the span is still in its list."""
        now = self.context.now_ms
        if span.span_list is None or not span.expires or span.expires > now:
            return span.span_list is not None
        flags = expired(span, now)
        if not flags.any():
            self._watch_expiry(span, next_expiry(span, now))
            return True
        gone = span
        if flags.all():
            self.unlink(span)
        else:
            gone = span.take(flags)
            self._watch_expiry(span, next_expiry(span, now))
        self.counters.expired += gone.rows
        self.context.on_expired(self, gone)
        return span.span_list is not None

    def note_group(self) -> None:
        """Messages of groups came: from now on dispatch looks at groups."""
        self.grouped = self.selective = True

    def rename(self, name: str) -> None:
        self.name = name

    def close(self) -> None:
        """The queue is deleted: it has no consumers, and takes no message any more."""
        assert not self.consumers
        self.closed = True

    def _list_of(self, priority: int) -> SpanList:
        for span_list in self.span_lists:
            if span_list.priority == priority:
                return span_list
        span_list = SpanList(priority)
        self.span_lists.append(span_list)
        self.span_lists.sort(key=lambda one: -one.priority)
        return span_list

    def _watch_expiry(self, span: Span, when: int) -> None:
        span.expires = when
        if when:
            self._expiring.add(when, span)
            self._wake_at(when)
            if len(self._expiring) > 2 * self.messages + _SLACK:
                self._expiring.retain(lambda when, span: span.span_list is not None and span.expires == when)

    def _delay(self, span: Span) -> None:
        self._delayed.add(span.due, span)
        self._wake_at(span.due)

    def _wake_at(self, when: int) -> None:
        if self._wakes_at is None or when < self._wakes_at:
            self._wakes_at = when
            self.context.wake_at(when, self)
