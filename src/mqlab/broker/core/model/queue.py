"""Queues: messages in line, and the consumers that compete for them. Each subscription of a topic has one, too."""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Iterable, Iterator
from itertools import chain, islice
from typing import TYPE_CHECKING, Final

from mqlab.broker import limits
from mqlab.broker.core.context import CoreContext
from mqlab.broker.core.dispatch import round_robin, selective
from mqlab.broker.core.dispatch.correlation_index import Key
from mqlab.broker.core.dispatch.receive_by_id import Finding
from mqlab.broker.core.durability import paging
from mqlab.broker.core.effects import Continue, deliver
from mqlab.broker.core.model.messages import Span
from mqlab.broker.core.model.schedule import Agenda
from mqlab.broker.core.model.sessions import Consumer, Producer
from mqlab.broker.core.model.span_list import SpanList
from mqlab.broker.core.monitoring import Counters, Watch
from mqlab.broker.core.routing.ordering import DEFAULT_PRIORITY, expired, next_expiry
from mqlab.broker.policy import Policy

if TYPE_CHECKING:
    from mqlab.broker.core.routing.topics import Subscription, Topic

# A full destination accepts again when it has fallen to this share of its limit: without the gap each message
# taken would release a producer for one message, with a frame for each.
RELEASE_SHARE: Final = 0.75
# Times of messages that have left are forgotten when they outnumber the messages that are there by so much.
_SLACK: Final = 64


