"""A broker made of dictionaries: what must be true of the real core after any sequence of commands.

Every message is one `Entry` for each queue it was placed on, with one state. A command of the core is first done here;
then the effects of the core are taken one by one, and each must be something this model allows at that moment.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any

from mqlab.broker.core.broker import Core
from mqlab.broker.core.effects import Append, Committed, Confirm, Credit, Deliver, Finished, RolledBack
from mqlab.broker.core.links import Producer, Session
from mqlab.broker.core.queue import Queue, Topic
from mqlab.wire.bodies import Payload, decode, encode

from .parts import (
    ACKNOWLEDGED,
    COMMITTING,
    DELIVERED,
    PENDING,
    VISIBLE,
    ConsumerModel,
    Entry,
    ProducerModel,
    SessionModel,
    Step,
    shares,
)


class Model:
    def __init__(self, core: Core) -> None:
        self.core = core
        self.durable = 0
        self.sessions: list[SessionModel] = []
        self.producers: list[ProducerModel] = []
        self.consumers: list[ConsumerModel] = []
        self.entries: list[Entry] = []
        self.steps: list[Step] = []
        # Answers the core owes by now, and those it gave.
        self.owed: Counter[tuple[Any, ...]] = Counter()
        self.given: Counter[tuple[Any, ...]] = Counter()
        self.numbers = 0

    # What a client would do

    def send(self, producer: ProducerModel, sizes: list[int], *, persistent: bool, confirm: bool) -> None:
        bodies = []
        for size in sizes:
            self.numbers += 1
            bodies.append(self.numbers.to_bytes(4, "big") + b"." * size)
        payload = encode(bodies)
        seq = producer.next_seq + len(bodies) - 1
        lsn_before = self.core.lsn
        self.core.send(producer.producer, payload, seq, persistent=persistent, confirm=confirm)
        producer.credit -= len(payload.data)
        session = self.of(producer.producer.session)
        if session.session.transacted:
            session.sends.append((producer.producer, bodies, payload, persistent))
            producer.next_seq += len(bodies)
            return
        placed = self._placed(producer.producer, bodies, payload, persistent)
        if self.core.lsn > lsn_before:
            producer.last_lsn = self.core.lsn
        answer = (Confirm, producer.producer, seq) if confirm else None
        self.steps.append(Step(producer.last_lsn, placed, answer=answer))

    def _placed(self, link: Producer, bodies: list[bytes], payload: Payload, persistent: bool) -> list[Entry]:
        destination = link.destination
        queues = destination.subscriptions if isinstance(destination, Topic) else [destination]
        producer = next((one for one in self.producers if one.producer is link), None)
        placed = []
        for queue in queues:
            for body, size in zip(bodies, shares(payload), strict=True):
                number = int.from_bytes(body[:4], "big")
                placed.append(Entry(queue, body, link, number, size, persistent))
        if producer is not None and not link.session.transacted:
            producer.next_seq += len(bodies)
        self.entries += placed
        return placed

    def acknowledge(self, consumer: ConsumerModel, up_to: int, credit: int) -> None:
        self.core.acknowledge(consumer.consumer, up_to, credit)
        consumer.credit += credit
        transacted = consumer.consumer.session.transacted
        while consumer.has and consumer.has[0][0] <= up_to:
            _, entry = consumer.has.popleft()
            if transacted:
                entry.state = ACKNOWLEDGED
                self.of(consumer.consumer.session).acknowledged.append(entry)
            else:
                self.entries.remove(entry)

    def commit(self, session: SessionModel) -> None:
        before = self.core.lsn
        self.core.commit(session.session)
        appear = [
            entry for producer, bodies, payload, persistent in session.sends
            for entry in self._placed(producer, bodies, payload, persistent)
        ]  # fmt: skip
        session.sends = []
        vanish, session.acknowledged = session.acknowledged, []
        for entry in vanish:
            entry.state = COMMITTING
        if self.core.lsn > before:
            session.last_commit = self.core.lsn
        self.steps.append(Step(session.last_commit, appear, vanish, (Committed, session.session)))

    def rollback(self, session: SessionModel) -> None:
        self.core.rollback(session.session)
        self.owed[RolledBack, session.session] += 1
        self._undo(session)
        for consumer in self.consumers:
            if consumer.consumer.session is session.session:
                consumer.credit = 0
                # Never acknowledged, so perhaps never shown to anybody: marked or not, both are right.
                self._take_back(consumer, mark=None)

    def finish_producer(self, producer: ProducerModel) -> None:
        self.core.finish_producer(producer.producer)
        self.producers.remove(producer)
        self.steps.append(Step(producer.last_lsn, [], answer=(Finished, producer.producer)))

    def close_consumer(self, consumer: ConsumerModel) -> None:
        self.core.close_consumer(consumer.consumer)
        self.consumers.remove(consumer)
        self._take_back(consumer, mark=True)
        self._forget_closed_subscriptions()

    def close_session(self, session: SessionModel) -> None:
        self.core.close_session(session.session)
        session.open = False
        self.sessions.remove(session)
        self.producers = [one for one in self.producers if one.producer.session is not session.session]
        self._undo(session)
        for consumer in [one for one in self.consumers if one.consumer.session is session.session]:
            self.consumers.remove(consumer)
            self._take_back(consumer, mark=True)
        self._forget_closed_subscriptions()

    def become_durable(self, lsn: int) -> None:
        self.durable = max(self.durable, lsn)
        self.core.durable(lsn)

    # What follows from it

    def _undo(self, session: SessionModel) -> None:
        for entry in session.acknowledged:
            entry.state, entry.mark = VISIBLE, True
        session.sends, session.acknowledged = [], []

    def _take_back(self, consumer: ConsumerModel, *, mark: bool | None) -> None:
        for _, entry in consumer.has:
            entry.state = VISIBLE
            entry.mark = True if entry.mark else mark
        consumer.has.clear()

    def _forget_closed_subscriptions(self) -> None:
        """A subscription of a topic ends with its consumer; what is on its way to disk or in a commit ends there."""
        self.entries = [
            entry for entry in self.entries
            if not entry.queue.closed or entry.state in (PENDING, COMMITTING, ACKNOWLEDGED)
        ]  # fmt: skip

    def settle(self) -> None:
        """Steps whose record is durable take effect, in the order in which they were taken."""
        waiting = []
        for step in self.steps:
            if step.lsn > self.durable:
                waiting.append(step)
                continue
            for entry in step.appear:
                entry.state = VISIBLE
            for entry in step.vanish:
                self.entries.remove(entry)
            if step.answer is not None and self._is_open(step.answer):
                self.owed[step.answer] += 1
        self.steps = waiting
        self.entries = [one for one in self.entries if not (one.queue.closed and one.state == VISIBLE)]

    def _is_open(self, answer: tuple[Any, ...]) -> bool:
        of = answer[1]
        return self.of(of if isinstance(of, Session) else of.session).open

    def of(self, session: Session) -> SessionModel:
        found = next((one for one in self.sessions if one.session is session), None)
        return found or SessionModel(session, open=False)

    # The effects of the core

    def take_effects(self) -> None:
        self.settle()
        effects = [*self.core.effects]
        self.core.effects.clear()
        for effect in effects:
            if isinstance(effect, Deliver):
                self._delivered(effect)
            elif isinstance(effect, Credit):
                producer = next((one for one in self.producers if one.producer is effect.producer), None)
                assert producer is not None, "credit for a closed producer"
                producer.credit += effect.size
            elif not isinstance(effect, Append):
                self.given[(type(effect), *effect)] += 1
        assert self.given == self.owed
        for producer in self.producers:
            held = producer.producer in self.core.flow.held
            full = self.core.flow.size >= self.core.settings.memory_limit
            producer.saw_full_broker = held and (producer.saw_full_broker or full)

    def _delivered(self, effect: Deliver) -> None:
        consumer = next((one for one in self.consumers if one.consumer is effect.consumer), None)
        assert consumer is not None, "a delivery to a closed consumer"
        assert not consumer.paused, "a delivery to a consumer that cannot take it"
        bodies = decode(effect.span.encoded()).tolist()
        assert effect.first_delivery == consumer.next_delivery
        assert len(bodies) <= consumer.credit, "more than there is room for"
        for body in bodies:
            entry = self._entry(consumer.consumer.queue, body)
            assert entry.state == VISIBLE, f"delivered while {entry.state}"
            assert entry.mark in (None, effect.span.redelivered), "the redelivered mark is wrong"
            entry.mark = effect.span.redelivered
            assert not self._overtakes(entry), "overtakes an earlier message of its producer"
            entry.state = DELIVERED
            consumer.has.append((consumer.next_delivery, entry))
            consumer.next_delivery += 1
            consumer.credit -= 1

    def _entry(self, queue: Queue, body: bytes) -> Entry:
        found = [entry for entry in self.entries if entry.queue is queue and entry.body == body]
        assert len(found) == 1, f"{len(found)} messages of that body should be on this queue"
        return found[0]

    def _overtakes(self, entry: Entry) -> bool:
        return any(
            other.queue is entry.queue and other.producer is entry.producer and other.seq < entry.seq
            and other.state in (PENDING, VISIBLE)
            for other in self.entries
        )  # fmt: skip

    # What holds between commands

    def check(self) -> None:
        queues = [*self.core.queues.values(), *(sub for t in self.core.topics.values() for sub in t.subscriptions)]
        for queue in queues:
            mine = [entry for entry in self.entries if entry.queue is queue]
            assert (queue.messages, queue.size) == (len(mine), sum(entry.size for entry in mine))
            if any(entry.state == VISIBLE for entry in mine):
                assert not self._ready(queue), "there is a message, and a consumer with room, and nothing happens"
        assert self.core.flow.size == sum(entry.size for entry in self.entries)
        for producer in self.producers:
            assert producer.credit == self.core.settings.producer_window - producer.producer.spent
            self._check_held(producer)
        assert self.core.flow.held <= {producer.producer for producer in self.producers}

    def _check_held(self, producer: ProducerModel) -> None:
        limit = self.core.settings.memory_limit
        held = producer.producer in self.core.flow.held
        broker_full = producer.saw_full_broker and self.core.flow.size > limit * 0.75
        if held:
            assert producer.producer.destination.full or broker_full, "held back for no reason"
        else:
            waits = any(step.appear and step.appear[0].producer is producer.producer for step in self.steps)
            assert producer.credit > 0 or waits, "neither credit nor held back: it would wait for ever"

    def _ready(self, queue: Queue) -> Iterable[ConsumerModel]:
        return [one for one in self.consumers if one.consumer.queue is queue and one.credit > 0 and not one.paused]
