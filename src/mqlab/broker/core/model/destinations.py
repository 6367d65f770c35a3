"""All destinations of a broker: made when first named, found again after a restart, deleted."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from mqlab.broker import limits
from mqlab.broker.core.accounts import Accounts
from mqlab.broker.core.context import CoreContext
from mqlab.broker.core.dispatch.selection import check_selectors
from mqlab.broker.core.durability.pending_records import PendingRecords
from mqlab.broker.core.durability.records import Declare, Forget, Remember
from mqlab.broker.core.errors import RefusedError
from mqlab.broker.core.model.destination_names import QUEUE, TEMPORARY, TOPIC, parse
from mqlab.broker.core.model.messages import Span
from mqlab.broker.core.model.queue import Queue
from mqlab.broker.core.model.sessions import Session
from mqlab.broker.core.routing.duplicates import Sent, Window, ids_of, rows_of
from mqlab.broker.core.routing.placement import restored
from mqlab.broker.core.routing.remote_queues import TRANSMISSION, Remotes, first_id, of_channels
from mqlab.broker.core.routing.subscriptions import ConsumerOptions, full_name, stored_name, terms_of
from mqlab.broker.core.routing.topics import Routing, Subscription, Terms, Topic
from mqlab.broker.core.selectors import Selector
from mqlab.broker.settings import Settings
from mqlab.wire.native.bodies import Payload, select_rows


class DestinationRegistry:
    def __init__(self, settings: Settings, context: CoreContext, records: PendingRecords) -> None:
        self._settings = settings
        self._context = context
        self._records = records
        self.accounts = Accounts(settings, context)
        self.queues: dict[str, Queue] = {}
        self.routing = Routing()
        self.remotes = Remotes(settings)
        # Queues and durable subscriptions by the number under which the journal knows them.
        self.numbered: dict[int, Queue] = {}
        self.last_number = 0
        self._windows: dict[str, Window] = {}
        # Transmission queues that were deleted, and the ids behind their last ones.
        self._used: dict[str, int] = {}

    @property
    def has_store(self) -> bool:
        """Whether there is a disk to keep anything."""
        return self._settings.data is not None

    def name_of(self, number: int) -> str:
        return self.numbered[number].full_name if number in self.numbered else ""

    def all_queues(self) -> Iterator[Queue]:
        yield from self.queues.values()
        yield from self.routing.subscriptions

    def destination(self, name: str) -> tuple[Queue | Topic, str]:
        """Made if there is none of that name. For a queue of another broker: where its messages wait, and its name."""
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
        """The queue on which messages for another broker wait."""
        short = TRANSMISSION + broker
        if broker not in self.remotes.reached and short not in self.queues:
            raise RefusedError(f"there is no channel to a broker {broker!r}")
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
        # Queues of another broker are that one's to make.
        return bool(broker) or queue in self.queues

    def queue(self, short: str, *, internal: bool = False) -> Queue:
        """Made if there is none of that name. Raises RefusedError for one of another broker.

        `internal`: the broker needs it itself, so it is made however many there are.
        """
        return self._queue(self.remotes.here(short), internal=internal)

    def _queue(self, short: str, *, internal: bool = False) -> Queue:
        queue = self.queues.get(short)
        if queue is None:
            if short.startswith(TEMPORARY):
                raise RefusedError(f"queue:{short}: this temporary queue is gone")
            if not internal:
                self._check_room()
            queue = self.queues[short] = self._new(short, None, stored=self.has_store)
        return queue

    def queue_for(self, session: Session, short: str, selector: Selector | None) -> Queue:
        """For a consumer of the session. Raises RefusedError."""
        queue = self.queue(short)
        if queue.owner is not None and queue.owner is not session.owner:
            raise RefusedError(f"queue:{short} is another connection's temporary queue")
        if selector is not None:
            check_selectors(selector, (consumer.selector for consumer in queue.consumers))
        return queue

    def temporary_queue(self, owner: object) -> Queue:
        """A queue that goes with its connection. Others can send to it if they learn its name, which none can guess.

        Raises RefusedError if there are too many of them.
        """
        account = self.accounts.of(owner)
        account.check_temporaries()
        self._check_room()
        name = TEMPORARY + self._context.new_token()
        queue = self.queues[name] = self._new(name, None, stored=False)
        queue.owner = owner
        account.add_temporary(queue)
        return queue

    def _check_room(self) -> None:
        """Raises RefusedError if there are too many destinations to make another."""
        routing = self.routing
        if len(self.queues) + len(routing.topics) + len(routing.subscriptions) >= limits.DESTINATIONS:
            raise RefusedError(f"the broker has at most {limits.DESTINATIONS} queues, topics and subscriptions")

    def new_subscription(self, name: str, subscription: Subscription) -> Queue:
        """Raises RefusedError if there are too many."""
        self._check_room()
        self.routing.check_room(subscription)
        return self._new(name, subscription, stored=subscription.durable and self.has_store)

    def claim_subscription(self, session: Session, topic: str, options: ConsumerOptions) -> None:
        """Give a durable subscription without an owner to the user who subscribes to it again, on the same terms."""
        unowned, terms = full_name(session.client, options.durable), terms_of(session, topic, options)
        name, queue = full_name(session.client, options.durable, session.user), self.routing.durable.get(unowned)
        if queue is None or name in self.routing.durable:
            return
        assert queue.subscription is not None
        if queue.subscription.terms == terms._replace(user=""):
            del self.routing.durable[unowned]
            queue.name, queue.subscription.terms = name, terms
            self.routing.durable[name] = queue
            if queue.stored:
                self._records.append(_declared(queue), None)

    def leads_back(self, queue: Queue) -> bool:
        """Whether its dead letters, those of the queue they go to, and so on, come to this queue again."""
        seen: set[str] = set()
        to = queue.policy.dead_letters
        while to != queue.full_name and to not in seen:
            seen.add(to)
            to = self._settings.policy_of(to).dead_letters
        return to == queue.full_name

    def close(self, queue: Queue) -> Iterable[Queue | Topic]:
        """It has no consumer; what is on it is nobody's. Returns whose producers it kept waiting."""
        queue.closed = True
        feeding = [*queue.feeding]
        if queue.subscription is None:
            self.queues.pop(queue.name, None)
            if queue.owner is not None:
                self.accounts.drop_temporary(queue)
            self._windows.pop(queue.full_name, None)
            if queue.name.startswith(TRANSMISSION):
                self._used[queue.name] = queue.next_id
        else:
            for topic in self.routing.remove(queue):
                self.drop_if_unused(topic)
        if queue.stored:
            self.numbered.pop(queue.number, None)
            self._records.append(Forget(queue.number), None)
        return feeding

    def drop_if_unused(self, destination: Queue | Topic) -> None:
        """One less uses it. Topics are not declared, so those that nobody uses must not stay for ever."""
        if isinstance(destination, Topic) and self.routing.drop_unused(destination):
            window = self._windows.get(destination.full_name)
            # What went to nobody cannot come to anybody twice.
            if window is not None and not destination.subscriptions and not window.lasting:
                del self._windows[destination.full_name]

    def without_duplicates(self, destination: str, payload: Payload, *, persistent: bool) -> Payload | None:
        """What of it was not sent there before; None: nothing."""
        ids = ids_of(payload)
        if ids is None:
            return payload
        flags = self._window(destination).fresh(ids, persistent=persistent)
        if all(flags):
            return payload
        return select_rows(payload, rows_of(flags)) if any(flags) else None

    def remember_ids(self, sent: Sent, *, lasting: bool) -> None:
        """They were sent there; `lasting`: the next file of the journal must say so."""
        if self._is_gone(sent.destination):
            return
        window = self._window(sent.destination)
        window.fresh(sent.ids, persistent=lasting)
        window.mark(sent.ids, lasting=lasting)

    def forget_ids(self, sent: Sent) -> None:
        """They were not sent after all."""
        if sent.destination in self._windows:
            self._windows[sent.destination].forget(sent.ids)

    # The journal

    def declarations(self) -> list[Declare]:
        """What a new journal file must say before anything else."""
        return [_declared(queue) for queue in self.numbered.values()]

    def remembered_ids(self) -> list[Remember]:
        found = [Remember(name, window.lasting) for name, window in self._windows.items()]
        return [one for one in found if one.ids]

    def restore_queue(
        self, name: str, number: int, next_id: int, spans: Iterable[Span], options: dict[str, Any]
    ) -> None:
        """At start: a queue as the journal left it. Its messages may have been delivered before."""
        subscription = Subscription(Terms(**options), durable=True) if options else None
        if subscription is not None:
            name = stored_name(name, options)
        queue = Queue(number, name, self._policy(name, subscription), self._context, stored=True)
        queue.next_id, queue.subscription = first_id(name, self._context.now_ms, next_id), subscription
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
        self._windows[destination] = Window(self._settings.policy_of(destination).duplicate_window, ids)

    def _new(self, name: str, subscription: Subscription | None, *, stored: bool) -> Queue:
        self.last_number += 1
        queue = Queue(self.last_number, name, self._policy(name, subscription), self._context, stored=stored)
        queue.next_id, queue.subscription = first_id(name, self._context.now_ms, self._used.get(name, 1)), subscription
        if stored:
            self.numbered[queue.number] = queue
            self._records.append(_declared(queue), None)
        return queue

    def _policy(self, name: str, subscription: Subscription | None) -> Any:
        if subscription is None:
            return of_channels(name, self._settings.policy_of(f"{QUEUE}:{name}"))
        return self._settings.policy_of(f"{TOPIC}:{subscription.terms.topic}")

    def _is_gone(self, destination: str) -> bool:
        """A queue of this broker that was deleted."""
        kind, short = parse(destination)
        return kind == QUEUE and not self.remotes.resolve(short)[1] and short not in self.queues

    def _window(self, destination: str) -> Window:
        window = self._windows.get(destination)
        if window is None:
            window = self._windows[destination] = Window(self._settings.policy_of(destination).duplicate_window)
        return window


def _declared(queue: Queue) -> Declare:
    options = queue.subscription.terms._asdict() if queue.subscription is not None else {}
    return Declare(queue.number, queue.name, queue.next_id, options)
