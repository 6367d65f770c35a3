"""What is known of each message: where it may be, since when, and by which deed it came and went.

The journal numbers its records, and what a broker finds after a crash is all records up to one of them. A deed is
told by the numbers between which its record stands, so that for every number it is known whether it happened.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Literal, Protocol

from mqlab.broker.core.model.queue import Queue
from mqlab.broker.policy import Policy

from .messages import Message

if TYPE_CHECKING:
    from .known_consumers import Taker

# None: it cannot be known.
Outcome = Literal["no", "prepared", "yes"] | None
# In line; with a consumer; acknowledged in an open transaction; put or removed by a prepared one; gone.
State = Literal["line", "held", "taken", "waiting", "leaving", "gone"]


class Deed(Protocol):
    def outcome(self, last: int) -> Outcome:
        """What became of it in a journal that ends with record `last`."""


@dataclass(eq=False, repr=False, slots=True)
class Event:
    """A command of the core: what it wrote stands in records after `low`, up to `high`."""

    low: int
    high: int

    def outcome(self, last: int) -> Outcome:
        if self.high <= last:
            return "yes"
        return "no" if last <= self.low else None


# Long ago, and on disk.
LONG_AGO = Event(0, 0)


@dataclass(eq=False, repr=False, slots=True)
class ByThen:
    """It happened at the latest with what a command wrote, perhaps before."""

    event: Event

    def outcome(self, last: int) -> Outcome:
        return "yes" if self.event.high <= last else None


@dataclass(eq=False, repr=False, slots=True)
class Either:
    """Two deeds that come to the same."""

    first: Deed
    second: Deed

    def outcome(self, last: int) -> Outcome:
        outcome = self.second.outcome(last)
        return outcome if outcome in ("yes", None) else self.first.outcome(last)


@dataclass(eq=False, repr=False, slots=True)
class Perhaps:
    """Nobody can tell."""

    def outcome(self, last: int) -> Outcome:  # noqa: ARG002
        return None


@dataclass(eq=False, repr=False, slots=True)
class Work:
    """A transaction: it happens as a whole or not at all."""

    puts: list[Sending] = field(default_factory=list)
    taken: list[Copy] = field(default_factory=list)
    # What it put, once that has places.
    made: list[Copy] = field(default_factory=list)
    # Deeds that its commit promises besides: what it sent had been sent before.
    relies_on: list[Deed] = field(default_factory=list)
    xid: str = ""
    commit: Event | None = None
    prepare: Event | None = None
    decide: Event | None = None
    commits: bool = False
    # Whether the journal has anything of it.
    lasting: bool = False
    # What the first message that could tell told of it.
    told: bool | None = None

    def outcome(self, last: int) -> Outcome:
        if self.prepare is None:
            return "no" if self.commit is None else self.commit.outcome(last)
        prepared = self.prepare.outcome(last)
        if prepared != "yes":
            return prepared
        decided = "no" if self.decide is None else self.decide.outcome(last)
        if decided == "no":
            return "prepared"
        return None if decided is None else "yes" if self.commits else "no"


@dataclass(frozen=True, slots=True)
class Terms:
    """What a subscription is of."""

    topic: str
    colour: str
    durable: bool

    def wants(self, topic: str, message: Message) -> bool:
        return fnmatchcase(topic, self.topic) and self.colour in ("", message.colour)


@dataclass(eq=False, repr=False, slots=True)
class Place:
    """A queue, or a subscription's."""

    number: int
    name: str
    policy: Policy
    stored: bool
    made: Deed
    terms: Terms | None = None
    removed: Event | None = None
    takers: list[Taker] = field(default_factory=list)
    # What is thought to be here, by number.
    copies: dict[int, Copy] = field(default_factory=dict)
    # Which consumer has a group's messages.
    groups: dict[str, Taker] = field(default_factory=dict)

    @property
    def drops(self) -> bool:
        return self.terms is not None and self.policy.when_full == "drop-oldest"


def place_of(queue: Queue, made: Deed) -> Place:
    subscription, terms = queue.subscription, None
    if subscription is not None:
        said = subscription.terms
        # Selectors here ask for a colour, or for nothing.
        terms = Terms(said.topic, said.selector.partition("'")[2].rstrip("'"), subscription.durable)
    return Place(queue.number, queue.full_name, queue.policy, queue.stored, made, terms)


@dataclass(eq=False, repr=False, slots=True)
class Line:
    """A producer as long as it is open: its messages keep their order."""

    name: str
    sent: int = 0
    # Its last persistent send: nothing later overtakes it.
    last: Deed = LONG_AGO


@dataclass(frozen=True, slots=True)
class Sending:
    message: Message
    line: Line
    order: int
    destination: str
    # The queue that it is sent to; None: a topic.
    queue: Place | None


@dataclass(eq=False, repr=False, slots=True)
class Copy:
    """A message on one queue, from its coming to its end, wherever it is moved to meanwhile."""

    message: Message
    place: Place
    line: Line
    order: int
    put: Deed
    # It can be delivered once this is durable.
    shown: Deed
    state: State = "line"
    # Who has it: a consumer, or a transaction.
    holder: object = None
    gone: Deed | None = None
    # Places it was at before, and the deeds that moved it on: the last is that which brought it where it is.
    path: list[tuple[Deed, Place]] = field(default_factory=list)
    home: Place = field(init=False)
    moved: bool = False
    # Deliveries that may have been seen, as the broker must count them; whether one was seen for certain.
    count: int = 0
    # Those of them that nobody knows of, because the broker was started again.
    doubtful: int = 0
    seen: bool = False
    # It may be gone, or elsewhere, and nobody can tell.
    unsure: bool = False
    # The command that brought it to its state.
    since: int = 0

    def __post_init__(self) -> None:
        self.path.append((self.put, self.place))
        self.home = self.place
        self.place.copies[self.message.number] = self
        self.unsure = self.place.drops

    @property
    def lasting(self) -> bool:
        return self.message.persistent and self.place.stored

    @property
    def expires(self) -> int:
        """Where messages were moved to, they do not expire."""
        return 0 if self.moved else self.message.expires

    @property
    def due(self) -> int:
        return self.message.due

    def is_late(self, now: int) -> bool:
        return 0 < self.expires <= now

    def move(self, to: Place, deed: Deed) -> None:
        self.path.append((deed, to))
        self.be_at(to)
        self.shown, self.state, self.holder = deed if self.lasting else LONG_AGO, "line", None
        self.count, self.doubtful, self.seen = 0, 0, False

    def be_at(self, place: Place) -> None:
        self.place.copies.pop(self.message.number, None)
        place.copies[self.message.number] = self
        self.place, self.moved = place, place is not self.home

    def go(self, deed: Deed) -> None:
        self.place.copies.pop(self.message.number, None)
        self.state, self.holder = "gone", None
        # A prepared transaction may be about to remove it as well.
        self.gone = deed if self.gone in (None, deed) else Either(self.gone, deed)

    def may_have_moved(self, to: Place) -> None:
        self.path.append((Perhaps(), to))
        self.unsure = True

    def places(self, last: int) -> list[Place]:
        """Where it may be in a journal that ends with record `last`."""
        found = []
        for deed, place in reversed(self.path):
            outcome = deed.outcome(last)
            if outcome != "no":
                found.append(place)
            if outcome == "yes":
                break
        return found
