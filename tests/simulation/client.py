"""A client process: one connection, one session, perhaps a producer and a consumer in it. It acts, hears and dies."""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable
from itertools import count
from typing import TYPE_CHECKING, Literal

from mqlab.broker.core.effects import (
    Answer,
    Committed,
    Confirm,
    Credit,
    Deliver,
    Finished,
    RolledBack,
    Seen,
    TakenBack,
)
from mqlab.broker.core.errors import RefusedError

from .books import Books, Fault
from .checking import delivered, promised
from .copies import LONG_AGO, Deed, Work
from .host import SimulatedBroker
from .messages import numbers_in

if TYPE_CHECKING:
    from .receiver import Receiver
    from .sender import Sender

Mode = Literal["auto", "dups_ok", "client", "individual", "transacted"]
Action = Callable[[], None]


class Client:
    """`owner` to the core. What the broker says waits in `inbox` until the client hears it."""

    def __init__(self, name: str, chance: random.Random, books: Books, mode: Mode = "auto") -> None:
        self.name = name
        self.chance = chance
        self.books = books
        self.mode = mode
        self.sender: Sender | None = None
        self.receiver: Receiver | None = None
        self.broker: SimulatedBroker | None = None
        self.inbox: deque[Action] = deque()
        # It waits for the answer to a commit, rollback or question, and does nothing else.
        self.waits = False
        self.work = Work()
        self.last: Deed = LONG_AGO
        self._doomed = False
        self._asked: dict[int, Deed] = {}
        self._committing: deque[Work] = deque()
        self._numbers = count(1)

    @property
    def transacted(self) -> bool:
        return self.mode == "transacted"

    # Its life

    def connect(self, broker: SimulatedBroker) -> None:
        self.broker = broker
        self.session = broker.core.open_session(self, 1, transacted=self.transacted)

    def die(self) -> None:
        """The connection is gone, and the broker notices."""
        broker = self.broker
        assert broker is not None
        with broker.command():
            broker.core.close_session(self.session)
            broker.core.close_connection(self)
            self.books.look_at(broker.core)
            self.books.dropped(self.work)
            if self.receiver is not None and self.receiver.taker is not None:
                self.books.left(self.receiver.taker, self.receiver.taker.consumer.next_delivery)
        self.forget()

    def forget(self) -> None:
        """It begins anew: whatever it knew was of that connection."""
        self.broker = None
        self.inbox.clear()
        self.work, self.waits, self.last, self._doomed = Work(), False, LONG_AGO, False
        self._asked.clear()
        self._committing.clear()
        for part in (self.sender, self.receiver):
            if part is not None:
                part.forget()

    def hear(self) -> None:
        if self.inbox:
            self.inbox.popleft()()

    def act(self) -> None:
        if self.waits:
            return
        choices: list[tuple[float, Action]] = []
        for part in (self.sender, self.receiver):
            if part is not None:
                choices += part.choices()
        if self.transacted and (self.work.puts or self.work.taken or self._doomed):
            choices += [(3.0, self.commit), (0.7, self.rollback), (1.0, self.prepare)]
        if choices:
            self.chance.choices([what for _, what in choices], [weight for weight, _ in choices])[0]()

    # Transactions

    def commit(self) -> None:
        self._settle()
        if self._doomed:
            self.rollback()
            return
        assert self.broker is not None
        with self.broker.command():
            self.broker.core.commit(self.session)
            self._committing.append(self.work)
            self.last = self.books.committed(self.work, self.last)
        self.work, self.waits = Work(), True

    def rollback(self) -> None:
        self._settle()
        assert self.broker is not None
        with self.broker.command():
            self.broker.core.rollback(self.session)
            self.books.look_at(self.broker.core)
            self.books.dropped(self.work)
            if self.receiver is not None:
                self.receiver.rolled_back()
        self.work, self.waits, self._doomed = Work(), True, False
        self.books.count("rollbacks")

    def prepare(self) -> None:
        self._settle()
        if self._doomed:
            self.rollback()
            return
        assert self.broker is not None
        xid, number = f"xid-{next(self.books.numbers)}", next(self._numbers)
        with self.broker.command():
            self._asked[number] = self.books.event
            self.broker.core.prepare(self.session, xid, Answer(self, number, {}))
            self.books.prepares(self.work, xid)
        self.work, self.waits = Work(), True

    def decide(self, xid: str, *, commit: bool) -> None:
        assert self.broker is not None
        number = next(self._numbers)
        with self.broker.command():
            self._asked[number] = self.books.event
            self.broker.core.decide(xid, Answer(self, number, {}), commit=commit)
            self.books.decides(xid, commit=commit)

    def doom(self) -> None:
        """Something in the transaction was refused."""
        self._doomed = self.transacted

    def _settle(self) -> None:
        """As the client library does: all that the application was given is acknowledged within the transaction."""
        if self.receiver is not None:
            self.receiver.tell()

    # What the broker says

    def deliver(self, effect: Deliver) -> None:
        consumer, first, span = effect
        numbers = numbers_in(span.encoded())
        receiver = self.receiver
        if receiver is None or receiver.taker is None or receiver.taker.consumer is not consumer:
            raise Fault(f"{self.name}: a delivery to a consumer that is closed")
        delivered(self.books, receiver.taker, first, numbers, span.delivered)
        self.inbox.append(lambda: receiver.came(consumer, first, numbers))

    def confirm(self, effect: Confirm) -> None:
        if self.sender is not None:
            self.sender.confirmed(effect.producer, effect.seq)

    def credit(self, effect: Credit) -> None:
        sender = self.sender
        if sender is not None:
            self.inbox.append(lambda: sender.may_send(effect.producer, effect.size))

    def finished(self, effect: Finished) -> None:
        if self.sender is not None:
            self.sender.finished(effect.producer)

    def committed(self, _effect: Committed) -> None:
        work = self._committing.popleft()
        if any(copy.lasting for copy in (*work.made, *work.taken)):
            promised(self.books, work, f"{self.name}: a commit")
        self.inbox.append(self._go_on)

    def rolled_back(self, _effect: RolledBack) -> None:
        self.inbox.append(self._go_on)

    def taken_back(self, _effect: TakenBack) -> None:
        self.inbox.append(self._go_on)

    def seen(self, _effect: Seen) -> None:
        raise AssertionError("no browser is opened here")

    def answer(self, effect: Answer) -> None:
        promised(self.books, self._asked.pop(effect.number), f"{self.name}: an answer")
        self.inbox.append(self._go_on)

    def _go_on(self) -> None:
        self.waits = False
        if self.receiver is not None:
            self.receiver.go_on()


__all__ = ["Client", "Mode", "RefusedError"]
