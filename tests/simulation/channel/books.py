"""What was sent at one broker and what came at the other, as the applications saw it, and what must be true of it."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import count
from typing import Literal

from mqlab.client.message import Delivery
from mqlab.wire.native.bodies import decode
from simulation.books import Fault
from simulation.messages import Message, numbers_in


@dataclass(eq=False)
class Line:
    """A producer's messages, one after the other."""

    name: str
    sent: int = 0
    # The last one whose receipt was committed.
    done: int = 0


@dataclass(eq=False)
class Together:
    """A transaction of a producer or a consumer: all of it happens, or nothing."""

    members: list[Sent] = field(default_factory=list)
    # A consumer's, whose commit was never answered: these came again.
    again: set[int] = field(default_factory=set)


@dataclass(eq=False)
class Sent:
    message: Message
    line: Line
    order: int
    # The queue it is for, with its broker: queue:orders@B.
    target: str
    # The lives of both brokers when it was sent; none while the channel to the other one does not know of its last.
    lives: dict[str, int]
    # open: in a transaction; asked: nobody knows whether it is there; never: its transaction was rolled back.
    state: Literal["open", "asked", "confirmed", "never"]
    # The life of the receiving broker in which an application saw it.
    seen: int = 0
    # The receipt, once its commit was asked for, and whether that was answered.
    receipt: Together | None = None
    is_done: bool = False


class Hand:
    """What one connection of a consumer has received, and not committed yet."""

    def __init__(self, target: str, life: int) -> None:
        self.target = target
        # Of the broker it came from, which may be dead since without the consumer's knowledge.
        self.life = life
        self.held: list[Sent] = []
        # By line, the last that came.
        self.last: dict[Line, int] = {}


class Books:
    def __init__(self) -> None:
        self.lives: dict[str, int] = {}
        # By the broker it leads to: with which of its lives a channel was connected last.
        self.joined: dict[str, int] = {}
        self.sent: dict[int, Sent] = {}
        self.works: list[Together] = []
        self.receipts: list[Together] = []
        self.counts: dict[str, int] = {}
        self.numbers = count(1)

    def count(self, what: str, number: int = 1) -> None:
        self.counts[what] = self.counts.get(what, 0) + number

    # Sending

    def sends(self, messages: list[Message], line: Line, target: str, *, transacted: bool) -> list[Sent]:
        made, to = [], target.partition("@")[2]
        lives = dict(self.lives) if self.joined.get(to) == self.lives.get(to) else {}
        for message in messages:
            line.sent += 1
            state: Literal["open", "asked"] = "open" if transacted else "asked"
            made.append(Sent(message, line, line.sent, target, lives, state))
            self.sent[message.number] = made[-1]
        self.count("sent", len(made))
        return made

    def confirmed(self, sent: list[Sent]) -> None:
        for one in sent:
            one.state = "confirmed"
        self.count("confirmed", len(sent))

    # Receiving

    def came(self, hand: Hand, delivery: Delivery) -> None:
        bodies = decode(delivery.payload).tolist()
        for number, body in zip(numbers_in(delivery.payload), bodies, strict=True):
            sent = self.sent.get(number)
            if sent is None:
                raise Fault(f"message {number} on {hand.target}: was never sent")
            about = f"message {number} of {sent.line.name} on {hand.target}"
            self._check_sent(sent, hand, about)
            if (body, delivery.persistent) != (sent.message.body, sent.message.persistent):
                raise Fault(f"{about}: is not as it was sent")
            self._check_again(sent, hand, delivery.delivered, about)
            _check_order(sent, hand, about)
            hand.held.append(sent)
            sent.seen = hand.life
        self.count("delivered", len(bodies))
        self.count("redelivered", len(bodies) if delivery.delivered else 0)

    def _check_sent(self, sent: Sent, hand: Hand, about: str) -> None:
        if sent.target != hand.target:
            raise Fault(f"{about}: was sent to {sent.target}")
        if sent.state in ("open", "never"):
            raise Fault(f"{about}: its transaction was not committed")

    def _check_again(self, sent: Sent, hand: Hand, delivered: int, about: str) -> None:
        if sent.is_done:
            raise Fault(f"{about}: comes again after its receipt was committed")
        if sent in hand.held:
            raise Fault(f"{about}: comes twice")
        if sent.seen and not delivered:
            raise Fault(f"{about}: comes again without the mark")
        if sent.seen and not sent.message.persistent and sent.seen != hand.life:
            raise Fault(f"{about}: is not persistent, and outlived its broker")
        if sent.receipt is not None:
            sent.receipt.again.add(sent.message.number)
            sent.receipt = None

    def asks(self, hand: Hand) -> Together:
        """To commit the receipt of all that is in hand."""
        receipt = Together(hand.held)
        for sent in receipt.members:
            sent.receipt = receipt
        self.receipts.append(receipt)
        hand.held = []
        return receipt

    def done(self, receipt: Together) -> None:
        self.receipts.remove(receipt)
        for sent in receipt.members:
            sent.is_done = True
            sent.line.done = max(sent.line.done, sent.order)
        self.count("received", len(receipt.members))


def _check_order(sent: Sent, hand: Hand, about: str) -> None:
    last = max(hand.last.get(sent.line, 0), sent.line.done)
    if sent.order <= last:
        raise Fault(f"{about}: comes after message {last} of the same producer, and is message {sent.order}")
    hand.last[sent.line] = sent.order


def settled(books: Books) -> None:
    """When nobody sends any more, and all queues are empty."""
    for number, sent in books.sent.items():
        gone = sent.is_done or sent.receipt is not None
        must = sent.state == "confirmed" and (sent.message.persistent or sent.lives == books.lives)
        # BrowseEnded, and not taken: it must have come again.
        must = must or (sent.seen > 0 and (sent.message.persistent or sent.seen == books.lives[_broker(sent)]))
        if must and not gone:
            raise Fault(f"message {number} of {sent.line.name} for {sent.target} is lost")
    for work in books.works:
        _all_or_nothing(work, {one.message.number for one in work.members if one.seen}, "sent")
    for receipt in books.receipts:
        _all_or_nothing(receipt, receipt.again, "received")


def _broker(sent: Sent) -> str:
    return sent.target.partition("@")[2]


def _all_or_nothing(work: Together, happened: set[int], what: str) -> None:
    """The others may be lost with a broker's life."""
    members = {one.message.number for one in work.members if one.message.persistent}
    if members & happened and members - happened:
        raise Fault(f"{members} were {what} in one transaction, and {members & happened} without the others")
