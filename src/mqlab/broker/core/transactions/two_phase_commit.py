"""Two-phase commit: transactions that were prepared and wait for a transaction manager to decide."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from mqlab.broker import limits
from mqlab.broker.core.dispatch.selective import take_ids
from mqlab.broker.core.durability.pending_records import PendingRecords
from mqlab.broker.core.durability.records import Decide, Prepare
from mqlab.broker.core.effects import Answer, Effect
from mqlab.broker.core.errors import RefusedError
from mqlab.broker.core.flow import Flow
from mqlab.broker.core.model.destinations import DestinationRegistry
from mqlab.broker.core.model.messages import Span
from mqlab.broker.core.removal import Removal
from mqlab.broker.core.routing.duplicates import Sent, ids_of
from mqlab.broker.core.routing.placement import Ended, Placed, restored


@dataclass(eq=False, slots=True)
class PreparedTransaction:
    said: Prepare
    placed: Placed
    removed: Placed
    sent: list[Sent]


class TwoPhaseCommit:
    def __init__(
        self,
        destinations: DestinationRegistry,
        records: PendingRecords,
        removal: Removal,
        flow: Flow,
        effects: list[Effect],
    ) -> None:
        self._destinations = destinations
        self._records = records
        self._removal = removal
        self._flow = flow
        self._effects = effects
        self.waiting: dict[str, PreparedTransaction] = {}
        # Rolled back, and the record of that is on its way to the disk: until then nothing of it shows.
        self._undone: list[PreparedTransaction] = []

    def check(self, xid: str) -> None:
        """Raises RefusedError for a name that a new transaction cannot have."""
        if not xid or len(xid) > limits.XID or not xid.isprintable():
            raise RefusedError(f"the name of a global transaction has 1 to {limits.XID} printable characters")
        if xid in self.waiting:
            raise RefusedError(f"transaction {xid!r} is prepared already")
        if len(self.waiting) >= limits.PREPARED:
            raise RefusedError(f"at most {limits.PREPARED} prepared transactions wait for a decision")

    def prepare(self, xid: str, ended: Ended, answer: Answer) -> None:
        record = Prepare(xid, ended.said.puts, ended.said.removes)
        self.waiting[xid] = PreparedTransaction(record, ended.placed, ended.removed, ended.sent)
        self._know(ended.sent)
        self._records.run_when_durable(self._append(record), self._effects.append, answer)

    def decide(self, xid: str, answer: Answer, *, commit: bool) -> None:
        """Also for a transaction that was prepared before a restart, and from any session."""
        prepared = self.waiting.pop(xid, None)
        if prepared is None:
            raise RefusedError(f"there is no prepared transaction {xid!r}")
        if not commit:
            self._undone.append(prepared)
        # Now, and not when it is durable: the journal may begin a new file meanwhile, which says what is known.
        for sent in prepared.sent:
            if commit:
                self._destinations.remember_ids(sent, lasting=sent.persistent)
            else:
                self._destinations.forget_ids(sent)
        self._records.run_when_durable(self._append(Decide(xid, commit)), self._decided, prepared, answer, commit)

    def restore(self, said: Prepare) -> None:
        """At start, when the queues are there: what was prepared is neither here nor there again."""
        placed: Placed = []
        for put in said.puts:
            for number, base in put.targets:
                queue = self._destinations.numbered.get(number)
                if queue is not None:
                    left_out = [one for remove in said.removes if remove.queue == number for one in remove.ranges]
                    whole = Span(put.payload, base, persistent=True, origin=put.origin)
                    wanted = whole.chosen(~whole.within(left_out))
                    placed += [(queue, span) for span in (restored(wanted, queue) if wanted else ())]
        for queue, span in placed:
            queue.reserve(span)
            queue.unseen.add(span)
        removed = [
            (self._destinations.numbered[remove.queue], span)
            for remove in said.removes
            if remove.queue in self._destinations.numbered
            for span in take_ids(self._destinations.numbered[remove.queue], remove.ranges)
        ]
        # A queue that was deleted since then has no name, and nobody can send to it again.
        sent = [
            Sent(name, ids, persistent=True)
            for put in said.puts
            if (name := put.origin or self._destinations.name_of(put.targets[0][0]))
            and (ids := ids_of(put.payload)) is not None
        ]
        self._know(sent)
        self.waiting[said.xid] = PreparedTransaction(said, placed, removed, sent)

    def removed(self) -> Placed:
        """Messages that wait for a decision about their removal, or for their return: they are still needed."""
        return [pair for prepared in (*self.waiting.values(), *self._undone) for pair in prepared.removed]

    def placed(self) -> set[Span]:
        """Messages that were not sent yet, or never will have been: the journal has them only in their transaction."""
        return {span for prepared in (*self.waiting.values(), *self._undone) for _, span in prepared.placed}

    def say_again(self, xids: Iterable[str], waiter: object) -> None:
        """The journal's file that has them is to go."""
        for xid in xids:
            if xid in self.waiting:
                self._records.append(self.waiting[xid].said, waiter)

    def _know(self, sent: Iterable[Sent]) -> None:
        """Duplicates are found before the decision as well; that is not for the journal, which has the transaction."""
        for one in sent:
            self._destinations.remember_ids(one, lasting=False)

    def _append(self, record: Prepare | Decide) -> int:
        """A broker without a disk forgets what is prepared when it stops, as it forgets everything."""
        return self._records.append(record, self) if self._destinations.has_store else 0

    def _decided(self, prepared: PreparedTransaction, answer: Answer, commit: bool) -> None:
        if commit:
            self._removal.make_visible(prepared.placed)
            self._removal.consumed(prepared.removed)
        else:
            self._undone.remove(prepared)
            for queue, span in prepared.placed:
                queue.unseen.discard(span)
                self._flow.released(queue, (span,))
            for _, span in prepared.removed:
                span.delivered += 1
            self._removal.put_back(prepared.removed)
        self._effects.append(answer)


def overview(two_phase_commit: TwoPhaseCommit) -> list[dict[str, Any]]:
    return [
        {
            "xid": xid,
            "sent": sum(span.rows for _, span in one.placed),
            "received": sum(span.rows for _, span in one.removed),
        }
        for xid, one in two_phase_commit.waiting.items()
    ]
