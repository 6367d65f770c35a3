"""A broker made of dictionaries: what must be true of the real core after any sequence of commands.

Every message is one `Entry` for each queue it was placed on, with one state. A command is done by the core and here;
`effects.py` then takes the effects of the core one by one, and each must be something this model allows at that
moment; `checks.py` compares all that can be compared between two commands.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

from mqlab.broker.core.administration import purge
from mqlab.broker.core.broker import Core
from mqlab.broker.core.effects import Answer, Append, Committed, Confirm, Finished, RolledBack, TakenBack
from mqlab.broker.core.links import Producer, Session
from mqlab.broker.core.queue import Queue
from mqlab.broker.core.records import Commit, Decide, Prepare, Put
from mqlab.broker.core.retrieval import Key
from mqlab.broker.core.routing import Topic
from mqlab.wire.bodies import decode

from .parts import (
    ACKNOWLEDGED,
    DELAYED,
    DELIVERED,
    LEAVING,
    PENDING,
    SELECTORS,
    VISIBLE,
    ConsumerModel,
    Entry,
    PreparedModel,
    ProducerModel,
    Sent,
    SessionModel,
    Step,
    Wanted,
    payload_of,
    shares,
)
from .payloads import Bodies, bodies_of
from .replayed import Replayed

PREPARED, DECIDED = 1, 2


class Model:
    def __init__(self, core: Core) -> None:
        self.core = core
        self.now = core.desk.now
        self.durable = 0
        self.sessions: list[SessionModel] = []
        self.producers: list[ProducerModel] = []
        self.consumers: list[ConsumerModel] = []
        self.entries: list[Entry] = []
        self.steps: list[Step] = []
        self.prepared: dict[str, PreparedModel] = {}
        self.next_ids: dict[Queue, int] = {}
        # Answers the core owes by now, and those it gave.
        self.owed: Counter[tuple[Any, ...]] = Counter()
        self.given: Counter[tuple[Any, ...]] = Counter()
        self.numbers = 0
        # The number of the command: what one command makes visible has no order but that of its producer.
        self.command = 1
        self.journal = Replayed(())
        # What was appended with this command, and in which record each message was put.
        self.appended: list[Append] = []
        self.put_in: dict[tuple[int, bytes], tuple[int, int]] = {}
        self.bodies = Bodies()

    # What a client would do

    def send(self, producer: ProducerModel, wanted: list[Wanted], *, persistent: bool, confirm: bool) -> None:
        rows = []
        for one in wanted:
            self.numbers += 1
            rows.append((self.numbers.to_bytes(4, "big") + b"." * one.size, one))
        payload = payload_of(rows, self.now)
        seq = producer.next_seq + len(rows) - 1
        self.core.send(producer.producer, payload, seq, persistent=persistent, confirm=confirm)
        producer.credit -= len(payload.data)
        producer.next_seq += len(rows)
        sent = Sent(producer.producer, rows, payload, persistent, self.now)
        session = self.of(producer.producer.session)
        if session.session.transacted:
            session.sends.append(sent)
            return
        self.read_records()
        placed = self._placed(sent)
        producer.last_lsn = self._lsn_of(placed) or producer.last_lsn
        answer = (Confirm, producer.producer, seq) if confirm else None
        self.steps.append(Step(producer.last_lsn, placed, answer=answer))

    def acknowledge(self, consumer: ConsumerModel, up_to: int, credit: int) -> None:
        self.core.acknowledge(consumer.consumer, up_to, credit)
        consumer.credit += credit
        self._acknowledged(consumer, lambda delivery: delivery <= up_to)

    def acknowledge_rows(self, consumer: ConsumerModel, first: int, rows: int) -> None:
        self.core.acknowledge_rows(consumer.consumer, first, rows)
        self._acknowledged(consumer, lambda delivery: first <= delivery < first + rows)

    def receive(self, consumer: ConsumerModel, key: str) -> None:
        self.core.receive(consumer.consumer, Key("correlation_id", key))
        consumer.waits_for.append(key)

    def cancel(self, consumer: ConsumerModel) -> None:
        self.core.cancel(consumer.consumer)
        consumer.credit = 0
        consumer.waits_for = []

    def commit(self, session: SessionModel) -> None:
        self.core.commit(session.session)
        placed, vanish, lsn = self._ended(session, Commit)
        for entry in vanish:
            entry.kept = False
        session.last_commit = lsn or session.last_commit
        self.steps.append(Step(session.last_commit, placed, vanish, answer=(Committed, session.session)))

    def rollback(self, session: SessionModel) -> None:
        self.core.rollback(session.session)
        self.read_records()
        self.owed[RolledBack, session.session] += 1
        self._undo(session)
        for consumer in self.consumers:
            if consumer.consumer.session is session.session:
                consumer.credit = 0
                self._take_back(consumer, 0)

    def prepare(self, session: SessionModel, xid: str) -> None:
        answer = Answer(self, PREPARED, {})
        self.core.prepare(session.session, xid, answer)
        placed, removed, lsn = self._ended(session, Prepare)
        for entry in placed:
            entry.kept = False
        said = next((one.record for one in self.appended if isinstance(one.record, Prepare)), None)
        self.prepared[xid] = PreparedModel(placed, removed, said)
        self.steps.append(Step(lsn, [], answer=(Answer, *answer[:2])))

    def decide(self, xid: str, *, commit: bool) -> None:
        answer = Answer(self, DECIDED, {})
        self.core.decide(xid, answer, commit=commit)
        self.read_records()
        (lsn,) = [one.lsn for one in self.appended if isinstance(one.record, Decide)]
        prepared = self.prepared.pop(xid)
        told = (Answer, *answer[:2])
        if not commit:
            self.steps.append(Step(lsn, [], prepared.placed, prepared.removed, told))
            return
        for entry in prepared.placed:
            entry.kept = entry.persistent and entry.queue.stored and not entry.queue.closed
        for entry in prepared.removed:
            entry.kept = False
        self.steps.append(Step(lsn, prepared.placed, prepared.removed, answer=told))

    def finish_producer(self, producer: ProducerModel) -> None:
        self.core.finish_producer(producer.producer)
        self.producers.remove(producer)
        self.steps.append(Step(producer.last_lsn, [], answer=(Finished, producer.producer)))

    def take_back(self, consumer: ConsumerModel, seen: int) -> None:
        self.core.take_back(consumer.consumer, seen)
        self.read_records()
        self.owed[TakenBack, consumer.consumer] += 1
        consumer.credit = 0
        self._take_back(consumer, seen)

    def close_consumer(self, consumer: ConsumerModel, seen: int) -> None:
        self.core.close_consumer(consumer.consumer, seen)
        self.read_records()
        self.consumers.remove(consumer)
        self._take_back(consumer, seen)
        self._forget_closed()

    def close_session(self, session: SessionModel) -> None:
        self.core.close_session(session.session)
        self.read_records()
        session.open = False
        self.sessions.remove(session)
        self.producers = [one for one in self.producers if one.producer.session is not session.session]
        self._undo(session)
        for consumer in [one for one in self.consumers if one.consumer.session is session.session]:
            self.consumers.remove(consumer)
            self._take_back(consumer, consumer.next_delivery)
        self._forget_closed()

    # What an administrator, the clock and the disk do

    def unsubscribe(self, client: str, name: str) -> None:
        self.core.unsubscribe(client, name)
        self._forget_closed()

    def delete(self, queue: Queue) -> None:
        self.core.leaving.delete(queue)
        self._forget_closed()

    def purge(self, queue: Queue) -> None:
        gone = [one for one in self.entries if one.queue is queue and one.state in (VISIBLE, DELAYED)]
        assert purge(self.core, queue.full_name) == len(gone)
        for entry in gone:
            self.entries.remove(entry)

    def tick(self, later: int) -> None:
        self.now += later
        self.core.tick(self.now)
        self.read_records()
        for entry in [one for one in self.entries if one.state == DELAYED and one.due <= self.now]:
            self.appear(entry)
        for entry in [one for one in self.entries if one.state == VISIBLE and self.is_late(one)]:
            self._expire(entry)

    def become_durable(self, lsn: int) -> None:
        self.durable = max(self.durable, lsn)
        self.core.durable(lsn)
        self.read_records()

    # What follows from it

    def read_records(self) -> None:
        """What the core has appended since it was last looked at."""
        for effect in self.core.effects:
            if isinstance(effect, Append) and effect.lsn > self.journal.lsn:
                assert effect.lsn == self.journal.lsn + 1, "records are numbered one after the other"
                self.journal.take(effect.record)
                self.appended.append(effect)
                puts = (effect.record,) if isinstance(effect.record, Put) else getattr(effect.record, "puts", ())
                for put in puts:
                    for number, first in put.targets:
                        for row, body in enumerate(decode(put.payload).tolist()):
                            self.put_in.setdefault((number, body), (effect.lsn, first + row))

    def is_late(self, entry: Entry) -> bool:
        return 0 < entry.expires <= self.now

    def appear(self, entry: Entry) -> None:
        """What was reserved, or not due, can be had from now on, unless it is too late or its queue is gone."""
        if entry.queue.closed:
            self.entries.remove(entry)
        elif entry.due > self.now:
            entry.state = DELAYED
        elif self.is_late(entry):
            self._expire(entry)
        else:
            entry.state, entry.since = VISIBLE, self.command

    def come_back(self, entry: Entry, delivered: int) -> None:
        """It was delivered in vain, or given and not seen."""
        entry.delivered += delivered
        policy = entry.queue.policy
        if entry.queue.closed:
            self.entries.remove(entry)
        elif 0 < policy.redelivery_limit <= entry.delivered and entry.queue.full_name != policy.dead_letters:
            self._move(entry, policy.dead_letters)
        else:
            self.appear(entry)
            entry.returned = self.command

    def of(self, session: Session) -> SessionModel:
        found = next((one for one in self.sessions if one.session is session), None)
        return found or SessionModel(session, open=False)

    def _placed(self, sent: Sent) -> list[Entry]:
        destination = sent.producer.destination
        queues = destination.subscriptions if isinstance(destination, Topic) else [destination]
        placed = []
        for queue in queues:
            selector = queue.subscription.terms.selector if queue.subscription else ""
            chosen = [SELECTORS[selector](about.kind) for _, about in sent.wanted]
            if not any(chosen):
                continue
            first = self.next_ids.get(queue, 1)
            self.next_ids[queue] = first + len(chosen)
            for row, ((body, about), size) in enumerate(zip(sent.wanted, shares(sent.payload), strict=True)):
                if chosen[row]:
                    placed.append(self._entry(queue, first + row, body, size, sent, about))
        self.entries += placed
        return placed

    def _entry(self, queue: Queue, id_: int, body: bytes, size: int, sent: Sent, about: Wanted) -> Entry:
        return Entry(
            queue, id_, body, size, sent.persistent, about, sent.producer, sent.payload,
            due=sent.at + about.delay if about.delay else 0, expires=sent.at + about.life if about.life else 0,
            kept=sent.persistent and queue.stored and not queue.closed,
        )  # fmt: skip

    def _lsn_of(self, placed: list[Entry]) -> int:
        """The record that puts them, or 0."""
        found = {self.put_in[one.queue.number, one.body][0] for one in placed if one.kept}
        assert len(found) <= 1, "one send is one record"
        return found.pop() if found else 0

    def _acknowledged(self, consumer: ConsumerModel, is_done: Any) -> None:
        session = consumer.consumer.session
        for delivery, entry in [*consumer.has]:
            if is_done(delivery):
                consumer.has.remove((delivery, entry))
                if session.transacted:
                    entry.state = ACKNOWLEDGED
                    self.of(session).acknowledged.append(entry)
                else:
                    self.entries.remove(entry)

    def _ended(self, session: SessionModel, kind: type[Commit] | type[Prepare]) -> tuple[list[Entry], list[Entry], int]:
        """What the transaction puts and removes, and the one record of it (0: it needs none)."""
        self.read_records()
        placed = [entry for sent in session.sends for entry in self._placed(sent)]
        removed, session.sends, session.acknowledged = session.acknowledged, [], []
        for entry in removed:
            entry.state = LEAVING
        said = [one for one in self.appended if isinstance(one.record, kind)]
        needed = kind is Prepare or any(one.kept for one in (*placed, *removed) if not one.queue.closed)
        assert len(said) == needed, "one record for a transaction"
        return placed, removed, said[0].lsn if said else 0

    def _undo(self, session: SessionModel) -> None:
        returned, session.sends, session.acknowledged = session.acknowledged, [], []
        for entry in returned:
            self.come_back(entry, 1)

    def _take_back(self, consumer: ConsumerModel, seen: int) -> None:
        for delivery, entry in consumer.has:
            assert entry.state == DELIVERED
            self.come_back(entry, int(delivery <= seen))
        consumer.has.clear()

    def _expire(self, entry: Entry) -> None:
        to = entry.queue.policy.expired
        if to and to != entry.queue.full_name:
            self._move(entry, to)
        else:
            self.entries.remove(entry)

    def _move(self, entry: Entry, to: str) -> None:
        """It leaves its queue for another, where it begins anew. There, and only there, ids are read from the core."""
        queue = self.core.house.queues[to.removeprefix("queue:")]
        self.entries.remove(entry)
        moved = Entry(queue, 0, entry.body, 0, entry.persistent, entry.about, None, None, kept=entry.persistent)
        self.entries.append(moved)
        if moved.kept:
            lsn, moved.id = self.put_in[queue.number, moved.body]
            self.steps.append(Step(lsn, [moved]))
        else:
            span = next(one for one in queue.everything() if entry.body in bodies_of([one]))
            moved.id = span.base + int(span.index[bodies_of([span]).index(entry.body)])
            self.appear(moved)

    def _forget_closed(self) -> None:
        """What is on its way to the disk, or in a transaction, ends there."""
        self.entries = [
            entry for entry in self.entries
            if not entry.queue.closed or entry.state in (PENDING, ACKNOWLEDGED, LEAVING)
        ]  # fmt: skip
        for entry in self.entries:
            entry.kept = entry.kept and not entry.queue.closed
