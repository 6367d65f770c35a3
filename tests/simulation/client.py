"""A client process: one connection, one session, perhaps a producer and a consumer in it. It acts, hears and dies."""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable
from itertools import count
from typing import TYPE_CHECKING, Literal

from mqlab.broker.core.effects import (
    Answer,
    BrowseEnded,
    Committed,
    Confirm,
    Credit,
    Deliver,
    Finished,
    Opened,
    Requeued,
    RolledBack,
)
from mqlab.broker.core.errors import CommandError

from .books import Books, Fault
from .copies import LONG_AGO, Deed, Work
from .host import SimulatedBroker
from .invariants import delivered, promised
from .messages import numbers_in

if TYPE_CHECKING:
    from .receiver import Receiver
    from .sender import Sender

Mode = Literal["auto", "dups_ok", "client", "individual", "transacted"]
Action = Callable[[], None]


class Client:
    """What the broker says waits in `inbox` until the client hears it."""

    def __init__(self, name: str, chance: random.Random, books: Books, mode: Mode = "auto") -> None:
        self.name = name
        self.chance = chance
        self.books = books
        self.mode = mode
        self.sender: Sender | None = None
        self.receiver: Receiver | None = None
        self.broker: SimulatedBroker | None = None
        self.connection = Connection(self)
        self.inbox: deque[Action] = deque()
        # It waits for the answer to a commit, rollback or question, and does nothing else.
        self.waits = False
        self.work = Work()
        self.last: Deed = LONG_AGO
        self._prepares = chance.choice((0.3, 3.0))
        self._doomed = False

    @property
    def transacted(self) -> bool:
        return self.mode == "transacted"

    # Its life

    def connect(self, broker: SimulatedBroker) -> None:
        self.broker = broker
        self.connection = self.new_connection()
        self.session = broker.core.open_session(self.connection, 1, transacted=self.transacted)

    def new_connection(self) -> Connection:
        return Connection(self)

    def die(self) -> None:
        """The connection is gone, and the broker notices."""
        broker = self.broker
        assert broker is not None
        with broker.command():
            broker.core.close_session(self.session)
            broker.core.close_connection(self.connection)
            self.books.look_at(broker.core)
            self.books.dropped(self.work)
            if self.receiver is not None and self.receiver.taker is not None:
                self.books.left(self.receiver.taker, self.receiver.taker.consumer.next_delivery)
        self.forget()

    def forget(self) -> None:
        """It begins anew: whatever it knew was of that connection."""
        self.broker = None
        self.connection.closed = True
        self.inbox.clear()
        self.work, self.waits, self.last, self._doomed = Work(), False, LONG_AGO, False
        for part in (self.sender, self.receiver):
            if part is not None:
                part.forget()

    def handle_next(self) -> None:
        if self.inbox:
            self.inbox.popleft()()

    def act(self) -> None:
        if self.waits:
            return
        choices: list[tuple[float, Action]] = []
        for part in (self.sender, self.receiver):
            if part is not None:
                choices += part.choices()
        if self.transacted and (self.work.puts or self.work.taken or self.work.relies_on or self._doomed):
            choices += [(3.0, self.commit), (0.7, self.rollback), (self._prepares, self.prepare)]
        if choices:
            self.chance.choices([what for _, what in choices], [weight for weight, _ in choices])[0]()

    # Transactions

    def commit(self) -> None:
        self._settle()
        if self._doomed or self._nowhere:
            self.rollback()
            return
        assert self.broker is not None
        with self.broker.command():
            try:
                self.broker.core.commit(self.session)
            except CommandError:
                self._no_room()
            else:
                self.connection.committing.append(self.work)
                self.last = self.books.committed(self.work, self.last)
                self.work, self.waits = Work(), True

    def rollback(self) -> None:
        self._settle()
        assert self.broker is not None
        if self.receiver is not None:
            self.receiver.drop()
        with self.broker.command():
            self.broker.core.rollback(self.session)
            self.books.look_at(self.broker.core)
            self.books.dropped(self.work)
            if self.receiver is not None:
                self.receiver.taken_back(0)
        self.work, self.waits, self._doomed = Work(), True, False
        self.books.count("rollbacks")

    def prepare(self) -> None:
        self._settle()
        if self._doomed or self._nowhere:
            self.rollback()
            return
        assert self.broker is not None
        xid = f"xid-{next(self.books.numbers)}"
        with self.broker.command():
            answer = self.connection.asks()
            try:
                self.broker.core.prepare(self.session, xid, answer)
            except CommandError:
                self._no_room()
            else:
                self.books.prepares(self.work, xid)
                self.work, self.waits = Work(), True

    def _no_room(self) -> None:
        """The disk has no space for the transaction: it can be rolled back, and the session goes on."""
        assert self.broker is not None
        assert self.broker.files.capacity is not None
        self.books.count("transactions without room")
        self._doomed = True

    def decide(self, xid: str, *, commit: bool) -> None:
        assert self.broker is not None
        with self.broker.command():
            self.broker.core.decide(xid, self.connection.asks(), commit=commit)
            self.books.decides(xid, commit=commit)

    @property
    def _nowhere(self) -> bool:
        """A queue that it has sent to was deleted meanwhile: the broker refuses such a transaction."""
        queues = (put.queue for put in self.work.puts if put.queue is not None)
        return any(queue.removed is not None for queue in queues)

    def doom(self) -> None:
        """Something in the transaction was refused."""
        self._doomed = self.transacted

    def _settle(self) -> None:
        """As the client library does: all that the application was given is acknowledged within the transaction."""
        if self.receiver is not None:
            self.receiver.tell()

    def go_on(self) -> None:
        """What it waited for has come."""
        self.waits = False
        if self.receiver is not None:
            self.receiver.go_on()


