"""A broker made of dictionaries: what must be true of the real core after any sequence of commands.

Every message is one `Entry` for each queue it was placed on, with one state. A command is done by the core and here;
`effects.py` then takes the effects of the core one by one, and each must be something this model allows at that
moment; `checks.py` compares all that can be compared between two commands.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext

import pytest

from mqlab.broker.core.admin import purge
from mqlab.broker.core.dispatch.correlation_index import Key
from mqlab.broker.core.durability.records import Commit, Decide, Prepare
from mqlab.broker.core.effects import Answer, Committed, Confirm, Finished, Requeued, RolledBack
from mqlab.broker.core.errors import CommandError
from mqlab.broker.core.model.queue import Queue

from .model_parts import (
    ACKNOWLEDGED,
    DELAYED,
    DELIVERED,
    LEAVING,
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
)
from .model_state import World

PREPARED, DECIDED = 1, 2


class Model(World):
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
        placed = self.placed(sent)
        producer.last_lsn = self.lsn_of(placed) or producer.last_lsn
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
        self.core.cancel_receives(consumer.consumer)
        consumer.credit = 0
        consumer.waits_for = []

    def commit(self, session: SessionModel) -> None:
        if self._is_refused(session, lambda: self.core.commit(session.session)):
            return
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
        if self._is_refused(session, lambda: self.core.prepare(session.session, xid, answer)):
            return
        placed, removed, lsn = self._ended(session, Prepare)
        for entry in placed:
            entry.kept, entry.xid = False, xid
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
        self.core.requeue_all(consumer.consumer, seen)
        self.read_records()
        self.owed[Requeued, consumer.consumer] += 1
        consumer.credit = 0
        self._take_back(consumer, seen)

    def close_consumer(self, consumer: ConsumerModel, seen: int) -> None:
        self.core.close_consumer(consumer.consumer, seen)
        self.read_records()
        self.consumers.remove(consumer)
        self._take_back(consumer, seen)
        self.forget_closed()

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
        self.forget_closed()

    # What an administrator, the clock and the disk do

    def unsubscribe(self, client: str, name: str) -> None:
        self.core.unsubscribe(client, name)
        self.forget_closed()

    def delete(self, queue: Queue) -> None:
        self.core.removal.delete(queue)
        self.forget_closed()

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
            self.expire(entry)

    def become_durable(self, lsn: int) -> None:
        self.durable = max(self.durable, lsn)
        self.core.on_durable(lsn)
        self.read_records()

    # The parts of the commands

    def _acknowledged(self, consumer: ConsumerModel, is_done: Callable[[int], bool]) -> None:
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
        placed = [entry for sent in session.sends for entry in self.placed(sent)]
        removed, session.sends, session.acknowledged = session.acknowledged, [], []
        for entry in removed:
            entry.state = LEAVING
        said = [one for one in self.appended if isinstance(one.record, kind)]
        needed = kind is Prepare or any(one.kept for one in (*placed, *removed) if not one.queue.closed)
        assert len(said) == needed, "one record for a transaction"
        return placed, removed, said[0].lsn if said else 0

    def _is_refused(self, session: SessionModel, end: Callable[[], None]) -> bool:
        """A transaction that sent to a queue that is gone can only be rolled back."""
        sent_to = [sent.producer.destination for sent in session.sends]
        is_refused = any(isinstance(one, Queue) and one.closed for one in sent_to)
        with pytest.raises(CommandError, match="is gone") if is_refused else nullcontext():
            end()
        return is_refused

    def _undo(self, session: SessionModel) -> None:
        returned, session.sends, session.acknowledged = session.acknowledged, [], []
        for entry in returned:
            self.come_back(entry, 1)

    def _take_back(self, consumer: ConsumerModel, seen: int) -> None:
        for delivery, entry in consumer.has:
            assert entry.state == DELIVERED
            self.come_back(entry, int(delivery <= seen))
        consumer.has.clear()
