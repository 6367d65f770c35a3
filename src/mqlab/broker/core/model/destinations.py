"""The registry of a broker's destinations: created when first named, restored after a restart, deleted."""

from collections.abc import Iterable, Iterator

from mqlab.broker import limits
from mqlab.broker.core.accounts import Accounts
from mqlab.broker.core.context import CoreContext
from mqlab.broker.core.dispatch.selection import check_selectors
from mqlab.broker.core.durability.pending_records import PendingRecords
from mqlab.broker.core.durability.records import Declare, Forget, Remember
from mqlab.broker.core.errors import CommandError
from mqlab.broker.core.model.destination_names import QUEUE, TEMPORARY, TOPIC, parse
from mqlab.broker.core.model.messages import Span
from mqlab.broker.core.model.queue import Queue, Topic
from mqlab.broker.core.model.sessions import CoreSession
from mqlab.broker.core.model.subscription import Subscription, Terms
from mqlab.broker.core.routing.duplicates import DuplicateWindow, SentIds, ids_of, rows_of
from mqlab.broker.core.routing.placement import restored
from mqlab.broker.core.routing.remote_queues import TRANSMISSION, RemoteQueues, channel_policy, first_id
from mqlab.broker.core.routing.subscriptions import ConsumerOptions, full_name, stored_name, terms_of
from mqlab.broker.core.routing.topics import Routing
from mqlab.broker.core.selectors import Selector
from mqlab.broker.policy import Policy
from mqlab.broker.settings import Settings
from mqlab.json_values import JsonObject
from mqlab.wire.native.bodies import Payload, select_rows


