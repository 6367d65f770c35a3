"""All destinations of a broker: made when first named, found again after a restart, deleted."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from mqlab.broker.core.destinations import QUEUE, TEMPORARY, TOPIC, parse
from mqlab.broker.core.duplicates import Sent, Window, ids_of, rows_of
from mqlab.broker.core.errors import RefusedError
from mqlab.broker.core.ledger import Ledger
from mqlab.broker.core.messages import Span
from mqlab.broker.core.placing import restored
from mqlab.broker.core.queue import Desk, Queue
from mqlab.broker.core.records import Declare, Forget, Remember
from mqlab.broker.core.routing import Routing, Subscription, Terms, Topic
from mqlab.broker.settings import Settings
from mqlab.wire.bodies import Payload, cut


class House:
    def __init__(self, settings: Settings, desk: Desk, ledger: Ledger) -> None:
        self._settings = settings
        self._desk = desk
        self._ledger = ledger
        self.queues: dict[str, Queue] = {}
        self.routing = Routing()
        # Queues and durable subscriptions by the number under which the journal knows them.
        self.numbered: dict[int, Queue] = {}
        self.last_number = 0
        self._temporaries = 0
        self._windows: dict[str, Window] = {}

    @property
    def keeps(self) -> bool:
        """Whether there is a disk to keep anything."""
        return self._settings.data is not None

    def name_of(self, number: int) -> str:
        return self.numbered[number].full_name if number in self.numbered else ""

    def all(self) -> Iterator[Queue]:
        yield from self.queues.values()
        yield from self.routing.subscriptions

    def destination(self, name: str) -> Queue | Topic:
        """Made if there is none of that name."""
        kind, short = parse(name)
        return self.queue(short) if kind == QUEUE else self.routing.topic(short)

    def find(self, name: str) -> Queue | None:
        """A queue by its name, or a subscription as `subscription:NAME`."""
        kind, _, short = name.partition(":")
        if kind == QUEUE:
            return self.queues.get(short)
        return self.routing.named(short) if kind == "subscription" else None

    def exists(self, name: str) -> bool:
        kind, short = parse(name, patterns=True)
        return short in self.queues if kind == QUEUE else short in self.routing.topics

    def queue(self, short: str) -> Queue:
        queue = self.queues.get(short)
        if queue is None:
            if short.startswith(TEMPORARY):
                raise RefusedError(f"queue:{short}: this temporary queue is gone")
            queue = self.queues[short] = self._new(short, None, stored=self.keeps)
        return queue

    def temporary_queue(self, owner: object) -> Queue:
        """A queue that goes with its connection."""
        self._temporaries += 1
        name = f"{TEMPORARY}{self._desk.now}.{self._temporaries}"
        queue = self.queues[name] = self._new(name, None, stored=False)
        queue.owner = owner
        return queue

    def new_subscription(self, name: str, subscription: Subscription) -> Queue:
        return self._new(name, subscription, stored=subscription.durable and self.keeps)

    def close(self, queue: Queue) -> Iterable[Queue | Topic]:
        """It is empty and has no consumer. Returns whose producers it kept waiting."""
        queue.closed = True
        feeding = [*queue.feeding]
        if queue.subscription is None:
            self.queues.pop(queue.name, None)
        else:
            self.routing.remove(queue)
        if queue.stored:
            self.numbered.pop(queue.number, None)
            self._ledger.append(Forget(queue.number), None)
        return feeding

    def without_duplicates(self, destination: str, payload: Payload, *, persistent: bool) -> Payload | None:
        """What of it was not sent there before; None: nothing."""
        ids = ids_of(payload)
        if ids is None:
            return payload
        flags = self._window(destination).fresh(ids, persistent=persistent)
        if all(flags):
            return payload
        return cut(payload, rows_of(flags)) if any(flags) else None

    def know_ids(self, sent: Sent, *, lasting: bool) -> None:
        """They were sent there; `lasting`: the next file of the journal must say so."""
        window = self._window(sent.destination)
        window.fresh(sent.ids, persistent=lasting)
        window.mark(sent.ids, lasting=lasting)

    def forget_ids(self, sent: Sent) -> None:
        """They were not sent after all."""
        self._window(sent.destination).forget(sent.ids)

    # The journal

    def declarations(self) -> list[Declare]:
        """What a new journal file must say before anything else."""
        return [_declared(queue) for queue in self.numbered.values()]

    def remembered(self) -> list[Remember]:
        found = [Remember(name, window.lasting) for name, window in self._windows.items()]
        return [one for one in found if one.ids]

    def restore_queue(
        self, name: str, number: int, next_id: int, spans: Iterable[Span], options: dict[str, Any]
    ) -> None:
        """At start: a queue as the journal left it. Its messages may have been delivered before."""
        subscription = Subscription(Terms(**options), durable=True) if options else None
        queue = Queue(number, name, self._policy(name, subscription), self._desk, stored=True)
        queue.next_id, queue.subscription = next_id, subscription
        self.numbered[number] = queue
        if subscription is None:
            self.queues[name] = queue
        else:
            self.routing.durable[name] = queue
            self.routing.add(queue)
        for span in spans:
            span.delivered = 1
            for part in restored(span, queue):
                queue.restore(part)

    def restore_remembered(self, destination: str, ids: Iterable[str]) -> None:
        self._windows[destination] = Window(self._settings.policy_of(destination).duplicate_window, ids)

    def _new(self, name: str, subscription: Subscription | None, *, stored: bool) -> Queue:
        self.last_number += 1
        queue = Queue(self.last_number, name, self._policy(name, subscription), self._desk, stored=stored)
        queue.subscription = subscription
        if stored:
            self.numbered[queue.number] = queue
            self._ledger.append(_declared(queue), None)
        return queue

    def _policy(self, name: str, subscription: Subscription | None) -> Any:
        if subscription is None:
            return self._settings.policy_of(f"{QUEUE}:{name}")
        return self._settings.policy_of(f"{TOPIC}:{subscription.terms.topic}")

    def _window(self, destination: str) -> Window:
        window = self._windows.get(destination)
        if window is None:
            window = self._windows[destination] = Window(self._settings.policy_of(destination).duplicate_window)
        return window


def _declared(queue: Queue) -> Declare:
    options = queue.subscription.terms._asdict() if queue.subscription is not None else {}
    return Declare(queue.number, queue.name, queue.next_id, options)
