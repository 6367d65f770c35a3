"""The core itself: every command of a session, and what follows from it."""

from collections import deque
from collections.abc import Callable, Iterable
from typing import Any

from mqlab.broker import limits
from mqlab.broker.core.destinations import QUEUE, parse
from mqlab.broker.core.effects import Append, Committed, Confirm, Effect, Finished, RolledBack
from mqlab.broker.core.flow import Flow
from mqlab.broker.core.links import Consumer, Producer, Session
from mqlab.broker.core.messages import Span
from mqlab.broker.core.queue import Queue, Topic
from mqlab.broker.core.records import Commit, Declare, Put, Record, Remove
from mqlab.broker.settings import Settings
from mqlab.wire.bodies import Payload

Placed = list[tuple[Queue, Span]]


class RefusedError(Exception):
    """The command cannot be done; the session goes on without it."""


class Core:
    """Commands change its state and leave effects in `effects`; the server takes them from there, in order."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.effects: list[Effect] = []
        self.queues: dict[str, Queue] = {}
        self.topics: dict[str, Topic] = {}
        self.flow = Flow(settings, self.effects)
        # Number of the last record given to the journal, and what is to be done once a record is durable: in order.
        self.lsn = 0
        self._pending: dict[int, list[tuple[Callable[..., None], tuple[Any, ...]]]] = {}

    # Links

    def open_producer(self, session: Session, link: int, name: str) -> Producer:
        destination = self._destination(name)
        producer = Producer(session, link, destination)
        session.producers.append(producer)
        destination.producers.add(producer)
        self.flow.first_credit(producer)
        return producer

    def finish_producer(self, producer: Producer) -> None:
        """Close it in good order: `Finished` follows when all its sends are where they belong."""
        self.close_producer(producer)
        self._after(producer.last_lsn, self._finished, producer)

    def close_producer(self, producer: Producer) -> None:
        producer.closed = True
        self.flow.held.discard(producer)
        producer.session.producers.remove(producer)
        producer.destination.producers.discard(producer)

    def open_consumer(
        self, session: Session, link: int, name: str, credit: int, *, paused: bool = False
    ) -> Consumer:
        destination = self._destination(name)
        if isinstance(destination, Topic):
            queue = Queue(0, destination.name, self.settings.queue_limit, stored=False)
            queue.topic = destination
            destination.subscriptions.append(queue)
        else:
            queue = destination
        consumer = Consumer(session, link, queue, credit, paused)
        session.consumers.append(consumer)
        queue.consumers.append(consumer)
        queue.dispatch(self.effects)
        return consumer

    def close_consumer(self, consumer: Consumer) -> None:
        """What it was given and did not acknowledge goes back; a subscription of its own ends with it."""
        self._put_back(self._detach(consumer))

    def close_session(self, session: Session) -> None:
        """Undo its transaction and let go of its links, in good order or because its connection is gone."""
        session.closed = True
        for producer in [*session.producers]:
            self.close_producer(producer)
        # All of it comes back at once: otherwise later messages could reach somebody before earlier ones.
        returned = self._drop_transaction(session)
        for consumer in [*session.consumers]:
            returned += self._detach(consumer)
        self._put_back(returned)

    def pause(self, consumer: Consumer) -> None:
        consumer.paused = True

    def resume(self, consumer: Consumer) -> None:
        consumer.paused = False
        consumer.queue.dispatch(self.effects)

    # Messages

    def send(self, producer: Producer, payload: Payload, seq: int, *, persistent: bool, confirm: bool) -> None:
        """`seq` is the producer's number of the last row."""
        self.flow.spend(producer, len(payload.data))
        if persistent and self.settings.data is None:
            why = "this broker keeps nothing on disk: it was started without a data folder"
            producer.session.doomed = why if producer.session.transacted else ""
            self.flow.renew(producer)
            raise RefusedError(why)
        if producer.session.transacted:
            self._send_in_transaction(producer.session, producer, payload, persistent)
            return
        placed = self._place(producer, payload, persistent)
        if persistent and (puts := _puts(placed)):
            producer.last_lsn = self._append(puts[0], producer)
        self._after(producer.last_lsn, self._sent, producer, placed, seq, confirm)

    def acknowledge(self, consumer: Consumer, up_to: int, credit: int) -> None:
        """Everything delivered up to this delivery id is done, and there is room for `credit` messages more."""
        if credit > limits.PREFETCH - consumer.credit:
            raise RefusedError(f"room for {consumer.credit + credit} messages; the limit is {limits.PREFETCH}")
        spans = _acknowledged(consumer.unacknowledged, up_to)
        session = consumer.session
        if session.transacted:
            session.acknowledged.extend((consumer, span) for span in spans)
        elif spans:
            if consumer.queue.stored and (removed := _removes([(consumer.queue, span) for span in spans])):
                self._append(removed[0], None)
            self.flow.released(consumer.queue, spans)
        consumer.credit += credit
        consumer.queue.dispatch(self.effects)

    def commit(self, session: Session) -> None:
        """All of it or, if anything in it was refused, nothing: then only a rollback is left."""
        if session.doomed:
            raise RefusedError(f"the transaction can only be rolled back: {session.doomed}")
        placed = [pair for producer, span in session.sends for pair in self._place_span(producer, span)]
        removed = [(consumer.queue, span) for consumer, span in session.acknowledged]
        session.sends, session.acknowledged, session.size = [], [], 0
        puts, removes = tuple(_puts(placed)), tuple(_removes(removed))
        if puts or removes:
            session.last_lsn = self._append(Commit(puts, removes), session)
        self._after(session.last_lsn, self._committed, session, placed, removed)

    def rollback(self, session: Session) -> None:
        """Sends are forgotten; all that was delivered comes again, so the client forgets what it has in hand."""
        self.effects.append(RolledBack(session))
        returned = self._drop_transaction(session)
        for consumer in session.consumers:
            consumer.credit = 0
            returned += [(consumer.queue, span) for _, span in consumer.unacknowledged]
            consumer.unacknowledged.clear()
        self._put_back(returned)

    # What the store tells

    def durable(self, lsn: int) -> None:
        """Every record up to this number is on disk."""
        pending = self._pending
        while pending and (first := next(iter(pending))) <= lsn:
            for action, arguments in pending.pop(first):
                action(*arguments)

    def restore_queue(self, name: str, number: int, next_id: int, spans: Iterable[Span]) -> None:
        """At start: a queue as the journal left it. Its messages may have been delivered before."""
        queue = self._new_queue(name, number)
        queue.next_id = next_id
        for span in spans:
            span.redelivered = True
            queue.reserve(span)
            self.flow.size += span.size
            queue.spans.append(span)

    def declarations(self) -> list[Declare]:
        """What a new journal file must say before anything else."""
        return [Declare(queue.number, queue.name, queue.next_id) for queue in self.queues.values()]

    # The parts of the commands

    def _destination(self, name: str) -> Queue | Topic:
        kind, short = parse(name)
        if kind == QUEUE:
            queue = self.queues.get(short)
            if queue is None:
                queue = self._new_queue(short, 1 + max((q.number for q in self.queues.values()), default=0))
                if self.settings.data is not None:
                    self._append(Declare(queue.number, queue.name, queue.next_id), None)
            return queue
        return self.topics.setdefault(short, Topic(short))

    def _new_queue(self, name: str, number: int) -> Queue:
        queue = Queue(number, name, self.settings.queue_limit, stored=self.settings.data is not None)
        self.queues[name] = queue
        return queue

    def _place(self, producer: Producer, payload: Payload, persistent: bool) -> Placed:
        """Ids and room on every queue the messages go to; they are not visible yet."""
        destination = producer.destination
        queues = [destination] if isinstance(destination, Queue) else destination.subscriptions
        placed = [(queue, Span(payload, queue.new_ids(payload.rows), persistent=persistent)) for queue in queues]
        for queue, span in placed:
            queue.reserve(span)
            self.flow.size += span.size
        return placed

    def _place_span(self, producer: Producer, span: Span) -> Placed:
        return self._place(producer, span.payload, span.persistent)

    def _send_in_transaction(self, session: Session, producer: Producer, payload: Payload, persistent: bool) -> None:
        session.size += len(payload.data)
        if session.size > limits.TRANSACTION:
            session.doomed = f"a transaction has at most {limits.TRANSACTION} bytes"
            session.sends = []
            self.flow.renew(producer)
            raise RefusedError(session.doomed)
        session.sends.append((producer, Span(payload, 0, persistent=persistent)))
        self.flow.renew(producer)

    def _sent(self, producer: Producer, placed: Placed, seq: int, confirm: bool) -> None:
        self._make_visible(placed)
        if confirm and not producer.session.closed:
            self.effects.append(Confirm(producer, seq))
        self.flow.renew(producer)

    def _committed(self, session: Session, placed: Placed, removed: Placed) -> None:
        self._make_visible(placed)
        for queue, span in removed:
            self.flow.released(queue, (span,))
        if not session.closed:
            self.effects.append(Committed(session))

    def _finished(self, producer: Producer) -> None:
        if not producer.session.closed:
            self.effects.append(Finished(producer))

    def _make_visible(self, placed: Placed) -> None:
        for queue, span in placed:
            if queue.closed:
                self.flow.released(queue, (span,))
            else:
                queue.put(span, self.effects)

    def _drop_transaction(self, session: Session) -> Placed:
        """Forget its sends; give back what it had acknowledged, marked as seen."""
        returned = [(consumer.queue, span) for consumer, span in session.acknowledged]
        for _, span in returned:
            span.redelivered = True
        session.sends, session.acknowledged, session.size, session.doomed = [], [], 0, ""
        return returned

    def _detach(self, consumer: Consumer) -> Placed:
        """Take a consumer from its queue; returns what it held, marked as seen. A topic's subscription is gone."""
        consumer.session.consumers.remove(consumer)
        queue = consumer.queue
        queue.consumers.remove(consumer)
        returned = [span for _, span in consumer.unacknowledged]
        consumer.unacknowledged.clear()
        topic = queue.topic
        if topic is None:
            for span in returned:
                span.redelivered = True
            return [(queue, span) for span in returned]
        topic.subscriptions.remove(queue)
        queue.topic, queue.closed = None, True
        self.flow.released(queue, [*returned, *queue.spans])
        queue.spans.clear()
        self.flow.reconsider(topic.producers)
        return []

    def _put_back(self, returned: Placed) -> None:
        by_queue: dict[Queue, list[Span]] = {}
        for queue, span in returned:
            by_queue.setdefault(queue, []).append(span)
        for queue, spans in by_queue.items():
            if queue.closed:
                self.flow.released(queue, spans)
            else:
                queue.put_back(spans, self.effects)

    def _append(self, record: Record, waiter: object | None) -> int:
        self.lsn += 1
        self.effects.append(Append(record, self.lsn, waiter))
        if waiter is not None:
            self._pending[self.lsn] = []
        return self.lsn

    def _after(self, lsn: int, action: Callable[..., None], *arguments: Any) -> None:
        """Do it once this record is durable: at once, if it is already (or was never)."""
        waiting = self._pending.get(lsn)
        if waiting is None:
            action(*arguments)
        else:
            waiting.append((action, arguments))


def _acknowledged(unacknowledged: deque[tuple[int, Span]], up_to: int) -> list[Span]:
    """Takes what the acknowledgement covers from the front, in parts where it ends inside a span."""
    spans = []
    while unacknowledged and unacknowledged[0][0] <= up_to:
        first, span = unacknowledged.popleft()
        covered = up_to - first + 1
        if covered < span.rows:
            span, rest = span.split(covered)
            unacknowledged.appendleft((first + covered, rest))
        spans.append(span)
    return spans


def _puts(placed: Placed) -> list[Put]:
    return [Put(q.number, span.first_id, span.payload) for q, span in placed if q.stored and span.persistent]


def _removes(removed: Placed) -> list[Remove]:
    ranges: dict[int, list[tuple[int, int]]] = {}
    for queue, span in removed:
        if queue.stored and span.persistent:
            ranges.setdefault(queue.number, []).append((span.first_id, span.rows))
    return [Remove(number, tuple(found)) for number, found in ranges.items()]