class DestinationRegistry:
    def __init__(self, settings: Settings, context: CoreContext, records: PendingRecords) -> None:
        self._settings = settings
        self._context = context
        self._records = records
        self.accounts = Accounts(settings, context)
        self.queues: dict[str, Queue] = {}
        self.routing = Routing()
        self.remotes = RemoteQueues(settings)
        # Stored queues, by their number in the journal.
        self.numbered: dict[int, Queue] = {}
        self.last_number = 0
        self._windows: dict[str, DuplicateWindow] = {}
        # The next ids of deleted transmission queues.
        self._next_ids: dict[str, int] = {}

    @property
    def has_store(self) -> bool:
        """Whether the broker has a data folder."""
        return self._settings.data is not None

    def name_of(self, number: int) -> str:
        return self.numbered[number].full_name if number in self.numbered else ""

    def all_queues(self) -> Iterator[Queue]:
        yield from self.queues.values()
        yield from self.routing.subscriptions

    def destination(self, name: str) -> tuple[Queue | Topic, str]:
        """Create or find it. For another broker's queue: the transmission queue, and the name of the other queue."""
        kind, short = parse(name)
        if kind != QUEUE:
            if short not in self.routing.topics:
                self._check_room()
            return self.routing.topic(short), ""
        queue, broker = self.remotes.resolve(short)
        if not broker:
            return self._queue(queue), ""
        return self.transmission_queue(broker), f"{QUEUE}:{queue}@{broker}"

    def transmission_queue(self, broker: str) -> Queue:
        """Create or find the transmission queue for a broker."""
        short = TRANSMISSION + broker
        if broker not in self.remotes.reached and short not in self.queues:
            raise CommandError(f"there is no channel to a broker {broker!r}")
        return self._queue(short)

    def find(self, name: str) -> Queue | None:
        """A queue by its name, or a subscription as `subscription:NAME`."""
        kind, _, short = name.partition(":")
        if kind == QUEUE:
            queue, broker = (short, "") if short in self.queues else self.remotes.resolve(short)
            return None if broker else self.queues.get(queue)
        return self.routing.named(short) if kind == "subscription" else None

    def exists(self, name: str) -> bool:
        kind, short = parse(name, patterns=True)
        if kind != QUEUE:
            return short in self.routing.topics
        queue, broker = self.remotes.resolve(short)
        # Another broker creates its queues itself.
        return bool(broker) or queue in self.queues

    def queue(self, short: str, *, internal: bool = False) -> Queue:
        """Create or find a local queue. Raises CommandError for another broker's.

        `internal`: the broker itself needs the queue, so the limit does not apply.
        """
        return self._queue(self.remotes.local(short), internal=internal)

    def _queue(self, short: str, *, internal: bool = False) -> Queue:
        queue = self.queues.get(short)
        if queue is None:
            if short.startswith(TEMPORARY):
                raise CommandError(f"queue:{short}: this temporary queue is gone")
            if not internal:
                self._check_room()
            queue = self.queues[short] = self._new(short, None, stored=self.has_store)
        return queue

    def queue_for(self, session: CoreSession, short: str, selector: Selector | None) -> Queue:
        """Create or find the queue of a new consumer. Raises CommandError."""
        queue = self.queue(short)
        if queue.owner is not None and queue.owner is not session.owner:
            raise CommandError(f"queue:{short} is another connection's temporary queue")
        if selector is not None:
            check_selectors(selector, (consumer.selector for consumer in queue.consumers))
        return queue

    def temporary_queue(self, owner: object) -> Queue:
        """Create a queue that ends with its connection. Others can send to it if they learn its name.

        Raises CommandError if there are too many.
        """
        account = self.accounts.of(owner)
        account.check_temporaries()
        self._check_room()
        name = TEMPORARY + self._context.new_token()
        queue = self.queues[name] = self._new(name, None, stored=False, owner=owner)
        account.add_temporary(name)
        return queue

    def _check_room(self) -> None:
        """Raises CommandError if there are too many destinations to create another."""
        routing = self.routing
        if len(self.queues) + len(routing.topics) + len(routing.subscriptions) >= limits.DESTINATIONS:
            raise CommandError(f"the broker has at most {limits.DESTINATIONS} queues, topics and subscriptions")

    def new_subscription(self, name: str, subscription: Subscription) -> Queue:
        """Raises CommandError if there are too many."""
        self._check_room()
        self.routing.check_room(subscription)
        return self._new(name, subscription, stored=subscription.durable and self.has_store)

    def claim_subscription(self, session: CoreSession, topic: str, options: ConsumerOptions) -> None:
        """Give a durable subscription without an owner to the user who subscribes to it again on the same terms."""
        unowned, terms = full_name(session.client, options.durable), terms_of(session, topic, options)
        name, queue = full_name(session.client, options.durable, session.user), self.routing.durable.get(unowned)
        if queue is None or name in self.routing.durable:
            return
        assert queue.subscription is not None
        if queue.subscription.terms == terms._replace(user=""):
            del self.routing.durable[unowned]
            queue.subscription.terms = terms
            queue.rename(name)
            self.routing.durable[name] = queue
            if queue.stored:
                self._records.append(_declared(queue), None)

    def leads_back(self, queue: Queue) -> bool:
        """Whether its dead letter queue, the dead letter queue of that one, and so on, lead to this queue again."""
        seen: set[str] = set()
        to = queue.policy.dead_letters
        while to != queue.full_name and to not in seen:
            seen.add(to)
            to = self._settings.policy_of(to).dead_letters
        return to == queue.full_name

    def close(self, queue: Queue) -> Iterable[Queue | Topic]:
        """Unregister a queue without consumers. Returns the destinations whose producers it may hold."""
        queue.close()
        sources = [*queue.sources]
        if queue.subscription is None:
            self.queues.pop(queue.name, None)
            if queue.owner is not None:
                self.accounts.drop_temporary(queue.owner, queue.name)
            self._windows.pop(queue.full_name, None)
            if queue.name.startswith(TRANSMISSION):
                self._next_ids[queue.name] = queue.next_id
        else:
            for topic in self.routing.remove(queue):
                self.drop_if_unused(topic)
        if queue.stored:
            self.numbered.pop(queue.number, None)
            self._records.append(Forget(queue.number), None)
        return sources

    def drop_if_unused(self, destination: Queue | Topic) -> None:
        """A producer or subscription has left. Topics are not declared, so an unused one is dropped."""
        if isinstance(destination, Topic) and self.routing.drop_unused(destination):
            window = self._windows.get(destination.full_name)
            # Without subscriptions, no message of this window was delivered.
            if window is not None and not destination.subscriptions and not window.persistent_ids:
                del self._windows[destination.full_name]

    def without_duplicates(self, destination: str, payload: Payload, *, persistent: bool) -> Payload | None:
        """The payload without messages that were sent there before; None if all were."""
        ids = ids_of(payload)
        if ids is None:
            return payload
        flags = self._window(destination).add(ids, persistent=persistent)
        if all(flags):
            return payload
        return select_rows(payload, rows_of(flags)) if any(flags) else None

    def remember_ids(self, sent: SentIds, *, persistent: bool) -> None:
        """Messages with these ids were sent; `persistent`: the next journal file must have the ids."""
        if self._is_gone(sent.destination):
            return
        window = self._window(sent.destination)
        window.add(sent.ids, persistent=persistent)
        window.mark(sent.ids, persistent=persistent)

    def forget_ids(self, sent: SentIds) -> None:
        """Messages with these ids were not sent after all."""
        if sent.destination in self._windows:
            self._windows[sent.destination].forget(sent.ids)

    # The journal

    def declarations(self) -> list[Declare]:
        """The records with which a new journal file begins."""
        return [_declared(queue) for queue in self.numbered.values()]

    def remembered_ids(self) -> list[Remember]:
        """The duplicate ids that a new journal file must have."""
        records = [Remember(name, window.persistent_ids) for name, window in self._windows.items()]
        return [record for record in records if record.ids]

    def restore_queue(self, name: str, number: int, next_id: int, spans: Iterable[Span], options: JsonObject) -> None:
        """At start: restore a queue. Its messages may have been delivered before."""
        subscription = Subscription(Terms(**options), durable=True) if options else None
        if subscription is not None:
            name = stored_name(name, options)
        queue = Queue(
            number, name, self._policy(name, subscription), self._context, stored=True, subscription=subscription,
            next_id=first_id(name, self._context.now_ms, next_id),
        )  # fmt: skip
        self.numbered[number] = queue
        if subscription is None:
            self.queues[name] = queue
        else:
            self.routing.durable[name] = queue
            self.routing.add(queue)
        for span in spans:
            span.delivered = span.doubtful = 1
            for part in restored(span, queue):
                queue.restore(part)

    def restore_remembered(self, destination: str, ids: Iterable[str]) -> None:
        self._windows[destination] = DuplicateWindow(self._settings.policy_of(destination).duplicate_window, ids)

    def _new(self, name: str, subscription: Subscription | None, *, stored: bool, owner: object | None = None) -> Queue:
        self.last_number += 1
        queue = Queue(
            self.last_number, name, self._policy(name, subscription), self._context, stored=stored, owner=owner,
            subscription=subscription, next_id=first_id(name, self._context.now_ms, self._next_ids.get(name, 1)),
        )  # fmt: skip
        if stored:
            self.numbered[queue.number] = queue
            self._records.append(_declared(queue), None)
        return queue

    def _policy(self, name: str, subscription: Subscription | None) -> Policy:
        if subscription is None:
            return channel_policy(name, self._settings.policy_of(f"{QUEUE}:{name}"))
        return self._settings.policy_of(f"{TOPIC}:{subscription.terms.topic}")

    def _is_gone(self, destination: str) -> bool:
        """Whether it is a local queue that was deleted."""
        kind, short = parse(destination)
        return kind == QUEUE and not self.remotes.resolve(short)[1] and short not in self.queues

    def _window(self, destination: str) -> DuplicateWindow:
        window = self._windows.get(destination)
        if window is None:
            window = self._windows[destination] = DuplicateWindow(
                self._settings.policy_of(destination).duplicate_window
            )
        return window


def _declared(queue: Queue) -> Declare:
    options = queue.subscription.terms._asdict() if queue.subscription is not None else {}
    return Declare(queue.number, queue.name, queue.next_id, options)
