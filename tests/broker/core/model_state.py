"""The state of the model, and its changes when something happens to a message."""

from __future__ import annotations

from collections import Counter

from mqlab.broker.core.broker import Core
from mqlab.broker.core.durability.checkpoint import all_spans
from mqlab.broker.core.durability.records import Put
from mqlab.broker.core.effects import Append
from mqlab.broker.core.model.messages import FOOTPRINT
from mqlab.broker.core.model.queue import Queue, Topic
from mqlab.broker.core.model.sessions import CoreSession
from mqlab.wire.native.bodies import decode

from .model_parts import (
    ACKNOWLEDGED,
    DELAYED,
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
    shares,
)
from .payloads import Bodies, bodies_of
from .reference_recovery import Replayed


class World:
    def __init__(self, core: Core) -> None:
        self.core = core
        self.now = core.context.now_ms
        self.durable = 0
        self.sessions: list[SessionModel] = []
        self.producers: list[ProducerModel] = []
        self.consumers: list[ConsumerModel] = []
        self.entries: list[Entry] = []
        self.steps: list[Step] = []
        self.prepared: dict[str, PreparedModel] = {}
        self.next_ids: dict[Queue, int] = {}
        # Answers the core owes by now, and those it gave.
        self.owed: Counter[tuple[object, ...]] = Counter()
        self.given: Counter[tuple[object, ...]] = Counter()
        self.numbers = 0
        # The number of the command: what one command makes visible has no order but that of its producer.
        self.command = 1
        self.journal = Replayed(())
        # What was appended with this command, and in which record each message was put.
        self.appended: list[Append] = []
        self.put_in: dict[tuple[int, bytes], tuple[int, int]] = {}
        self.bodies = Bodies()

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
            self.expire(entry)
        else:
            entry.state, entry.since = VISIBLE, self.command

    def come_back(self, entry: Entry, delivered: int) -> None:
        """It was delivered in vain, or given and not seen."""
        entry.delivered += delivered
        policy, times = entry.queue.policy, entry.delivered - entry.doubtful
        if entry.queue.closed:
            self.entries.remove(entry)
        elif 0 < policy.redelivery_limit <= times and entry.queue.full_name != policy.dead_letters:
            self._move(entry, policy.dead_letters)
        else:
            self.appear(entry)
            entry.returned = self.command

    def of(self, session: CoreSession) -> SessionModel:
        found = next((one for one in self.sessions if one.session is session), None)
        return found or SessionModel(session, open=False)

    def placed(self, sent: Sent) -> list[Entry]:
        destination = sent.producer.destination
        # Its producer may be closed, and the topic dropped, before the transaction ends.
        topics = self.core.destinations.routing
        queues = topics.subscribed(destination) if isinstance(destination, Topic) else [destination]
        placed = []
        for queue in queues:
            selector = queue.subscription.terms.selector if queue.subscription else ""
            chosen = [SELECTORS[selector](about.kind) for _, about in sent.wanted]
            if not any(chosen):
                continue
            first = self.next_ids.get(queue, 1)
            self.next_ids[queue] = first + len(chosen)
            sizes, around = shares(len(sent.payload.data), len(chosen)), shares(FOOTPRINT, len(chosen))
            for row, (body, about) in enumerate(sent.wanted):
                if chosen[row]:
                    size = (sizes[row], sizes[row] + around[row])
                    placed.append(self._entry(queue, first + row, body, size, sent, about))
        self.entries += placed
        return placed

    def _entry(self, queue: Queue, id_: int, body: bytes, size: tuple[int, int], sent: Sent, about: Wanted) -> Entry:
        return Entry(
            queue, id_, body, *size, sent.persistent, about, sent.producer, sent.payload,
            due=sent.at + about.delay if about.delay else 0, expires=sent.at + about.life if about.life else 0,
            kept=sent.persistent and queue.stored and not queue.closed,
        )  # fmt: skip

    def lsn_of(self, placed: list[Entry]) -> int:
        """The record that puts them, or 0."""
        found = {self.put_in[one.queue.number, one.body][0] for one in placed if one.kept}
        assert len(found) <= 1, "one send is one record"
        return found.pop() if found else 0

    def expire(self, entry: Entry) -> None:
        to = entry.queue.policy.expired
        if to and to != entry.queue.full_name:
            self._move(entry, to)
        else:
            self.entries.remove(entry)

    def _move(self, entry: Entry, to: str) -> None:
        """It leaves its queue for another, where it begins anew. There, and only there, ids are read from the core."""
        queue = self.core.destinations.queues[to.removeprefix("queue:")]
        self.entries.remove(entry)
        moved = Entry(queue, 0, entry.body, 0, 0, entry.persistent, entry.about, None, None, kept=entry.persistent)
        self.entries.append(moved)
        if moved.kept:
            lsn, moved.id = self.put_in[queue.number, moved.body]
            self.steps.append(Step(lsn, [moved]))
        else:
            span = next(one for one in all_spans(queue) if entry.body in bodies_of([one]))
            moved.id = span.base + int(span.index[bodies_of([span]).index(entry.body)])
            self.appear(moved)

    def forget_closed(self) -> None:
        """What is on its way to the disk, or in a transaction, ends there."""
        self.entries = [
            entry for entry in self.entries
            if not entry.queue.closed or entry.state in (PENDING, ACKNOWLEDGED, LEAVING)
        ]  # fmt: skip
        for entry in self.entries:
            entry.kept = entry.kept and not entry.queue.closed
