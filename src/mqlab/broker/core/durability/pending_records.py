"""What the core asks the journal to write, and what is to happen once that is durable."""

from collections.abc import Callable, Iterable
from typing import Any, Final, NamedTuple

from mqlab.broker.core.durability.records import Commit, Prepare, Put, Record, Remove
from mqlab.broker.core.effects import Append, Confirm, Effect

# What stands around a message in the journal, and each queue that it goes to: about.
RECORD: Final = 64
_TARGET: Final = 12
UNLIMITED: Final = 1 << 62


def journal_bytes(record: Record) -> int:
    """Bytes that the messages of a record take in the journal, about."""
    if isinstance(record, Put):
        return len(record.payload.data) + RECORD + _TARGET * len(record.targets)
    return sum(map(journal_bytes, record.puts)) if isinstance(record, Commit | Prepare) else 0


def merged(ranges: Iterable[tuple[int, int]]) -> tuple[tuple[int, int], ...]:
    """The same ids (first, rows), with neighbours in one range."""
    found: list[tuple[int, int]] = []
    for first, rows in sorted(ranges):
        if found and sum(found[-1]) == first:
            found[-1] = (found[-1][0], found[-1][1] + rows)
        else:
            found.append((first, rows))
    return tuple(found)


class Pending(NamedTuple):
    """What a record holds up: whom to tell that it is durable, and what is to be done then, in order."""

    confirms: list[Confirm]
    actions: list[tuple[Callable[..., None], tuple[Any, ...]]]


class PendingRecords:
    def __init__(self, effects: list[Effect]) -> None:
        self._effects = effects
        # Number of the last record given to the journal.
        self.lsn = 0
        # Records that somebody waits for: in order.
        self._pending: dict[int, Pending] = {}
        # Bytes of messages that the journal has space for, and how it is asked for so many bytes: it says how many
        # there are.
        self.free_bytes = UNLIMITED
        self.request_space: Callable[[int], int] = lambda _: UNLIMITED
        # While the disk is full: consumed messages of each queue wait here, and share a record. One record for each
        # could take more space than there is, and than the messages took.
        self.merges_removals = False
        self._consumed: dict[int, list[tuple[int, int]]] = {}

    def append_removal(self, queue: int, ranges: Iterable[tuple[int, int]]) -> None:
        """These messages of a queue are gone. Nobody waits until that is durable."""
        if self.merges_removals:
            self._consumed.setdefault(queue, []).extend(ranges)
        else:
            self.append(Remove(queue, tuple(ranges)), None)

    def append_merged_removals(self) -> None:
        """What was consumed while the disk is full."""
        consumed, self._consumed = self._consumed, {}
        for queue, ranges in consumed.items():
            self.append(Remove(queue, merged(ranges)), None)

    def reason_no_space(self, size: int, records: int = 1) -> str:
        """Why so many records with so many bytes of messages cannot be appended, or ""."""
        size += records * RECORD
        if size > self.free_bytes:
            # The journal has not heard yet of what is among the effects.
            unheard = sum(journal_bytes(effect.record) for effect in self._effects if isinstance(effect, Append))
            self.free_bytes = self.request_space(size + unheard) - unheard
        return f"the disk has no space for {size} bytes" if size > self.free_bytes else ""

    def append(self, record: Record, waiter: object | None) -> int:
        """`waiter` is who waits for it to be durable; None: nobody, it goes with whatever is synced next."""
        self.lsn += 1
        self._effects.append(Append(record, self.lsn, waiter))
        if waiter is not None:
            self._pending[self.lsn] = Pending([], [])
            self.free_bytes -= journal_bytes(record)
        return self.lsn

    def append_single(
        self, put: Put, waiter: object, told: Confirm | None, action: Callable[..., None], *arguments: Any
    ) -> int:
        """A message alone, all in one go: its record, whom to tell that it is durable, and what is to be done then."""
        self.lsn = lsn = self.lsn + 1
        self._effects.append(Append(put, lsn, waiter))
        self.free_bytes -= len(put.payload.data) + RECORD
        self._pending[lsn] = Pending([] if told is None else [told], [(action, arguments)])
        return lsn

    def is_pending(self, lsn: int) -> bool:
        """The record is not durable yet (0: there is none)."""
        return lsn in self._pending

    def run_when_durable(self, lsn: int, action: Callable[..., None], *arguments: Any) -> None:
        """Do it once this record is durable: at once, if it is already (or was never)."""
        waiting = self._pending.get(lsn)
        if waiting is None:
            action(*arguments)
        else:
            waiting.actions.append((action, arguments))

    def confirm_when_durable(self, lsn: int, confirm: Confirm) -> None:
        """The same for who waits to hear of it."""
        waiting = self._pending.get(lsn)
        (self._effects if waiting is None else waiting.confirms).append(confirm)

    def run_when_all_durable(self, since: int, waiter: object, action: Callable[..., None], *arguments: Any) -> None:
        """Do it once all that this command appended, which is all after record `since`, is durable."""
        if self._consumed:
            self.append_merged_removals()
        if self.lsn > since and self.lsn not in self._pending:
            self._make_awaited(waiter)
        self.run_when_durable(self.last_pending, action, *arguments)

    @property
    def last_pending(self) -> int:
        """The newest record that somebody waits for; 0 if nobody does."""
        return next(reversed(self._pending), 0)

    def _make_awaited(self, waiter: object) -> None:
        """Somebody waits for the record appended last, which nobody was to wait for."""
        for at, effect in reversed([*enumerate(self._effects)]):
            if isinstance(effect, Append):
                self._effects[at] = effect._replace(waiter=waiter)
                break
        self._pending[self.lsn] = Pending([], [])

    def on_durable(self, lsn: int, tell: Callable[[], None]) -> None:
        """Every record up to this number is on disk. `tell` those who wait to hear of it before all that follows."""
        pending = self._pending
        told: list[Confirm] = []
        for at, waiting in pending.items():
            if at > lsn:
                break
            told += waiting.confirms
        if told:
            self._effects += [one for one in told if not one.producer.session.closed]
            tell()
        while pending and (first := next(iter(pending))) <= lsn:
            for action, arguments in pending.pop(first).actions:
                action(*arguments)
