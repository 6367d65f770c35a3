"""How many messages and bytes a queue answers for, what passed it, and which of it is not visible yet."""

from typing import Final

from mqlab.broker.core.context import CoreContext
from mqlab.broker.core.model.messages import PayloadOnDisk, Span
from mqlab.broker.core.model.queue_consumer import QueueConsumer
from mqlab.broker.core.monitoring import Counters, QueueMonitor
from mqlab.broker.policy import Policy
from mqlab.wire.native.payload import Payload

# A full destination accepts again when it has fallen to this share of its limit: without the gap each consumed message
# would release a producer for one message, with a frame for each.
RELEASE_SHARE: Final = 0.75


class QueueUsage:
    """The part of a queue's state that counts; it knows no lists of spans."""

    __slots__ = (
        "_page_candidates", "_page_candidates_size", "context", "counters", "full", "hidden", "in_memory", "messages",
        "monitor", "next_id", "policy", "size", "stored",
    )  # fmt: skip

    def __init__(self, policy: Policy, context: CoreContext, *, stored: bool, next_id: int) -> None:
        self.policy = policy
        self.context = context
        # The journal has its persistent messages. A non-durable subscription ends with its consumer: it is not stored.
        self.stored = stored
        self.next_id = next_id
        # All messages that are not acknowledged yet, delivered or not: their bytes, and those that are in memory.
        self.messages = 0
        self.size = 0
        self.in_memory = 0
        self.full = False
        # Persistent messages that are not visible before their record is durable.
        self.hidden: set[Span] = set()
        self.counters = Counters()
        self.monitor = QueueMonitor(context.sampling_interval) if context.sampling_interval else None
        # Messages above the save extent that are still in memory.
        self._page_candidates: list[Span] = []
        self._page_candidates_size = 0

    def new_ids(self, rows: int) -> int:
        first = self.next_id
        self.next_id += rows
        return first

    def reserve(self, span: Span) -> None:
        """Count messages that the queue answers for from now on, visible or not."""
        self.messages += span.rows
        self.size += span.size
        memory = span.memory
        self.in_memory += memory
        self.context.memory += memory
        policy = self.policy
        if self.size >= policy.queue_limit or 0 < policy.message_limit <= self.messages:
            self.full = True

    def reserve_hidden(self, span: Span) -> None:
        """Count messages that become visible when their record is durable."""
        assert self.stored
        assert span not in self.hidden
        self.reserve(span)
        self.hidden.add(span)

    def reserve_single(self, payload: Payload, origin: str) -> Span:
        """`reserve_hidden` of a single persistent message."""
        number = self.next_id
        self.next_id = number + 1
        span = Span(payload, number, True, None, 0, origin)
        self.reserve(span)
        self.hidden.add(span)
        return span

    def unhide(self, span: Span) -> None:
        """The record of these messages is durable, or they are removed."""
        assert span in self.hidden or not (self.stored and span.persistent), "only reserved messages become visible"
        self.hidden.discard(span)

    def release(self, span: Span) -> None:
        """Messages are gone from the queue and from its consumers."""
        messages = self.messages = self.messages - span.rows
        self.size -= span.size
        memory = span.memory
        self.in_memory -= memory
        self.context.memory -= memory
        assert messages > 0 or messages == self.size == self.in_memory == 0, "an empty queue counts nothing"
        if self.full and self.size <= self.policy.queue_limit * RELEASE_SHARE:
            limit = self.policy.message_limit
            self.full = bool(limit) and self.messages > limit * RELEASE_SHARE

    def page_out(self, span: Span, stored: PayloadOnDisk) -> None:
        """Its payload is on disk now. The messages stay: producers wait until one leaves."""
        full = self.full
        self.release(span)
        span.moved(stored)
        assert span.memory == 0
        self.reserve(span)
        self.full |= full
        self.counters.saved += span.rows

    def add_page_candidate(self, span: Span) -> tuple[int, int]:
        """Returns how many candidates there are, and their size."""
        self._page_candidates.append(span)
        self._page_candidates_size += span.size
        return len(self._page_candidates), self._page_candidates_size

    def take_page_candidates(self) -> list[Span]:
        """Those that are still in a list and in memory."""
        spans, self._page_candidates, self._page_candidates_size = self._page_candidates, [], 0
        return [span for span in spans if span.span_list is not None and span.in_memory]

    def set_sampling(self, interval: int) -> None:
        """Monitor one of so many messages from now on; 0: none. Figures of a queue that stays monitored go on."""
        if not interval or self.monitor is None:
            self.monitor = QueueMonitor(interval) if interval else None
        else:
            self.monitor.interval = interval
            self.monitor.next_sample = self.counters.delivered + interval

    def count_put(self, span: Span) -> None:
        self.counters.put += span.rows
        monitor = self.monitor
        if monitor is not None:
            now = span.since = monitor.last_put = self.context.monotonic_us
            if now >= monitor.next_update_us:
                monitor.update(self.counters, now)

    def count_delivered(self, consumer: QueueConsumer, span: Span) -> int:
        """The consumer holds these messages, which are in no list. Returns the first delivery id."""
        first, rows = consumer.next_delivery, span.rows
        consumer.next_delivery = first + rows
        consumer.unacknowledged.append((first, span))
        counters = self.counters
        counters.delivered += rows
        monitor = self.monitor
        if monitor is not None:
            now = monitor.last_get = self.context.monotonic_us
            # A message that came before monitoring was switched on has no time.
            if counters.delivered >= monitor.next_sample and span.since:
                monitor.next_sample = counters.delivered + monitor.interval
                monitor.times.append(now - span.since if now > span.since else 0)
            if now >= monitor.next_update_us:
                monitor.update(counters, now)
        return first

    def put_delivered(self, consumer: QueueConsumer, payload: Payload, origin: str) -> Span:
        """`reserve`, `put` and `count_delivered` of a single non-persistent message in one call."""
        number, first, context, policy = self.next_id, consumer.next_delivery, self.context, self.policy
        self.next_id, consumer.next_delivery = number + 1, first + 1
        span = Span(payload, number, False, None, 0, origin)
        memory = span.memory
        self.messages += 1
        self.size += span.size
        self.in_memory += memory
        context.memory += memory
        if self.size >= policy.queue_limit or 0 < policy.message_limit <= self.messages:
            self.full = True
        consumer.unacknowledged.append((first, span))
        counters, monitor = self.counters, self.monitor
        counters.put += 1
        if monitor is not None:
            now = span.since = monitor.last_put = monitor.last_get = context.monotonic_us
            if now >= monitor.next_update_us:
                monitor.update(counters, now)
        counters.delivered += 1
        if monitor is not None and counters.delivered >= monitor.next_sample:
            monitor.next_sample = counters.delivered + monitor.interval
            monitor.times.append(0)
        return span
