"""Flow control: producers send on credit, and a full destination, or a full broker, grants none. No message is dropped.

Two brokers may be full of messages for each other. If each held the other's channel, both would wait for ever. So a
full broker grants credit to the producers of channels as long as their queue has less than a window of bytes in
memory: each channel then moves on as its messages are consumed, whatever else fills the memory. Messages that came
through a channel are not sent on, so no longer circle of brokers can wait for itself either.
"""

from collections import deque
from collections.abc import Iterable
from typing import Final, NamedTuple

from mqlab.broker import limits
from mqlab.broker.core.context import CoreContext
from mqlab.broker.core.effects import Credit
from mqlab.broker.core.model.messages import FOOTPRINT, Span
from mqlab.broker.core.model.queue import Queue, Topic
from mqlab.broker.core.model.queue_usage import RELEASE_SHARE
from mqlab.broker.core.model.sessions import CoreProducer
from mqlab.broker.core.routing.remote_queues import TOKENS
from mqlab.broker.core.topic_memory import TopicMemory
from mqlab.broker.settings import Settings
from mqlab.errors import MqlabError

# The share of the memory limit that is one producer's window: messages that wait for the disk take more memory than
# is counted for them, small ones twice as much, and cannot be paged out.
_WINDOW_SHARE: Final = 8
# Episodes of held producers that the broker remembers for administrators.
_EPISODES: Final = 1000


class OverdrawnError(MqlabError):
    """A producer sends without credit."""


class Episode(NamedTuple):
    """A producer of a destination was held, from when to when (ms since 1970)."""

    destination: str
    began: int
    ended: int


