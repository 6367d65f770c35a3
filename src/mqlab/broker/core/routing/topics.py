"""Topics and subscriptions: who gets what is published."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from mqlab.broker import limits
from mqlab.broker.core.dispatch.selection import weight_of
from mqlab.broker.core.errors import RefusedError
from mqlab.broker.core.model.queue import Queue
from mqlab.broker.core.model.sessions import Producer, Session
from mqlab.broker.core.selectors import Selector, compile_selector
from mqlab.broker.patterns import is_pattern, matches


class Topic:
    """Every subscription gets every message that is sent while it exists."""

    # Unlike a queue it cannot be deleted.
    closed: Final = False

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

    `client` and `user` own a durable subscription, whose own messages it leaves out; "": none. `user` is "" without
    users, and in a journal from before the broker had any.
    """

    topic: str
    selector: str = ""
    no_local: bool = False
    shared: bool = False
    client: str = ""
    user: str = ""


@dataclass(eq=False, slots=True)
class Subscription:
    terms: Terms
    durable: bool
    # The connection it belongs to, of one that is not durable: with `no_local`, its sends are left out.
    owner: object | None = None
    # By name.
    topics: dict[str, Topic] = field(default_factory=dict)
    selector: Selector | None = None

    def __post_init__(self) -> None:
        if self.terms.selector:
            self.selector = compile_selector(self.terms.selector)

    @property
    def weight(self) -> int:
        """Of so many subscriptions without a selector."""
        return 1 if self.selector is None else limits.SELECTOR_WEIGHT * weight_of(self.selector)

    @property
    def wildcard(self) -> bool:
        return is_pattern(self.terms.topic)

    def is_of(self, name: str) -> bool:
        return matches(self.terms.topic, name)

    def wants(self, sender: Session) -> bool:
        if not self.terms.no_local:
            return True
        owner = self.terms.client, self.terms.user
        own_client = bool(self.terms.client) and (sender.client, sender.user) == owner
        return sender.owner is not self.owner and not own_client


class Routing:
    """All topics and all subscriptions, and which belong together."""

    def __init__(self) -> None:
        self.topics: dict[str, Topic] = {}
        self.subscriptions: list[Queue] = []
        # Those of them that are of more than one topic.
        self.patterns: dict[Queue, None] = {}
        # Those that can be found again by a name: durable ones, and shared ones while somebody uses them.
        self.durable: dict[str, Queue] = {}
        self.shared: dict[str, Queue] = {}

    def topic(self, name: str) -> Topic:
        topic = self.topics.get(name)
        if topic is None:
            topic = self.topics[name] = Topic(name)
            # A topic that somebody has subscribed to by its name is there already.
            for queue in self.patterns:
                self._join(queue, topic)
        return topic

    def check_room(self, subscription: Subscription) -> None:
        """Raises RefusedError if the topics of a new subscription have too many."""
        topic, most = self.topics.get(subscription.terms.topic), limits.SUBSCRIPTIONS_A_TOPIC
        beside = self.patterns if subscription.wildcard else () if topic is None else topic.subscriptions
        if subscription.weight + sum(one.subscription.weight for one in beside if one.subscription) > most:
            raise RefusedError(f"a topic has at most {most} subscriptions, and there are as many patterns of topics")

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
        """Who gets what is sent there; also to one that was dropped since, as by a transaction that ends late."""
        known = self.topics.get(topic.name)
        if known is not None:
            return known.subscriptions
        return [one for one in self.subscriptions if one.subscription and one.subscription.is_of(topic.name)]

    def drop_unused(self, topic: Topic) -> bool:
        """Without a producer, and nobody who named it: it would be made again. Whether that is so."""
        if topic.producers or any(one.subscription and not one.subscription.wildcard for one in topic.subscriptions):
            return False
        for queue in topic.subscriptions:
            assert queue.subscription is not None
            del queue.subscription.topics[topic.name]
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
        topics, queue.subscription.topics = [*queue.subscription.topics.values()], {}
        for topic in topics:
            topic.subscriptions.remove(queue)
        return topics

    def _join(self, queue: Queue, topic: Topic) -> None:
        assert queue.subscription is not None
        if queue.subscription.is_of(topic.name):
            topic.subscriptions.append(queue)
            queue.subscription.topics[topic.name] = topic
