"""Pending records: what the core asks the journal to write, and what happens when that is durable."""

from collections.abc import Callable, Iterable
from typing import Final, NamedTuple

from mqlab.broker.core.context import Effects
from mqlab.broker.core.durability.records import Commit, Prepare, Put, Record, Remove
from mqlab.broker.core.effects import Append, Confirm

# Bytes of a record around its messages, and for each queue that they go to: about.
RECORD_BYTES: Final = 64
_TARGET_BYTES: Final = 12
UNLIMITED: Final = 1 << 62


def journal_bytes(record: Record) -> int:
    """Bytes that the messages of a record take in the journal, about."""
    if isinstance(record, Put):
        return len(record.payload.data) + RECORD_BYTES + _TARGET_BYTES * len(record.targets)
    return sum(map(journal_bytes, record.puts)) if isinstance(record, Commit | Prepare) else 0


def merged(ranges: Iterable[tuple[int, int]]) -> tuple[tuple[int, int], ...]:
    """The same ids (first, rows), with neighbours in one range."""
    result: list[tuple[int, int]] = []
    for first, rows in sorted(ranges):
        if result and sum(result[-1]) == first:
            result[-1] = (result[-1][0], result[-1][1] + rows)
        else:
            result.append((first, rows))
    return tuple(result)


class Pending(NamedTuple):
    """The confirmations and the actions that wait for a record, in order."""

    confirms: list[Confirm]
    actions: list[tuple[Callable[..., None], tuple[object, ...]]]


class PendingRecords:
    def __init__(self, effects: Effects) -> None:
        self._effects = effects
        # Number of the last record given to the journal.
        self.lsn = 0
        # Records that a producer, session or request waits for, in order.
        self._pending: dict[int, Pending] = {}
        # Bytes of messages that the journal has space for. `request_space` asks the journal for so many bytes and
        # returns how many there are.
        self.free_bytes = UNLIMITED
        self.request_space: Callable[[int], int] = lambda _: UNLIMITED
        # While the disk is full, removals of each queue are collected for one record: a record for each could take
        # more space than there is.
        self.merges_removals = False
        self._removals: dict[int, list[tuple[int, int]]] = {}

    def append_removal(self, queue: int, ranges: Iterable[tuple[int, int]]) -> None:
        """Messages of a queue are consumed. Nothing waits until that is durable."""
        if self.merges_removals:
            self._removals.setdefault(queue, []).extend(ranges)
        else:
            self.append(Remove(queue, tuple(ranges)), None)

    def append_merged_removals(self) -> None:
        """Append the removals that were collected while the disk is full."""
        removals, self._removals = self._removals, {}
        for queue, ranges in removals.items():
            self.append(Remove(queue, merged(ranges)), None)

    def reason_no_space(self, size: int, records: int = 1) -> str:
        """Why so many records with so many bytes of messages cannot be appended, or ""."""
        size += records * RECORD_BYTES
        if size > self.free_bytes:
            # The journal has not got the records among the effects yet.
            ahead = sum(journal_bytes(effect.record) for effect in self._effects if isinstance(effect, Append))
            self.free_bytes = self.request_space(size + ahead) - ahead
        return f"the disk has no space for {size} bytes" if size > self.free_bytes else ""

    def append(self, record: Record, waiter: object | None) -> int:
        """`waiter` waits until the record is durable; None: it is synced with the next record that has one."""
        self.lsn += 1
        self._effects.append(Append(record, self.lsn, waiter))
        if waiter is not None:
            self._pending[self.lsn] = Pending([], [])
            self.free_bytes -= journal_bytes(record)
        return self.lsn

    def append_single(
        self, put: Put, waiter: object, confirm: Confirm | None, action: Callable[..., None], *arguments: object
    ) -> int:
        """`append`, `confirm_when_durable` and `run_when_durable` of a single message in one call."""
        self.lsn = lsn = self.lsn + 1
        self._effects.append(Append(put, lsn, waiter))
        self.free_bytes -= len(put.payload.data) + RECORD_BYTES
        self._pending[lsn] = Pending([] if confirm is None else [confirm], [(action, arguments)])
        return lsn

    def is_pending(self, lsn: int) -> bool:
        """Whether something waits for this record (0: for none)."""
        return lsn in self._pending

    def run_when_durable(self, lsn: int, action: Callable[..., None], *arguments: object) -> None:
        """Run an action when this record is durable: now, if nothing waits for it."""
        waiting = self._pending.get(lsn)
        if waiting is None:
            action(*arguments)
        else:
            waiting.actions.append((action, arguments))

    def confirm_when_durable(self, lsn: int, confirm: Confirm) -> None:
        """Confirm a send when this record is durable: now, if nothing waits for it."""
        waiting = self._pending.get(lsn)
        (self._effects if waiting is None else waiting.confirms).append(confirm)

    def run_when_all_durable(self, since: int, waiter: object, action: Callable[..., None], *arguments: object) -> None:
        """Run an action when all records after `since`, those of the current command, are durable."""
        if self._removals:
            self.append_merged_removals()
        if self.lsn > since and self.lsn not in self._pending:
            self._add_waiter(waiter)
        self.run_when_durable(self.last_pending, action, *arguments)

    @property
    def last_pending(self) -> int:
        """The newest record that something waits for, or 0."""
        return next(reversed(self._pending), 0)

    def _add_waiter(self, waiter: object) -> None:
        """Let `waiter` wait for the record appended last, which nothing waits for yet."""
        for at, effect in reversed([*enumerate(self._effects)]):
            if isinstance(effect, Append):
                self._effects[at] = effect._replace(waiter=waiter)
                break
        self._pending[self.lsn] = Pending([], [])

    def on_durable(self, lsn: int, run_effects: Callable[[], None]) -> None:
        """Every record up to this number is durable. Confirmations leave before the actions that may take long."""
        assert lsn <= self.lsn, "the journal syncs only records that it was given"
        pending = self._pending
        confirms: list[Confirm] = []
        for at, waiting in pending.items():
            if at > lsn:
                break
            if waiting.confirms:
                confirms += waiting.confirms
                waiting.confirms.clear()
        if confirms:
            self._confirm(confirms)
            run_effects()
        while pending and (first := next(iter(pending))) <= lsn:
            waiting = pending.pop(first)
            for action, arguments in waiting.actions:
                action(*arguments)
            # A client in this process may have sent again as soon as it was told: that send waited for this record too.
            if waiting.confirms:
                self._confirm(waiting.confirms)

    def _confirm(self, confirms: list[Confirm]) -> None:
        self._effects += [confirm for confirm in confirms if not confirm.producer.session.closed]
