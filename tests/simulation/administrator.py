"""Somebody who purges, moves, deletes, unsubscribes, looks, and decides about prepared transactions."""

from __future__ import annotations

import random
from collections.abc import Callable

from mqlab.broker.core import admin
from mqlab.broker.core.effects import BrowseEnded, Deliver, Opened
from mqlab.broker.core.errors import CommandError
from mqlab.broker.core.routing.subscriptions import ConsumerOptions

from .books import Books, Fault
from .client import Client, Connection
from .copies import Copy, Event, Place
from .host import SimulatedBroker
from .messages import numbers_in

MOVED = "queue:moved"


class Administrator(Client):
    def __init__(self, chance: random.Random, books: Books) -> None:
        super().__init__("administrator", chance, books)
        self.browsed: list[int] = []
        # Where they are rare, prepared transactions live to see checkpoints.
        self._decisions = chance.choice((0.3, 1.0, 5.0))

    def new_connection(self) -> Connection:
        return Browsing(self)

    def act(self) -> None:
        assert self.broker is not None
        place = self._some_place()
        if place is not None:
            what = (self._purge, self._move, self._delete, self._browse, self._decide)
            self.chance.choices(what, (0.5, 1.0, 0.15, 2.0, self._decisions))[0](self.broker, place)

    def _some_place(self) -> Place | None:
        places = [one for one in self.books.places.values() if one.removed is None and one.stored]
        return self.chance.choice(places) if places else None

    def _purge(self, broker: SimulatedBroker, place: Place) -> None:
        selector, choose = self._selector()
        with broker.command() as event:
            sure, unsure = self.books.sure_and_unsure(place, choose)
            number = admin.purge(broker.core, place.name, selector)
            self._answered(broker, event)
            self._check("purged", number, sure, unsure)
            for copy in sure:
                copy.go(event)
            for copy in unsure:
                copy.unsure = True
        self.books.count("purged", number)

    def _move(self, broker: SimulatedBroker, place: Place) -> None:
        # What expired comes to its queue unnoticed, so nobody could tell what was moved from there.
        if place.terms or place.name in (MOVED, "queue:late"):
            return
        selector, choose = self._selector()
        most = self.chance.choice((None, None, 2))
        with broker.command() as event:
            sure, unsure = self.books.sure_and_unsure(place, choose)
            if most is not None:
                sure, unsure = [], sure + unsure
            try:
                number = admin.move(broker.core, place.name, MOVED, selector, most)
            except CommandError:
                assert broker.files.capacity is not None
                self.books.look_at(broker.core)
                return
            self._answered(broker, event)
            self.books.look_at(broker.core)
            self._check("moved", number, sure, unsure)
            to = self.books.named(MOVED)
            for copy in sure:
                copy.move(to, event)
            for copy in unsure:
                copy.may_have_moved(to)
        self.books.count("moved", number)

    def _answered(self, broker: SimulatedBroker, event: Event) -> None:
        """When all that was just done is durable."""
        if broker.core.records.lsn > event.low:
            broker.core.answer_when_durable(event.low, self.connection.asks())

    def _check(self, what: str, number: int, sure: list[Copy], unsure: list[Copy]) -> None:
        # What may be there without the books' knowledge was moved before, or is about to expire.
        if number < len([copy for copy in sure if not copy.unsure]):
            raise Fault(f"{number} messages were {what}, and there were {len(sure)} to {len(sure) + len(unsure)}")

    def _delete(self, broker: SimulatedBroker, place: Place) -> None:
        with broker.command() as event:
            try:
                admin.delete(broker.core, place.name)
            except CommandError:
                return
            self._answered(broker, event)
            self.books.removed(place)
        self.books.count("deleted")

    def _decide(self, _broker: SimulatedBroker, _place: Place) -> None:
        """Any of them, also those of clients that are gone."""
        if self.books.prepared:
            xid = self.chance.choice([*self.books.prepared])
            self.decide(xid, commit=self.chance.random() < 0.5)

    def _selector(self) -> tuple[str, Callable[[Copy], bool]]:
        """As the broker reads it, and as the books do."""
        if self.chance.random() < 0.5:
            return "", lambda _: True
        return "colour = 'blue'", lambda copy: copy.message.colour == "blue"

    def _browse(self, broker: SimulatedBroker, place: Place) -> None:
        """It sees all that is there, in order, and changes nothing."""
        if place.terms:
            return
        self.browsed = []
        with broker.command():
            link = broker.core.open_consumer(self.session, 1, place.name, 10_000, ConsumerOptions(browse=True))
        broker.core.close_consumer(link, 0)
        there = {copy.message.number for copy in place.copies.values() if self.books.surely_visible(copy)}
        if missing := there - set(self.browsed):
            raise Fault(f"a browser of {place.name} does not see {missing}")
        if len(set(self.browsed)) < len(self.browsed):
            raise Fault(f"a browser of {place.name} sees a message twice")
        gone = [number for number in self.browsed if number not in self.books.copies]
        if gone:
            raise Fault(f"a browser of {place.name} sees {gone}, which are gone")


class Browsing(Connection):
    """All that is delivered to it is shown, and stays where it is."""

    client: Administrator

    def opened(self, effect: Opened) -> None: ...

    def deliver(self, effect: Deliver) -> None:
        self.client.browsed += numbers_in(effect.span.encoded())

    def seen(self, effect: BrowseEnded) -> None: ...