class FlowControl:
    """Grants credit to producers, and holds those whose destination, or the broker, is full."""

    def __init__(self, settings: Settings, context: CoreContext) -> None:
        self._settings = settings
        self._context = context
        # Bytes of memory above which the broker refuses sends, whatever credit was granted: small messages need far
        # more memory than credit, and a message may be longer than its producer's credit.
        limit = settings.memory_limit
        self.most_memory = limit + max(limit // limits.OVERDRAFT_SHARE, limits.OVERDRAFT_LEAST)
        self.most_of_channels = self.most_memory + limits.CHANNEL_MEMORY * limit
        # The sum of all windows.
        self._granted = 0
        # The part of `uncounted` that holds producers back.
        self._held_back = 0
        # Held producers, and how many were held before each.
        self.held: dict[CoreProducer, int] = {}
        # A producer is held because the broker, not only its destination, is full.
        self.short = False
        # Held producers of channels.
        self._held_channels: set[CoreProducer] = set()
        # Queues that channels sent to while memory was full.
        self._fed_by_channels: set[Queue] = set()
        self._topics = TopicMemory(limit, context)
        # How often a producer was held, and for how long in all, since the start.
        self.holds = 0
        self.held_ms = 0
        self.episodes: deque[Episode] = deque(maxlen=_EPISODES)

    def window(self, destination: Queue | Topic) -> int:
        """The window of a new producer: the bytes that it may send before the broker grants more credit."""
        settings = self._settings
        memory = max(1, settings.memory_limit // _WINDOW_SHARE)
        left = max(limits.CREDIT_LEAST, (settings.memory_limit // limits.CREDIT_SHARE - self._granted) // 2)
        return min(settings.producer_window, settings.policy_of(destination.full_name).queue_limit, memory, left)

    def first_credit(self, producer: CoreProducer) -> None:
        """A full broker or destination grants none: clients that connect again and again would fill it without end."""
        self._granted += producer.window
        producer.spent = producer.window
        self.renew(producer)

    def reason_full(self, topic: Topic, size: int) -> str:
        """Why a topic cannot take a message or batch of this size, whatever credit was granted, or ""."""
        return self._topics.reason_full(topic, size + FOOTPRINT, self._held_back)

    def reason_transaction_full(self, sends: Iterable[tuple[CoreProducer, Span]]) -> str:
        """Why the messages of a transaction cannot go to their topics, or ""."""
        return self._topics.reason_transaction_full(sends, self._held_back)

    def close(self, producer: CoreProducer) -> None:
        self._granted -= producer.window
        self.end_hold(producer)

    def renew(self, producer: CoreProducer) -> None:
        """Renew a producer's credit, half a window at a time: a frame for each message would cost too much."""
        if self.short:
            self.check_memory()
        if producer.closed or producer.spent * 2 < producer.window:
            return
        if self._must_wait(producer):
            if producer not in self.held:
                self.held[producer] = self.holds
                if producer.of_channel:
                    self._held_channels.add(producer)
                self.holds += 1
                producer.held_since = self._context.monotonic_us
            return
        self._context.effects.append(Credit(producer, producer.spent))
        producer.spent = 0
        self.end_hold(producer)

    def end_hold(self, producer: CoreProducer) -> None:
        """The producer has credit again, or is closed."""
        if producer in self.held:
            del self.held[producer]
            self._held_channels.discard(producer)
            context = self._context
            held_ms = max(0, context.monotonic_us - producer.held_since) // 1000
            self.held_ms += held_ms
            self.episodes.append(Episode(producer.destination.full_name, context.now_ms - held_ms, context.now_ms))

    def release(self, queue: Queue, spans: Iterable[Span]) -> None:
        """Release messages that are gone; producers that waited for the space go on."""
        was_full, before = queue.full, self._context.memory
        for span in spans:
            queue.release(span)
        if not self.held:
            return
        if self._topics.crowded and self._topics.is_look_due(before - self._context.memory):
            self._relax_topics()
        if was_full and not queue.full:
            for destination in queue.sources:
                self.reconsider(destination.producers)
        if self.short:
            self.check_memory()
            self.reconsider_channels(self._held_channels)

    def reconsider_channels(self, producers: Iterable[object]) -> None:
        """Those of the producers that belong to channels may go on before the broker as a whole has memory again."""
        if self._held_channels:
            self.reconsider(self._held_channels.intersection(producers))

    def reconsider(self, producers: Iterable[object]) -> None:
        """Renew the credit of held producers, the longest held first."""
        for producer in sorted(self.held.keys() & producers, key=self.held.__getitem__):
            self.renew(producer)

    def record_growth(self, grown: int, queued: int) -> int:
        """The process has grown by so many bytes since its start; messages on queues take `queued` of them.

        Returns how many bytes beside what is counted are neither allowed nor hold producers back.
        """
        limit = self._settings.memory_limit
        allowed = max(limit // limits.UNCOUNTED_SHARE, limits.UNCOUNTED_LEAST)
        beside = grown - self._context.memory - allowed
        uncounted = self._context.uncounted = max(0, beside + self._granted)
        self._held_back = max(0, min(uncounted, queued - limit // limits.UNCOUNTED_BESIDE))
        self.check_memory()
        self._relax_topics()
        return max(0, beside - self._held_back)

    def check_memory(self) -> None:
        """Renew credit when memory is free again, also by paging or by closed links."""
        if self.short and self._context.memory + self._held_back <= self._settings.memory_limit * RELEASE_SHARE:
            self.short = False
            self.reconsider(self.held)

    def _must_wait(self, producer: CoreProducer) -> bool:
        destination = producer.destination
        if self._context.memory + self._held_back >= self._settings.memory_limit and not self._may_overdraw(producer):
            self.short = True
            return True
        if isinstance(destination, Queue):
            # A queue drops no message: with `drop-oldest` it holds its producers.
            return destination.full and destination.policy.when_full != "refuse"
        is_full = any(queue.full and queue.policy.when_full == "hold" for queue in destination.subscriptions)
        return is_full or self._topics.must_wait(destination, self._held_back)

    def _relax_topics(self) -> None:
        """Producers of topics that had taken too much memory go on when it is free again, also by paging."""
        for topic in self._topics.relaxed(self._held_back):
            self.reconsider(topic.producers)

    def _may_overdraw(self, producer: CoreProducer) -> bool:
        """Whether a full broker grants this producer credit: see above."""
        queue = producer.destination
        if not producer.of_channel or not isinstance(queue, Queue):
            return False
        fed = self._fed_by_channels = {other for other in self._fed_by_channels if other.in_memory} | {queue}
        if sum(fed_queue.in_memory for fed_queue in fed) >= limits.CHANNEL_MEMORY * self._settings.memory_limit:
            return False
        # A channel cannot move without its token, of which there is one.
        return queue.in_memory < producer.window or queue.name.startswith(TOKENS)
