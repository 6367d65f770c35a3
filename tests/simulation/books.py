"""The books of a simulation: every message from its coming to its end, as far as clients and commands tell of it.

They know nothing of how the broker works inside: a command is noted when it was accepted, a promise when it was given,
and both are held against what is delivered and what is there after a crash.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import count

from mqlab.broker.core.broker import Core
from mqlab.broker.settings import Settings

from .clock import Clock
from .copies import LONG_AGO, ByThen, Copy, Deed, Event, Place, Sending, Work, place_of
from .known_consumers import Taker


class Fault(AssertionError):  # noqa: N818 - of the broker, not of the simulation
    """The broker broke a promise."""


class Books:
    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.places: dict[int, Place] = {}
        # By message; those that are gone stay until that is certain.
        self.copies: dict[int, list[Copy]] = {}
        # Transactions that are prepared, by name; those decided about that are not on disk yet.
        self.prepared: dict[str, Work] = {}
        self._deciding: list[Work] = []
        # Ids by which duplicates are known, by destination, and the deed that made them known.
        self.given: dict[tuple[str, str], Deed] = {}
        # Those of queues that were deleted, which are known no more unless a crash undoes that: not used again.
        self.spoilt: set[tuple[str, str]] = set()
        # The last record that the journal called durable: now, and before the command under way.
        self.durable = self.durable_before = 0
        self.command = 0
        self.event = LONG_AGO
        # What came back with the command under way, because a prepared transaction was rolled back.
        self.back_by_decision: set[Copy] = set()
        # By the wall clock (ms): now, and the latest that it has shown; by the monotonic clock: now.
        self.now = self.latest = 0
        self.steady = 0
        self.counts: dict[str, int] = {}
        # Tell what happens, for whoever looks for a mistake.
        self.verbose = False
        # For messages and transactions.
        self.numbers = count(1)

    def tell(self, what: str) -> None:
        if self.verbose:
            print(f"{self.command:6} {what}")

    def count(self, what: str, number: int = 1) -> None:
        self.counts[what] = self.counts.get(what, 0) + number

    # Commands

    def begin(self, lsn: int, clock: Clock) -> Event:
        self.command += 1
        self.durable_before = self.durable
        self.update_clock(clock)
        self.event = Event(lsn, lsn)
        self.back_by_decision.clear()
        return self.event

    def update_clock(self, clock: Clock) -> None:
        self.now, self.steady = clock.ms, clock.steady_us // 1000
        self.latest = max(self.latest, self.now)

    def look_at(self, core: Core) -> None:
        """Queues are made when they are first named."""
        for queue in core.destinations.all_queues():
            if queue.number not in self.places:
                self.places[queue.number] = place_of(queue, self.event)

    def named(self, name: str) -> Place:
        for place in self.places.values():
            if place.name == name and place.removed is None:
                return place
        raise Fault(f"there is no {name}, and there should be")

    def all(self) -> Iterator[Copy]:
        for copies in self.copies.values():
            yield from copies

    # Sending

    def sent(self, sendings: Iterable[Sending]) -> list[Copy]:
        """By a command of its own."""
        made = self._made(sendings, self.event)
        line = next(iter(sendings)).line
        if any(copy.lasting for copy in made):
            line.last = self.event
        for copy in made:
            copy.shown = line.last
        self.count("sent", len(made))
        return made

    def committed(self, work: Work, last: Deed) -> Deed:
        """Returns what the next commit of the session cannot overtake."""
        work.commit = self.event
        self._placed(work)
        work.lasting = any(copy.lasting for copy in (*work.made, *work.taken) if copy.state != "gone")
        if work.lasting:
            last = work
        elif work.relies_on:
            # It waits for what was sent before, which is among the records that others wait for.
            last = ByThen(self.event)
        for copy in work.made:
            copy.shown = last
        for copy in work.taken:
            if copy.state == "taken":
                copy.go(work)
        self.count("commits")
        return last

    def prepares(self, work: Work, xid: str) -> None:
        work.prepare, work.xid = self.event, xid
        self.prepared[xid] = work
        self._placed(work)
        for copy in work.made:
            copy.state, copy.holder = "waiting", work
        for copy in work.taken:
            if copy.state == "taken":
                copy.state, copy.holder, copy.gone = "leaving", work, work
        self.count("prepares")

    def decides(self, xid: str, *, commit: bool) -> Work:
        work = self.prepared.pop(xid)
        work.decide, work.commits = self.event, commit
        self._deciding.append(work)
        return work

    def _placed(self, work: Work) -> None:
        work.made = self._made(work.puts, work)

    def _made(self, sendings: Iterable[Sending], deed: Deed) -> list[Copy]:
        made = []
        for one in sendings:
            copies = [
                Copy(one.message, place, one.line, one.order, deed, deed, since=self.command)
                for place in self._places_for(one)
            ]
            self.copies.setdefault(one.message.number, []).extend(copies)
            if one.message.duplicate_id and any(copy.lasting for copy in copies):
                self.given[one.destination, one.message.duplicate_id] = deed
            made += copies
        return made

    def _places_for(self, sending: Sending) -> list[Place]:
        if sending.queue is not None:
            # One that was deleted meanwhile takes along what is sent to it.
            return [sending.queue] if sending.queue.removed is None else []
        short = sending.destination.partition(":")[2]
        return [
            place for place in self.places.values()
            if place.terms and place.removed is None and place.terms.wants(short, sending.message)
        ]  # fmt: skip

    # Receiving

    def acknowledged(self, copies: Iterable[Copy]) -> None:
        for copy in copies:
            if copy.state == "held":
                copy.go(self.event)
                self.count("acknowledged")

    def returned(self, copy: Copy, *, marked: bool) -> None:
        """It comes again, or goes to the dead letters."""
        if copy.state == "gone":
            return
        copy.state, copy.holder, copy.gone, copy.since = "line", None, None, self.command
        copy.count += marked
        policy = copy.place.policy
        if 0 < policy.redelivery_limit <= copy.count - copy.doubtful and copy.place.name != policy.dead_letters:
            copy.move(self.named(policy.dead_letters), self.event)
            self.count("dead")

    def dropped(self, work: Work) -> None:
        """An open transaction is rolled back."""
        for copy in work.taken:
            self.returned(copy, marked=True)

    def left(self, taker: Taker, seen: int) -> None:
        """A consumer is gone; `seen` is the last delivery its application saw."""
        place = taker.place
        place.takers.remove(taker)
        place.groups = {group: owner for group, owner in place.groups.items() if owner is not taker}
        for delivery, copy in taker.take_all():
            self.returned(copy, marked=delivery <= seen)
        if place.terms and not place.terms.durable and not place.takers:
            self.removed(place)

    # What administrators do

    def removed(self, place: Place) -> None:
        """A place and all that is there."""
        place.removed = self.event
        for given in [one for one in self.given if one[0] == place.name]:
            del self.given[given]
            self.spoilt.add(given)
        for copy in [*place.copies.values()]:
            late = [one for one in self.places.values() if one.name == place.policy.expired]
            if late and copy.is_late(self.latest):
                # Perhaps it had left for there before.
                copy.may_have_moved(late[0])
            elif not (copy.unsure and len(copy.path) > 1):
                # Else an administrator may have moved it elsewhere before.
                copy.go(self.event)
        if not place.stored:
            del self.places[place.number]

    def sure_and_unsure(self, place: Place, choose: Callable[[Copy], bool]) -> tuple[list[Copy], list[Copy]]:
        """What an administrator's command surely meets there, and what it may meet."""
        chosen = [copy for copy in place.copies.values() if copy.state == "line" and choose(copy)]
        sure = [copy for copy in chosen if self.surely_visible(copy)]
        return sure, [copy for copy in chosen if copy not in sure]

    def surely_visible(self, copy: Copy) -> bool:
        """It has stood in line since before the command under way."""
        if copy.state != "line" or copy.unsure or copy.due or copy.since >= self.command:
            return False
        return not copy.is_late(self.latest) and copy.shown.outcome(self.durable_before) == "yes"

    # The disk

    def all_prepared(self) -> Iterator[tuple[str, Work]]:
        """Also those about which the decision is on its way to disk."""
        yield from self.prepared.items()
        yield from ((work.xid, work) for work in self._deciding)

    def begin_again(self, last: int) -> None:
        """After a crash, with what is there up to this record."""
        self.durable = self.durable_before = last
        self._deciding = []

    def became_durable(self, lsn: int) -> None:
        """Called before the core is told of it."""
        self.durable = lsn
        waiting = []
        for work in self._deciding:
            if work.decide is not None and work.decide.outcome(lsn) == "yes":
                self._decided(work)
            else:
                waiting.append(work)
        self._deciding = waiting

    def _decided(self, work: Work) -> None:
        self.count("decisions")
        assert work.decide is not None
        for copy in work.made:
            if copy.state == "waiting" and work.commits:
                copy.state, copy.holder, copy.shown, copy.since = "line", None, work.decide, self.command
            elif copy.state == "waiting":
                copy.go(work)
        if not work.commits:
            self.given = {key: deed for key, deed in self.given.items() if deed is not work}
        for copy in work.taken:
            if copy.state == "leaving" and work.commits:
                copy.go(work)
            elif copy.state == "leaving":
                self.returned(copy, marked=True)
                self.back_by_decision.add(copy)

    def forget_the_past(self) -> None:
        """What is gone for certain need not be remembered."""
        for number, copies in [*self.copies.items()]:
            left = [copy for copy in copies if not self._is_past(copy)]
            if left:
                self.copies[number] = left
            else:
                del self.copies[number]

    def _is_past(self, copy: Copy) -> bool:
        if copy.state != "gone":
            return False
        gone = copy.gone.outcome(self.durable) if copy.gone is not None else "yes"
        return not copy.lasting or gone == "yes" or copy.put.outcome(self.durable) == "no"
