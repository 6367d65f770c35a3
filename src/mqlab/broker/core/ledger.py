"""What the core asks the journal to write, and what is to happen once that is durable."""

from collections.abc import Callable
from typing import Any, NamedTuple

from mqlab.broker.core.effects import Append, Confirm, Effect
from mqlab.broker.core.records import Put, Record


class Pending(NamedTuple):
    """What a record holds up: whom to tell that it is durable, and what is to be done then, in order."""

    confirms: list[Confirm]
    actions: list[tuple[Callable[..., None], tuple[Any, ...]]]


class Ledger:
    def __init__(self, effects: list[Effect]) -> None:
        self._effects = effects
        # Number of the last record given to the journal.
        self.lsn = 0
        # Records that somebody waits for: in order.
        self._pending: dict[int, Pending] = {}

    def append(self, record: Record, waiter: object | None) -> int:
        """`waiter` is who waits for it to be durable; None: nobody, it goes with whatever is synced next."""
        self.lsn += 1
        self._effects.append(Append(record, self.lsn, waiter))
        if waiter is not None:
            self._pending[self.lsn] = Pending([], [])
        return self.lsn

    def keep(self, put: Put, waiter: object, told: Confirm | None, action: Callable[..., None], *arguments: Any) -> int:
        """A message alone, all in one go: its record, whom to tell that it is durable, and what is to be done then."""
        self.lsn = lsn = self.lsn + 1
        self._effects.append(Append(put, lsn, waiter))
        self._pending[lsn] = Pending([] if told is None else [told], [(action, arguments)])
        return lsn

    def is_awaited(self, lsn: int) -> bool:
        """The record is not durable yet (0: there is none)."""
        return lsn in self._pending

    def after(self, lsn: int, action: Callable[..., None], *arguments: Any) -> None:
        """Do it once this record is durable: at once, if it is already (or was never)."""
        waiting = self._pending.get(lsn)
        if waiting is None:
            action(*arguments)
        else:
            waiting.actions.append((action, arguments))

    def confirm_after(self, lsn: int, confirm: Confirm) -> None:
        """The same for who waits to hear of it."""
        waiting = self._pending.get(lsn)
        (self._effects if waiting is None else waiting.confirms).append(confirm)

    def after_all(self, since: int, waiter: object, action: Callable[..., None], *arguments: Any) -> None:
        """Do it once all that this command appended, which is all after record `since`, is durable."""
        if self.lsn > since and self.lsn not in self._pending:
            self._make_awaited(waiter)
        self.after(self.last_awaited, action, *arguments)

    @property
    def last_awaited(self) -> int:
        """The newest record that somebody waits for; 0 if nobody does."""
        return next(reversed(self._pending), 0)

    def _make_awaited(self, waiter: object) -> None:
        """Somebody waits for the record appended last, which nobody was to wait for."""
        for at, effect in reversed([*enumerate(self._effects)]):
            if isinstance(effect, Append):
                self._effects[at] = effect._replace(waiter=waiter)
                break
        self._pending[self.lsn] = Pending([], [])

    def durable(self, lsn: int, tell: Callable[[], None]) -> None:
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