class Queue:
    # Looked up for each message: CPython finds attributes quickly in slots, or among at most 30 of an object.
    __slots__ = (
        "__weakref__", "_choosing", "_delayed", "_expiring", "_wakes_at", "beyond", "beyond_size", "closed",
        "consumers", "context", "counters", "finding", "full", "grouped", "groups", "in_memory", "is_due", "messages",
        "name", "next_id", "number", "owner", "policy", "producers", "ready", "returned", "selective", "size",
        "span_lists", "stored", "subscription", "unseen", "watch",
    )  # fmt: skip

    def __init__(self, number: int, name: str, policy: Policy, context: CoreContext, *, stored: bool) -> None:
        self.number = number
        self.name = name
        self.policy = policy
        self.context = context
        # Its persistent messages go to the journal. A non-durable subscription ends with its consumer: nothing to keep.
        self.stored = stored
        self.next_id = 1
        # By priority, the highest first.
        self.span_lists: list[SpanList] = [SpanList(DEFAULT_PRIORITY)]
        self.consumers: list[Consumer] = []
        # Those of them that have room, in the order in which they came to it.
        self.ready: deque[Consumer] = deque()
        self.producers: set[Producer] = set()
        # Of all messages not yet acknowledged, delivered or not: their bytes, and the bytes they take in memory.
        self.messages = 0
        self.size = 0
        self.in_memory = 0
        self.full = False
        # Messages that the journal has or will have, and that are not visible before they are durable.
        self.unseen: set[Span] = set()
        # Delivered in vain, and not back in line yet.
        self.returned: deque[Span] = deque()
        # What it subscribes to, if it is a subscription; whose temporary queue it is, if it is one.
        self.subscription: Subscription | None = None
        self.owner: object | None = None
        self.closed = False
        self.counters = Counters()
        self.watch = Watch(context.sampling_interval) if context.sampling_interval else None
        # Which consumer has the messages of a group.
        self.groups: dict[str, Consumer] = {}
        self.grouped = False
        # Messages above the save extent that are still in memory.
        self.beyond: list[Span] = []
        self.beyond_size = 0
        # Dispatch has more to look at than who comes first: so many consumers choose. It goes on in a later turn.
        self.selective = False
        self._choosing = 0
        self.is_due = False
        self._delayed = Agenda()
        self._expiring = Agenda()
        # When it will be woken, as far as that is arranged.
        self._wakes_at: int | None = None
        # Who asks for messages by their ids; None as long as nobody did.
        self.finding: Finding | None = None

    @property
    def full_name(self) -> str:
        return f"queue:{self.name}" if self.subscription is None else f"subscription:{self.name}"

    @property
    def guarded_as(self) -> str:
        """The destination whose rights decide about it."""
        return self.full_name if self.subscription is None else f"topic:{self.subscription.terms.topic}"

    @property
    def feeding(self) -> Iterable[Queue | Topic]:
        """Whose producers wait when it is full."""
        return (self,) if self.subscription is None else self.subscription.topics.values()

    def spans(self) -> Iterator[Span]:
        """All that could be delivered now, best first."""
        return chain.from_iterable(self.span_lists)

    @property
    def oldest(self) -> Span | None:
        """Of those in line, whatever their priority."""
        return min((line.first for line in self.span_lists if line.first is not None), key=_first_id, default=None)

    def new_ids(self, rows: int) -> int:
        first = self.next_id
        self.next_id += rows
        return first

    # How much there is

    def reserve(self, span: Span) -> None:
        """The queue answers for these messages from now on, be they visible yet or not."""
        self.messages += span.rows
        self.size += span.size
        memory = span.memory
        self.in_memory += memory
        self.context.memory += memory
        policy = self.policy
        if self.size >= policy.queue_limit or 0 < policy.message_limit <= self.messages:
            self.full = True

    def release(self, span: Span) -> None:
        self.messages -= span.rows
        self.size -= span.size
        memory = span.memory
        self.in_memory -= memory
        self.context.memory -= memory
        if self.full and self.size <= self.policy.queue_limit * RELEASE_SHARE:
            limit = self.policy.message_limit
            self.full = bool(limit) and self.messages > limit * RELEASE_SHARE

    # Consumers

    def attach(self, consumer: Consumer) -> None:
        self.consumers.append(consumer)
        self._choosing += consumer.chooses
        self.selective = self.grouped or self._choosing > 0
        self.dispatch_to(consumer)

    def detach(self, consumer: Consumer) -> None:
        self.consumers.remove(consumer)
        if consumer.waiting:
            self.ready.remove(consumer)
            consumer.waiting = False
        self.cancel(consumer)
        for line, cursor in consumer.cursors.items():
            line.cursors.remove(cursor)
        left = {group: owner for group, owner in self.groups.items() if owner is not consumer}
        if len(left) < len(self.groups):
            self.groups = left
            for line in self.span_lists:
                line.look_again()
        self._choosing -= consumer.chooses
        self.selective = self.grouped or self._choosing > 0

    def dispatch_to(self, consumer: Consumer) -> None:
        """It may have room now: it gets in line for what there is."""
        if not consumer.waiting and consumer.ready:
            consumer.waiting = True
            self.ready.append(consumer)
        self.dispatch()

    def give_room(self, consumer: Consumer, messages: int) -> None:
        had = consumer.credit
        consumer.credit += messages
        if had <= 0 or not consumer.waiting or self.selective:
            # Else it is in line already, and there was nothing for it.
            self.dispatch_to(consumer)

    def take_room(self, consumer: Consumer) -> None:
        """It has none left, and is not in line for anything any more."""
        consumer.credit = 0
        if consumer.waiting:
            consumer.waiting = False
            self.ready.remove(consumer)

    def receive(self, consumer: Consumer, key: Key) -> None:
        """One message by its id: at once, or when it comes."""
        if self.finding is None:
            self.finding = Finding(self)
        self.finding.receive(consumer, key)

    def cancel(self, consumer: Consumer) -> None:
        """It no longer waits for any message by its id."""
        if self.finding is not None:
            self.finding.forget(consumer)

    # Messages

    def put(self, span: Span) -> None:
        """Make reserved messages visible, or known if they are not due yet."""
        self.count_put(span)
        if span.due:
            if span.due > self.context.now_ms:
                self._delay(span)
                return
            span.due = 0
        self.enter(span)
        self.dispatch()
        if self.policy.save_extent and span.span_list is not None:
            paging.save_beyond(self, span)

    def count_put(self, span: Span) -> None:
        self.counters.put += span.rows
        watch = self.watch
        if watch is not None:
            now = span.since = watch.last_put = self.context.monotonic_us
            if now >= watch.sums_at:
                watch.sum_up(self)

    def restore(self, span: Span) -> None:
        """At start: a message that the journal had. If it has expired meanwhile, it leaves with the first wake."""
        self.reserve(span)
        span.since = self.context.monotonic_us
        if span.due > self.context.now_ms:
            self._delay(span)
            return
        span.due = 0
        for part in self._list_of(span.priority).insert(span):
            self._watch_expiry(part, part.expires)

    def take_some(self, most: int) -> list[Span]:
        """Of what is not with a consumer, so much leaves the queue."""
        spans = [*islice(self.spans(), most)]
        for span in spans:
            self.unlink(span)
        back = [self.returned.popleft() for _ in range(min(most, len(self.returned)))]
        return spans + back or [*self._delayed.take_until(sys.maxsize, most)]

    def delayed(self) -> list[Span]:
        """What is not due yet, in the order in which it came."""
        return self._delayed.in_order()

    def drop_delayed(self, gone: set[Span]) -> None:
        """These leave the queue before they are due."""
        self._delayed.keep(lambda _, span: span not in gone)

    def dispatch(self) -> None:
        """Give what there is to those who have room, in turn."""
        if self.selective:
            selective.dispatch(self)
        elif self.ready:
            round_robin.dispatch(self)

    def give(self, consumer: Consumer, span: Span) -> None:
        """These messages, which are off the line, are the consumer's."""
        first, rows = consumer.next_delivery, span.rows
        consumer.next_delivery = first + rows
        consumer.unacknowledged.append((first, span))
        counters = self.counters
        counters.delivered += rows
        watch = self.watch
        if watch is not None:
            now = watch.last_get = self.context.monotonic_us
            if counters.delivered >= watch.looks_at:
                watch.looks_at = counters.delivered + watch.every
                watch.times.append(now - span.since if now > span.since else 0)
            if now >= watch.sums_at:
                watch.sum_up(self)
        self.context.effects.append(deliver((consumer, first, span)))

    def unlink(self, span: Span) -> None:
        line = span.span_list
        assert isinstance(line, SpanList)
        line.unlink(span)

    # Time

    def wake(self, most: int = limits.SLICE) -> int:
        """What is due becomes visible; what has expired leaves. Returns of how many it was; no more than `most`."""
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
        times = [agenda.next_time for agenda in (self._delayed, self._expiring) if agenda.next_time is not None]
        if times:
            self._wake_at(min(times))
        return looks

    def dispatch_later(self) -> None:
        """There is more to look at than one slice has time for."""
        if not self.is_due:
            self.is_due = True
            self.context.effects.append(Continue(self._dispatch_on))

    def _dispatch_on(self) -> None:
        self.is_due = bool(self.returned)
        self.dispatch()

    def clock_set_back(self, step_ms: int) -> None:
        """Delays go on as if nothing had happened; an expiry is a time of the wall clock, and stays what it is."""
        for span in self._delayed.take_all():
            span.due -= step_ms
            self._delay(span)

    def drop_expired(self, span: Span) -> bool:
        """Takes what has expired from a span in line. Whether anything is left of it."""
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

    # The parts

    def head(self) -> Span | None:
        now, looks = self.context.now_ms, limits.SLICE
        for line in self.span_lists:
            span = line.first
            while span is not None:
                if not 0 < span.expires <= now or self.drop_expired(span):
                    return span
                span = line.first
                looks -= 1
                if not looks:
                    self.dispatch_later()
                    return None
        return None

    def enter(self, span: Span) -> None:
        """It stands in line from now on, unless it has expired."""
        for part in self._list_of(span.priority).insert(span):
            if part.expires > self.context.now_ms:
                self._watch_expiry(part, part.expires)
            elif part.expires and not self.drop_expired(part):
                continue
            if self.finding is not None:
                self.finding.came(part)

    def _list_of(self, priority: int) -> SpanList:
        for line in self.span_lists:
            if line.priority == priority:
                return line
        line = SpanList(priority)
        self.span_lists.append(line)
        self.span_lists.sort(key=lambda one: -one.priority)
        return line

    def _watch_expiry(self, span: Span, when: int) -> None:
        span.expires = when
        if when:
            self._expiring.note(when, span)
            self._wake_at(when)
            if len(self._expiring) > 2 * self.messages + _SLACK:
                self._expiring.keep(lambda when, one: one.span_list is not None and one.expires == when)

    def _delay(self, span: Span) -> None:
        self._delayed.note(span.due, span)
        self._wake_at(span.due)

    def _wake_at(self, when: int) -> None:
        if self._wakes_at is None or when < self._wakes_at:
            self._wakes_at = when
            self.context.wake_at(when, self)

    def note_group(self) -> None:
        """Messages of groups came: from now on dispatch looks at them."""
        self.grouped = self.selective = True


def _first_id(span: Span) -> int:
    return span.first_id
