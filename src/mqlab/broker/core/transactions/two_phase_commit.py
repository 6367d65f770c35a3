"""Two-phase commit: prepared transactions wait until a transaction manager decides."""

from collections.abc import Iterable
from dataclasses import dataclass

from mqlab.broker import limits
from mqlab.broker.core.context import Effects
from mqlab.broker.core.dispatch.selective import take_ids
from mqlab.broker.core.durability.pending_records import PendingRecords
from mqlab.broker.core.durability.records import Decide, Prepare
from mqlab.broker.core.effects import Answer
from mqlab.broker.core.errors import CommandError
from mqlab.broker.core.flow import FlowControl
from mqlab.broker.core.model.destinations import DestinationRegistry
from mqlab.broker.core.model.messages import Span
from mqlab.broker.core.removal import Removal
from mqlab.broker.core.routing.duplicates import SentIds, ids_of
from mqlab.broker.core.routing.placement import EndedTransaction, Placed, restored
from mqlab.json_values import JsonObject


@dataclass(eq=False, slots=True)
class PreparedTransaction:
    record: Prepare
    placed: Placed
    removed: Placed
    sent: list[SentIds]


class TwoPhaseCommit:
    def __init__(
        self, destinations: DestinationRegistry, records: PendingRecords, removal: Removal, flow: FlowControl,
        effects: Effects,
    ) -> None:  # fmt: skip
        self._destinations = destinations
        self._records = records
        self._removal = removal
        self._flow = flow
        self._effects = effects
        self.waiting: dict[str, PreparedTransaction] = {}
        # Rolled back, but the record of that is not durable yet: until then none of its messages is visible.
        self._rolling_back: list[PreparedTransaction] = []

    def check(self, xid: str) -> None:
        """Raises CommandError if a transaction cannot be prepared under this name."""
        if not xid or len(xid) > limits.XID or not xid.isprintable():
            raise CommandError(f"the name of a global transaction has 1 to {limits.XID} printable characters")
        if xid in self.waiting:
            raise CommandError(f"transaction {xid!r} is prepared already")
        if len(self.waiting) >= limits.PREPARED:
            raise CommandError(f"at most {limits.PREPARED} prepared transactions wait for a decision")

    def prepare(self, xid: str, ended: EndedTransaction, answer: Answer) -> None:
        record = Prepare(xid, ended.record.puts, ended.record.removes)
        self.waiting[xid] = PreparedTransaction(record, ended.placed, ended.removed, ended.sent)
        self._remember(ended.sent)
        self._records.run_when_durable(self._append(record), self._effects.append, answer)

    def decide(self, xid: str, answer: Answer, *, commit: bool) -> None:
        """Commit or roll back, from any session, also a transaction that was prepared before a restart."""
        prepared = self.waiting.pop(xid, None)
        if prepared is None:
            raise CommandError(f"there is no prepared transaction {xid!r}")
        if not commit:
            self._rolling_back.append(prepared)
        # Before the decision is durable: the journal may begin a new file meanwhile, which repeats the ids.
        for sent in prepared.sent:
            if commit:
                self._destinations.remember_ids(sent, persistent=sent.persistent)
            else:
                self._destinations.forget_ids(sent)
        self._records.run_when_durable(self._append(Decide(xid, commit)), self._decided, prepared, answer, commit)

    def restore(self, record: Prepare) -> None:
        """At start, when the queues are restored: hide the messages of a prepared transaction again."""
        placed: Placed = []
        for put in record.puts:
            for number, base in put.targets:
                queue = self._destinations.numbered.get(number)
                if queue is not None:
                    left_out = [ids for remove in record.removes if remove.queue == number for ids in remove.ranges]
                    whole = Span(put.payload, base, persistent=True, origin=put.origin)
                    part = whole.chosen(~whole.within(left_out))
                    placed += [(queue, span) for span in (restored(part, queue) if part else ())]
        for queue, span in placed:
            queue.reserve_hidden(span)
        removed = [
            (self._destinations.numbered[remove.queue], span)
            for remove in record.removes
            if remove.queue in self._destinations.numbered
            for span in take_ids(self._destinations.numbered[remove.queue], remove.ranges)
        ]
        # A queue that was deleted since then has no name.
        sent = [
            SentIds(name, ids, persistent=True)
            for put in record.puts
            if (name := put.origin or self._destinations.name_of(put.targets[0][0]))
            and (ids := ids_of(put.payload)) is not None
        ]
        self._remember(sent)
        self.waiting[record.xid] = PreparedTransaction(record, placed, removed, sent)

    def removed(self) -> Placed:
        """Acknowledged messages that come back if the transaction is rolled back."""
        return [pair for prepared in (*self.waiting.values(), *self._rolling_back) for pair in prepared.removed]

    def placed(self) -> set[Span]:
        """Messages of prepared sends: the journal has them only in the record of their transaction."""
        return {span for prepared in (*self.waiting.values(), *self._rolling_back) for _, span in prepared.placed}

    def append_again(self, xids: Iterable[str], waiter: object) -> None:
        """Repeat the records of these transactions for a checkpoint."""
        for xid in xids:
            if xid in self.waiting:
                self._records.append(self.waiting[xid].record, waiter)

    def _remember(self, sent: Iterable[SentIds]) -> None:
        """Detect duplicates before the decision as well. The journal has these ids in the transaction's record."""
        for ids in sent:
            self._destinations.remember_ids(ids, persistent=False)

    def _append(self, record: Prepare | Decide) -> int:
        """A broker without a store forgets prepared transactions when it stops."""
        return self._records.append(record, self) if self._destinations.has_store else 0

    def _decided(self, prepared: PreparedTransaction, answer: Answer, commit: bool) -> None:
        if commit:
            self._removal.make_visible(prepared.placed)
            self._removal.committed(prepared.removed)
        else:
            self._rolling_back.remove(prepared)
            for queue, span in prepared.placed:
                queue.unhide(span)
                self._flow.release(queue, (span,))
            for _, span in prepared.removed:
                span.delivered += 1
            self._removal.requeue(prepared.removed)
        self._effects.append(answer)


def overview(two_phase_commit: TwoPhaseCommit) -> list[JsonObject]:
    return [
        {
            "xid": xid,
            "sent": sum(span.rows for _, span in prepared.placed),
            "received": sum(span.rows for _, span in prepared.removed),
        }
        for xid, prepared in two_phase_commit.waiting.items()
    ]
