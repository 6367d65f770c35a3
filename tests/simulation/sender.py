"""Producers: they send on credit, batches or single messages with all sorts of headers, and some of them twice."""

from __future__ import annotations

from dataclasses import dataclass

from mqlab.broker.core.errors import CommandError
from mqlab.broker.core.model.sessions import CoreProducer

from .client import Action, Client
from .copies import ByThen, Copy, Deed, Line, Place, Sending, Work
from .invariants import promised
from .messages import Message, payload_of

COLOURS = ("", "red", "blue")


@dataclass(frozen=True)
class Habits:
    """What its messages are like, as chances."""

    persistent: float = 0.8
    confirmed: float = 0.7
    batch: float = 0.5
    priority: float = 0.0
    expiry: float = 0.0
    delay: float = 0.0
    colour: float = 0.3
    key: float = 0.0
    group: float = 0.0
    duplicate: float = 0.0


class Sender:
    def __init__(self, client: Client, destination: str, habits: Habits) -> None:
        self._client = client
        self._books = client.books
        self._chance = client.chance
        self._destination = destination
        self._habits = habits
        # Sent with an id by which a duplicate is known: may be sent again.
        self._once: list[Message] = []
        self.forget()

    def forget(self) -> None:
        self.link: CoreProducer | None = None
        self._line = Line("")
        self._queue: Place | None = None
        self._credit = 0
        # For each send that is to be confirmed: its number, and the deed that must be durable then.
        self._sent: list[tuple[int, Deed]] = []
        self._closing: Deed | None = None

    def choices(self) -> list[tuple[float, Action]]:
        if self.link is None:
            return [(5.0, self._open)]
        if self._closing is not None:
            return []
        found: list[tuple[float, Action]] = [(0.1, self._close)]
        if self._credit > 0:
            found.append((6.0, self._send))
            if self._once and self._destination.startswith("queue:"):
                found.append((3.0, self._send_again))
        return found

    def go_on(self) -> None:
        """Send, if that can be done now."""
        if self.link is None:
            self._open()
        elif self._credit > 0:
            self._send()

    def _open(self) -> None:
        broker = self._client.broker
        assert broker is not None
        with broker.command():
            self.link = broker.core.open_producer(self._client.session, 1, self._destination)
            self._books.look_at(broker.core)
            is_queue = self._destination.startswith("queue:")
            self._queue = self._books.named(self._destination) if is_queue else None
            self._line = Line(f"{self._client.name}/{self._books.command}")
            self._credit = 0

    def _close(self) -> None:
        """In good order: it hears when all its sends are where they belong."""
        broker, link = self._client.broker, self.link
        assert broker is not None
        assert link is not None
        with broker.command():
            self._closing = self._line.last
            broker.core.finish_producer(link)

    def _send(self) -> None:
        chance, habits = self._chance, self._habits
        persistent = chance.random() < habits.persistent
        rows = chance.randint(2, 4) if chance.random() < habits.batch else 1
        messages = [self._message(persistent) for _ in range(rows)]
        if self._put(messages):
            self._once += [one for one in messages if one.duplicate_id]

    def send(self, persistent: bool) -> None:
        """One message, as part of what somebody else does."""
        if self.link is not None and self._credit > 0:
            self._put([self._message(persistent)])

    def _send_again(self) -> None:
        """As a client that does not know whether the first one arrived."""
        broker = self._client.broker
        assert broker is not None
        message = self._chance.choice(self._once)
        before = self._books.given.get((self._destination, message.duplicate_id))
        if (self._destination, message.duplicate_id) in self._books.spoilt:
            return
        under_way = [one.message for one in self._client.work.puts]
        if before is None and (message in under_way or message.number in self._books.copies):
            # Until its transaction is committed, nobody knows it.
            return
        if isinstance(before, Work) and before.prepare is not None and before.outcome(self._books.durable) != "yes":
            # The first one may be rolled back, and the second is forgotten nevertheless.
            return
        self._books.count("duplicates", before is not None)
        self._put([message], before)

    def _put(self, messages: list[Message], before: Deed | None = None) -> bool:
        """`before`: it was sent already, by this deed."""
        broker, link, line = self._client.broker, self.link, self._line
        assert broker is not None
        assert link is not None
        payload = payload_of(messages)
        self._credit -= len(payload.data)
        confirm = self._chance.random() < self._habits.confirmed
        first = line.sent
        line.sent += len(messages)
        sendings = [
            Sending(message, line, first + row, self._destination, self._queue) for row, message in enumerate(messages)
        ]
        with broker.command() as event:
            try:
                broker.core.send(link, payload, line.sent, persistent=messages[0].persistent, confirm=confirm)
            except CommandError:
                self._refused()
                return False
            deed: Deed = event
            if self._client.transacted and before is not None:
                self._client.work.relies_on.append(before)
            elif self._client.transacted:
                self._client.work.puts += sendings
            elif before is not None:
                deed = before
                # What follows waits for it, too.
                line.last = ByThen(event)
            else:
                made = self._books.sent(sendings)
                deed = self._safe(made, line)
            if confirm and not self._client.transacted:
                self._sent.append((line.sent, deed))
        return True

    def _safe(self, made: list[Copy], line: Line) -> Deed:
        """What a confirmation promises."""
        return self._books.event if any(copy.lasting for copy in made) else line.last

    def _refused(self) -> None:
        self._books.count("refused")
        self._client.doom()
        broker = self._client.broker
        assert broker is not None
        assert self.link is not None
        if getattr(self.link.destination, "closed", False):
            # The queue was deleted: it must be named again.
            broker.core.close_producer(self.link)
            self.forget()

    def _message(self, persistent: bool) -> Message:
        chance, habits, number = self._chance, self._habits, next(self._books.numbers)

        def some(share: float) -> bool:
            return chance.random() < share

        due = self._soon(1500) if some(habits.delay) else 0
        return Message(
            number, persistent, padding=chance.choice((0, 10, 60)),
            priority=chance.choice((0, 4, 9)) if some(habits.priority) else 4,
            expires=self._soon(4000) if some(habits.expiry) else 0,
            due=due, due_steady=due - self._books.now + self._books.steady,
            group=chance.choice("ABC") if some(habits.group) else "",
            colour=chance.choice(COLOURS) if some(habits.colour) else "",
            key=f"key-{chance.randint(1, 20)}" if some(habits.key) else "",
            duplicate_id=f"id-{number}" if persistent and some(habits.duplicate) else "",
        )  # fmt: skip

    def _soon(self, most: int) -> int:
        return self._books.now + self._chance.randint(1, most)

    # What the broker says

    def confirmed(self, link: CoreProducer, seq: int) -> None:
        if link is not self.link:
            return
        for number, deed in self._sent:
            if number <= seq:
                promised(self._books, deed, f"{self._line.name}: a send")
        self._sent = [one for one in self._sent if one[0] > seq]

    def may_send(self, link: CoreProducer, size: int) -> None:
        if link is self.link:
            self._credit += size

    def finished(self, link: CoreProducer) -> None:
        if link is self.link and self._closing is not None:
            promised(self._books, self._closing, f"{self._line.name}: its end")
            self.forget()
