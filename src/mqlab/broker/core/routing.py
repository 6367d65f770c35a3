"""Topics and subscriptions: who gets what is published."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

from mqlab.broker.core.links import Producer, Session
from mqlab.broker.core.queue import Queue
from mqlab.broker.core.selectors import Selector, compile_selector
from mqlab.broker.patterns import is_pattern, matches


class Topic:
    """Every subscription gets every message that is sent while it exists."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.subscriptions: list[Queue] = []
        self.producers: set[Producer] = set()

    @property
    def full_name(self) -> str:
        return f"topic:{self.name}"

    @property
    def full(self) -> bool:
        """The slowest subscription decides: the others wait for it, since nothing may be dropped."""
        return any(queue.full for queue in self.subscriptions)


class Terms(NamedTuple):
    """What a subscription is of: names of the topic (or a pattern of them), a selector, and whose sends it leaves out.

    `client` is the name of the client whose own messages a durable subscription leaves out.
    """

    topic: str
    selector: str = ""
    no_local: bool = False
    shared: bool = False
    client: str = ""


@dataclass(eq=False, slots=True)
class Subscription:
    terms: Terms
    durable: bool
    # The connection it belongs to, of one that is not durable: with `no_local`, its sends are left out.
    owner: object | None = None
    topics: list[Topic] = field(default_factory=list)
    selector: Selector | None = None

    def __post_init__(self) -> None:
        if self.terms.selector:
            self.selector = compile_selector(self.terms.selector)

    @property
    def wildcard(self) -> bool:
        return is_pattern(self.terms.topic)

    def wants(self, sender: Session) -> bool:
        if not self.terms.no_local:
            return True
        own_client = bool(self.terms.client) and sender.client == self.terms.client
        return sender.owner is not self.owner and not own_client


class Routing:
    """All topics and all subscriptions, and which belong together."""

    def __init__(self) -> None:
        self.topics: dict[str, Topic] = {}
        self.subscriptions: list[Queue] = []
        # Those that can be found again by a name: durable ones, and shared ones while somebody uses them.
        self.durable: dict[str, Queue] = {}
        self.shared: dict[str, Queue] = {}

    def topic(self, name: str) -> Topic:
        topic = self.topics.get(name)
        if topic is None:
            topic = self.topics[name] = Topic(name)
            for queue in self.subscriptions:
                self._join(queue, topic)
        return topic

    def named(self, name: str) -> Queue | None:
        """A durable or shared subscription."""
        return self.durable.get(name) or self.shared.get(name)

    def add(self, queue: Queue) -> None:
        subscription = queue.subscription
        assert subscription is not None
        self.subscriptions.append(queue)
        if not subscription.wildcard:
            self.topic(subscription.terms.topic)
        joined = {*subscription.topics}
        for topic in self.topics.values():
            if topic not in joined:
                self._join(queue, topic)

    def remove(self, queue: Queue) -> Iterable[Topic]:
        """Returns the topics it was subscribed to."""
        assert queue.subscription is not None
        self.subscriptions.remove(queue)
        for known in (self.durable, self.shared):
            if known.get(queue.name) is queue:
                del known[queue.name]
        topics, queue.subscription.topics = queue.subscription.topics, []
        for topic in topics:
            topic.subscriptions.remove(queue)
        return topics

    def _join(self, queue: Queue, topic: Topic) -> None:
        assert queue.subscription is not None
        if matches(queue.subscription.terms.topic, topic.name):
            topic.subscriptions.append(queue)
            queue.subscription.topics.append(topic)