class Connection:
    """The core's `owner`: what the broker says is checked here, and waits for the client to hear it."""

    def __init__(self, client: Client) -> None:
        self.client = client
        self.closed = False
        self.committing: deque[Work] = deque()
        self._books = client.books
        self._asked: dict[int, Deed] = {}
        self._numbers = count(1)

    def asks(self) -> Answer:
        """The answer to a question of now: what this command does is durable by then."""
        number = next(self._numbers)
        self._asked[number] = self._books.event
        return Answer(self, number, {})

    def schedule(self, action: Action) -> None:
        if not self.closed:
            self.client.inbox.append(action)

    def deliver(self, effect: Deliver) -> None:
        consumer, first, span = effect
        numbers = numbers_in(span.encoded())
        receiver = self.client.receiver
        if self.closed or receiver is None or receiver.taker is None or receiver.taker.consumer is not consumer:
            raise Fault(f"{self.client.name}: a delivery to a consumer that is closed")
        self._books.tell(f"    {self.client.name} gets {first}: {numbers} ({span.delivered})")
        delivered(self._books, receiver.taker, first, numbers, span.delivered)
        self.schedule(lambda: receiver.came(consumer, first, numbers))

    def confirm(self, effect: Confirm) -> None:
        if self.client.sender is not None:
            self.client.sender.confirmed(effect.producer, effect.seq)

    def credit(self, effect: Credit) -> None:
        sender = self.client.sender
        if sender is not None:
            self.schedule(lambda: sender.may_send(effect.producer, effect.size))

    def opened(self, effect: Opened) -> None:
        if self.client.receiver is not None:
            self.client.receiver.opened(effect.consumer)

    def finished(self, effect: Finished) -> None:
        if self.client.sender is not None:
            self.client.sender.finished(effect.producer)

    def committed(self, _effect: Committed) -> None:
        work = self.committing.popleft()
        if work.lasting:
            promised(self._books, work, f"{self.client.name}: a commit")
        for deed in work.relies_on:
            promised(self._books, deed, f"{self.client.name}: a commit of what was sent before")
        self.schedule(self.client.go_on)

    def rolled_back(self, _effect: RolledBack) -> None:
        self.schedule(self.client.go_on)

    def taken_back(self, _effect: Requeued) -> None:
        self.schedule(self.client.go_on)

    def seen(self, _effect: BrowseEnded) -> None:
        raise AssertionError("no browser is opened here")

    def answer(self, effect: Answer) -> None:
        promised(self._books, self._asked.pop(effect.number), f"{self.client.name}: an answer")
        self.schedule(self.client.go_on)
