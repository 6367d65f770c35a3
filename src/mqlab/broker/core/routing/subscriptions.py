"""Opening the subscription of a consumer: its own, shared, durable, or both."""

from collections.abc import Callable, Mapping
from typing import NamedTuple

from mqlab.broker.core.errors import CommandError
from mqlab.broker.core.model.destination_names import QUEUE, check_name, parse
from mqlab.broker.core.model.queue import Queue
from mqlab.broker.core.model.sessions import CoreSession
from mqlab.broker.core.model.subscription import Subscription, Terms
from mqlab.broker.core.routing.topics import Routing

# Creates the queue of a subscription with this name.
NewQueue = Callable[[str, Subscription], Queue]
# Deletes the queue of a subscription that has no consumer.
DeleteQueue = Callable[[Queue], None]


class ConsumerOptions(NamedTuple):
    """The options with which a client opens a consumer."""

    selector: str = ""
    # The name of a durable subscription, or of one that several consumers share.
    durable: str = ""
    shared: str = ""
    no_local: bool = False
    browse: bool = False
    exclusive: bool = False


def check_options(name: str, options: ConsumerOptions) -> None:
    """Raises CommandError for options that exclude each other."""
    kind, _ = parse(name, patterns=True)
    if kind == QUEUE and (options.durable or options.shared or options.no_local):
        raise CommandError("durable, shared and no_local are for subscriptions to topics")
    if kind != QUEUE and (options.browse or options.exclusive):
        raise CommandError("browse and exclusive are for queues")
    for subscription in (options.durable, options.shared):
        if subscription:
            check_name(subscription, "the name of a subscription")
    if options.durable and options.shared and options.durable != options.shared:
        raise CommandError("a shared durable subscription has one name: give durable and shared the same")


def subscribe(
    routing: Routing, session: CoreSession, topic: str, options: ConsumerOptions, new_queue: NewQueue,
    delete_queue: DeleteQueue,
) -> Queue:  # fmt: skip
    """The queue of the subscription, which is created unless it exists."""
    terms = terms_of(session, topic, options)
    if options.durable:
        return _durable(routing, session, options.durable, terms, new_queue, delete_queue)
    owner = session.owner
    if options.shared:
        name = full_name(session.client, options.shared, session.user)
        queue = routing.shared.get(name)
        if queue is None:
            queue = routing.shared[name] = new_queue(name, Subscription(terms, durable=False, owner=owner))
            routing.add(queue)
        elif queue.subscription is None or queue.subscription.terms != terms:
            raise CommandError(f"the shared subscription {name!r} is used with another topic or selector")
        return queue
    queue = new_queue(topic, Subscription(terms, durable=False, owner=owner))
    routing.add(queue)
    return queue


def terms_of(session: CoreSession, topic: str, options: ConsumerOptions) -> Terms:
    client, user = (session.client, session.user) if options.durable else ("", "")
    return Terms(topic, options.selector, options.no_local, bool(options.shared), client, user)


def full_name(client: str, name: str, user: str = "") -> str:
    """The name of a subscription in administration: NAME, CLIENT/NAME or USER/CLIENT/NAME.

    A subscription belongs to a user (of a broker that has users) and a client id (if the client has one). A slash or a
    percent sign in a part is escaped, so two owners never have the same full name.
    """
    parts = (user, client, name) if user else (client, name) if client else (name,)
    return "/".join(part.replace("%", "%25").replace("/", "%2F") for part in parts)


def stored_name(name: str, options: Mapping[str, object]) -> str:
    """The full name of a subscription in the journal; old journals have it without escapes."""
    if "user" in options:
        return name
    client = str(options.get("client", ""))
    return full_name(client, name.removeprefix(f"{client}/") if client else name)


def unused(routing: Routing, name: str) -> Queue:
    """A durable subscription without consumers. Raises CommandError."""
    queue = routing.durable.get(name)
    if queue is None:
        raise CommandError(f"there is no durable subscription {name!r}")
    if queue.consumers:
        raise CommandError(f"the durable subscription {name!r} is in use")
    return queue


def _durable(
    routing: Routing, session: CoreSession, short: str, terms: Terms, new_queue: NewQueue, delete_queue: DeleteQueue
) -> Queue:
    """A subscription with other terms replaces one of the same name without consumers, as Jakarta Messaging says."""
    name = full_name(session.client, short, session.user)
    queue = routing.durable.get(name)
    if queue is not None:
        assert queue.subscription is not None
        former = queue.subscription.terms
        if former.shared != terms.shared:
            raise CommandError(f"the durable subscription {name!r} is {'' if former.shared else 'not '}a shared one")
        if queue.consumers and (former != terms or not terms.shared):
            raise CommandError(f"the durable subscription {name!r} is in use")
        if former == terms:
            queue.subscription.owner = session.owner
            return queue
    # The record that declares the new one replaces the former one in the journal: a crash leaves one of them.
    made = routing.durable[name] = new_queue(name, Subscription(terms, durable=True, owner=session.owner))
    if queue is not None:
        delete_queue(queue)
    routing.add(made)
    return made
