"""Consumers in every mode of acknowledgement: they take what comes, are done with it sooner or later, or let it go."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

from mqlab.broker.core.dispatch.correlation_index import Key
from mqlab.broker.core.errors import CommandError
from mqlab.broker.core.model.sessions import CoreConsumer
from mqlab.broker.core.routing.subscriptions import ConsumerOptions

from .books import Fault
from .client import Action, Client
from .invariants import promised
from .known_consumers import Taker


@dataclass(frozen=True)
class Source:
    """What it receives from, and how."""

    name: str
    prefetch: int = 5
    colour: str = ""
    exclusive: bool = False
    durable: str = ""
    shared: str = ""
    by_key: bool = False

    @property
    def wish(self) -> ConsumerOptions:
        selector = f"colour = '{self.colour}'" if self.colour else ""
        return ConsumerOptions(selector, self.durable, self.shared, exclusive=self.exclusive)


class Receiver:
    def __init__(self, client: Client, source: Source) -> None:
        self._client = client
        self._books = client.books
        self._chance = client.chance
        self._source = source
        self.forget()

    def forget(self) -> None:
        self.taker: Taker | None = None
        # Came and not given to the application yet: delivery ids.
        self._hand: deque[int] = deque()
        self._given = self._told = 0
        # Given one by one to be acknowledged one by one.
        self._open_ones: list[int] = []
        self._dropping = False

    def choices(self) -> list[tuple[float, Action]]:
        if self.taker is None:
            return [(2.0, self.open)]
        if self._dropping or not self.taker.open:
            return []
        found: list[tuple[float, Action]] = [(0.1, self._close), (0.2, self._pause)]
        if self._hand:
            found.append((8.0, self._take))
        elif self._source.by_key:
            found += [(2.0, self._ask), (0.3, self._cancel)]
        elif not self._source.prefetch and not self.taker.room:
            found.append((3.0, lambda: self._acknowledge(0, 1)))
        if self._client.mode in ("dups_ok", "client") and self._given > self._told:
            found.append((1.5, self.tell))
        if self._open_ones:
            found.append((3.0, self._tell_one))
        if not self._client.transacted and self._given > self._told:
            found.append((0.3, self._recover))
        return found

    # Its link

    def open(self) -> None:
        broker, source = self._client.broker, self._source
        assert broker is not None
        core, room = broker.core, 0 if source.by_key else source.prefetch
        with broker.command():
            try:
                link = core.open_consumer(self._client.session, 2, source.name, room, source.wish)
            except CommandError:
                # Somebody has the durable subscription.
                return
            self._books.look_at(core)
            place = self._books.places[link.queue.number]
            colour = "" if place.terms else source.colour
            keys: list[str] | None = [] if source.by_key else None
            self.taker = Taker(link, place, 0, colour, source.exclusive, keys)
            place.takers.append(self.taker)

    def opened(self, consumer: CoreConsumer) -> None:
        taker = self.taker
        if taker is None or taker.consumer is not consumer:
            raise Fault(f"{self._client.name}: a consumer is open that is closed")
        if self._source.durable:
            promised(self._books, taker.place.made, f"{self._client.name}: a durable subscription")
        taker.open = True
        taker.room = 0 if self._source.by_key else self._source.prefetch

    def _close(self) -> None:
        """In good order: done with what was given in the modes that say so, and the rest goes back."""
        if self._client.mode in ("auto", "dups_ok", "transacted"):
            self.tell()
        broker, taker = self._client.broker, self.taker
        assert broker is not None
        assert taker is not None
        with broker.command():
            broker.core.close_consumer(taker.consumer, self._given)
            self._books.look_at(broker.core)
            self._books.left(taker, self._given)
        self.forget()

    def _pause(self) -> None:
        """The connection is slow, or is no longer."""
        broker, taker = self._client.broker, self.taker
        assert broker is not None
        assert taker is not None
        with broker.command():
            taker.paused = not taker.paused
            if taker.paused:
                broker.core.pause(taker.consumer)
            else:
                broker.core.resume(taker.consumer)

    # Taking

    def came(self, consumer: CoreConsumer, first: int, numbers: list[int]) -> None:
        if self.taker is not None and self.taker.consumer is consumer and not self._dropping:
            self._hand += range(first, first + len(numbers))

    def _take(self) -> None:
        """The application gets the next message; in the automatic modes it is done with those before."""
        if self._client.mode == "auto":
            self.tell()
        assert self.taker is not None
        self._given = self._hand.popleft()
        copy = next(copy for delivery, copy in self.taker.held if delivery == self._given)
        copy.seen = True
        if self._client.mode == "individual":
            self._open_ones.append(self._given)
        sender = self._client.sender
        if sender is not None and self._client.transacted:
            sender.send(copy.message.persistent)

    def take_all(self) -> None:
        """Everything that came, and done with it."""
        while self._hand:
            self._take()
        self.tell()

    def tell(self) -> None:
        """All that was given is done."""
        if self._given > self._told and self.taker is not None:
            self._acknowledge(self._given, self._given - self._told if self._source.prefetch else 0)
            self._told = self._given

    def _acknowledge(self, up_to: int, room: int) -> None:
        broker, taker = self._client.broker, self.taker
        assert broker is not None
        assert taker is not None
        with broker.command():
            broker.core.acknowledge(taker.consumer, up_to, 0 if self._source.by_key else room)
            taker.room += 0 if self._source.by_key else room
            done = [*taker.up_to(up_to)]
            if self._client.transacted:
                for copy in done:
                    copy.state = "taken"
                self._client.work.taken += done
            else:
                self._books.acknowledged(done)

    def _tell_one(self) -> None:
        """In any order."""
        broker, taker = self._client.broker, self.taker
        assert broker is not None
        assert taker is not None
        delivery = self._open_ones.pop(self._chance.randrange(len(self._open_ones)))
        with broker.command():
            broker.core.acknowledge_rows(taker.consumer, delivery, 1)
            self._books.acknowledged([taker.take(delivery)])
        if self._source.prefetch:
            self._acknowledge(0, 1)

    def _ask(self) -> None:
        """For one message, by its key."""
        broker, taker = self._client.broker, self.taker
        assert broker is not None
        assert taker is not None
        assert taker.keys is not None
        if len(taker.keys) < 3:
            key = f"key-{self._chance.randint(1, 20)}"
            with broker.command():
                taker.keys.append(key)
                broker.core.receive(taker.consumer, Key("correlation_id", key))

    def _cancel(self) -> None:
        broker, taker = self._client.broker, self.taker
        assert broker is not None
        assert taker is not None
        with broker.command():
            broker.core.cancel_receives(taker.consumer)
            taker.room = 0
            if taker.keys is not None:
                taker.keys.clear()

    # Letting go

    def _recover(self) -> None:
        """All that is not acknowledged comes again."""
        broker, taker = self._client.broker, self.taker
        assert broker is not None
        assert taker is not None
        seen = self._given
        self.drop()
        self._client.waits = True
        with broker.command():
            broker.core.requeue_all(taker.consumer, seen)
            self._books.look_at(broker.core)
            self.taken_back(seen)
        self._books.count("recovers")

    def drop(self) -> None:
        """What is in hand, and what is on its way, will come again. One that is not open yet has none, and no room."""
        if self.taker is not None and self.taker.open:
            self._dropping = True
            self._hand.clear()
            self._open_ones.clear()
            self._given = self._told = self.taker.consumer.next_delivery - 1

    def taken_back(self, seen: int) -> None:
        """The broker has let it have none of it."""
        if self.taker is not None:
            self.taker.room = 0
            for delivery, copy in self.taker.take_all():
                self._books.returned(copy, marked=delivery <= seen)

    def go_on(self) -> None:
        """The broker has taken all back: there is room again."""
        if self._dropping and self.taker is not None:
            self._dropping = False
            if self._source.prefetch:
                self._acknowledge(0, self._source.prefetch)
