"""Routing: which subscriptions get the messages of which topics."""

from collections.abc import Iterable

from mqlab.broker import limits
from mqlab.broker.core.errors import CommandError
from mqlab.broker.core.model.queue import Queue, Topic
from mqlab.broker.core.model.subscription import Subscription


class Routing:
    """All topics and the queues of all subscriptions."""

    def __init__(self) -> None:
        self.topics: dict[str, Topic] = {}
        self.subscriptions: list[Queue] = []
        # Subscriptions to a pattern of topic names.
        self.patterns: dict[Queue, None] = {}
        # By name: durable subscriptions, and shared ones that have a consumer.
        self.durable: dict[str, Queue] = {}
        self.shared: dict[str, Queue] = {}

    def topic(self, name: str) -> Topic:
        topic = self.topics.get(name)
        if topic is None:
            topic = self.topics[name] = Topic(name)
            # Only patterns: a subscription to the name would have created the topic.
            for queue in self.patterns:
                self._join(queue, topic)
        return topic

    def check_room(self, subscription: Subscription) -> None:
        """Raises CommandError if the topic of a new subscription has too many."""
        topic, most = self.topics.get(subscription.terms.topic), limits.SUBSCRIPTIONS_A_TOPIC
        beside = self.patterns if subscription.wildcard else () if topic is None else topic.subscriptions
        if subscription.weight + sum(queue.subscription.weight for queue in beside if queue.subscription) > most:
            raise CommandError(f"at most {most} subscriptions to one topic, and as many with a wildcard")

    def named(self, name: str) -> Queue | None:
        """A durable or shared subscription."""
        return self.durable.get(name) or self.shared.get(name)

    def add(self, queue: Queue) -> None:
        subscription = queue.subscription
        assert subscription is not None
        self.subscriptions.append(queue)
        if not subscription.wildcard:
            self._join(queue, self.topic(subscription.terms.topic))
            return
        self.patterns[queue] = None
        for topic in self.topics.values():
            self._join(queue, topic)

    def subscribed(self, topic: Topic) -> list[Queue]:
        """The subscriptions that get its messages, also if the topic was dropped while a transaction was open."""
        known = self.topics.get(topic.name)
        if known is not None:
            return known.subscriptions
        return [queue for queue in self.subscriptions if queue.subscription and queue.subscription.is_of(topic.name)]

    def drop_unused(self, topic: Topic) -> bool:
        """Drop a topic without producers and without a subscription to its name; the next use creates it again."""
        named = (queue.subscription for queue in topic.subscriptions)
        if topic.producers or any(subscription and not subscription.wildcard for subscription in named):
            return False
        topic.drop()
        self.topics.pop(topic.name, None)
        return True

    def remove(self, queue: Queue) -> Iterable[Topic]:
        """Returns the topics it was subscribed to."""
        assert queue.subscription is not None
        self.subscriptions.remove(queue)
        self.patterns.pop(queue, None)
        for known in (self.durable, self.shared):
            if known.get(queue.name) is queue:
                del known[queue.name]
        topics = [*queue.topics.values()]
        for topic in topics:
            topic.remove(queue)
        return topics

    def _join(self, queue: Queue, topic: Topic) -> None:
        assert queue.subscription is not None
        if queue.subscription.is_of(topic.name):
            topic.add(queue)
