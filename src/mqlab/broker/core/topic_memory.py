"""The memory that the subscriptions of one topic may take: no more than is left for all others.

A message to a topic counts for each of its subscriptions. Some hundred that take nothing could fill the memory with a
few messages, and the producers of all destinations would wait. Instead those of the topic wait: one such topic takes
half of the memory limit, two take a third each, and so on, so there is always memory left for other destinations.
Subscriptions that drop their oldest messages do not count: their producers never wait for them.
"""

from collections.abc import Iterable
from typing import Final

from mqlab.broker import limits
from mqlab.broker.core.context import CoreContext
from mqlab.broker.core.model.messages import FOOTPRINT, Span
from mqlab.broker.core.model.queue import Queue, Topic
from mqlab.broker.core.model.queue_usage import RELEASE_SHARE
from mqlab.broker.core.model.sessions import CoreProducer

# Bytes released, of any destination, after which the crowded topics are looked at again: less than a topic must fall
# by, so that none waits for ever.
_LOOK_AFTER: Final = limits.TOPIC_LEAST // 8


class TopicMemory:
    """`beside`, here: bytes that the core does not count and that hold producers back."""

    def __init__(self, memory_limit: int, context: CoreContext) -> None:
        self._limit = memory_limit
        self._context = context
        # Topics whose producers wait because their subscriptions take too much.
        self.crowded: set[Topic] = set()
        self._released = 0

    def must_wait(self, topic: Topic, beside: int) -> bool:
        """Whether its producers must wait; then it is crowded until `relaxed` returns it."""
        memory = self._context.memory + beside
        if 2 * memory <= self._limit or _taken(topic) <= self._most(memory):
            return False
        self.crowded.add(topic)
        return True

    def is_look_due(self, released: int) -> bool:
        """So many more bytes were released."""
        self._released += released
        return self._released >= _LOOK_AFTER

    def relaxed(self, beside: int) -> list[Topic]:
        """The topics that are not crowded any more."""
        self._released = 0
        most = self._most(self._context.memory + beside) * RELEASE_SHARE
        topics = [topic for topic in self.crowded if _taken(topic) <= most]
        self.crowded.difference_update(topics)
        return topics

    def reason_full(self, topic: Topic, size: int, beside: int) -> str:
        """Why a topic cannot take messages of so many bytes, although its producer has credit, or ""."""
        growth = size * len(_holding(topic))
        memory = self._context.memory + beside + growth
        if 2 * memory <= self._limit:
            return ""
        taken = _taken(topic) + growth
        if taken <= max(limits.OVERDRAFT_LEAST, limits.TOPIC_OVERDRAFT * (self._limit - memory)):
            return ""
        subscriptions = len(topic.subscriptions)
        return f"{topic.full_name} is full: with this, its {subscriptions} subscriptions have {taken} bytes in memory"

    def reason_transaction_full(self, sends: Iterable[tuple[CoreProducer, Span]], beside: int) -> str:
        """Why a topic cannot take its messages of a transaction, or ""."""
        sizes: dict[Topic, int] = {}
        for producer, span in sends:
            topic = producer.destination
            if isinstance(topic, Topic):
                sizes[topic] = sizes.get(topic, 0) + span.size + FOOTPRINT
        reasons = (self.reason_full(topic, size, beside) for topic, size in sizes.items())
        return next((reason for reason in reasons if reason), "")

    def _most(self, memory: int) -> int:
        return max(limits.TOPIC_LEAST, self._limit - memory)


def _holding(topic: Topic) -> list[Queue]:
    return [queue for queue in topic.subscriptions if queue.policy.when_full != "drop-oldest"]


def _taken(topic: Topic) -> int:
    return sum(queue.in_memory for queue in _holding(topic))
