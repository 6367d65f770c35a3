"""Who talks to the core: sessions, and the producers and consumers in them."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from mqlab.broker import limits
from mqlab.broker.core.errors import RefusedError
from mqlab.broker.core.model.destination_names import TEMPORARY

if TYPE_CHECKING:
    import numpy as np

    from mqlab.broker.core.accounts import Account
    from mqlab.broker.core.dispatch.browser import Browsing
    from mqlab.broker.core.model.messages import Span
    from mqlab.broker.core.model.queue import Queue
    from mqlab.broker.core.model.span_list import Cursor, SpanList
    from mqlab.broker.core.routing.topics import Topic
    from mqlab.broker.core.selectors import Selector


@dataclass(eq=False, repr=False, slots=True)
class Transaction:
    """What a session did since its last commit or rollback."""

    sends: list[tuple[Producer, Span]] = field(default_factory=list)
    acknowledged: list[tuple[Queue, Span]] = field(default_factory=list)
    size: int = 0
    # Bytes that its connection's account is charged.
    charged: int = 0
    # Why something of it was refused.
    doomed: str = ""

    def add(self, producer: Producer, span: Span) -> None:
        """Raises RefusedError. One that can only be rolled back keeps nothing."""
        self.size += span.size
        why, account = "", producer.session.account
        if self.size > limits.TRANSACTION:
            why = f"a transaction has at most {limits.TRANSACTION} bytes"
        elif len(self.sends) >= limits.TRANSACTION_SENDS:
            why = f"a transaction has at most {limits.TRANSACTION_SENDS} messages or batches of them"
        elif not self.doomed:
            why = account.charge(span.memory, of_channel=producer.of_channel)
        if why:
            self.doom(why, account)
            raise RefusedError(why)
        if not self.doomed:
            self.charged += span.memory
            self.sends.append((producer, span))

    def doom(self, why: str, account: Account) -> None:
        """It can only be rolled back."""
        self.doomed = why
        self.sends = []
        self.settle(account)

    def settle(self, account: Account) -> None:
        """Its sends are no longer held: they are on their queues, or forgotten."""
        account.release(self.charged)
        self.charged = 0

    @property
    def why_not(self) -> str:
        """Why it cannot be committed, or "": something of it was refused, or has nowhere to go any more.

        A reply to somebody who has left is no reason: it goes nowhere, and the request must not come again for it.
        """
        closed = (one.destination.full_name for one, _ in self.sends if one.destination.closed)
        gone = next((name for name in closed if not name.startswith(f"queue:{TEMPORARY}")), None)
        return self.doomed or ("" if gone is None else f"{gone} is gone")


@dataclass(eq=False, repr=False, slots=True)
class Session:
    """The scope of a transaction. `owner` is the connection, the server's own handle; the core only passes it on."""

    owner: object
    number: int
    transacted: bool
    # Of the connection.
    account: Account
    # The name by which a client is known again after it was away, or "".
    client: str = ""
    # The user whose client it is, if the broker has users, or "".
    user: str = ""
    producers: list[Producer] = field(default_factory=list)
    consumers: list[Consumer] = field(default_factory=list)
    transaction: Transaction = field(default_factory=Transaction)
    # The record of its last commit: a later commit may not overtake it.
    last_lsn: int = 0
    closed: bool = False


@dataclass(eq=False, repr=False, slots=True)
class Producer:
    session: Session
    link: int
    destination: Queue | Topic
    # Bytes it may send ahead.
    window: int
    # Of a queue of another broker: its name, for the destination is the queue on which messages for it wait.
    origin: str = ""
    # Bytes it has sent since its credit was last renewed.
    spent: int = 0
    # The record of its last persistent send: later sends, persistent or not, may not overtake it.
    last_lsn: int = 0
    # Since when it is held back, if it is (microseconds of the monotonic clock).
    held_since: int = 0
    closed: bool = False
    # It is the channel of another broker, which may be waiting for room itself (see `flow`).
    of_channel: bool = False

    @property
    def target(self) -> str:
        """The name of where it sends to."""
        return self.origin or self.destination.full_name


@dataclass(eq=False, repr=False, slots=True)
class Consumer:
    session: Session
    link: int
    queue: Queue
    # Messages it has room for.
    credit: int
    # The connection cannot take more for now, whatever the credit.
    paused: bool = False
    selector: Selector | None = None
    exclusive: bool = False
    # Bytes that its connection's account is charged for it.
    charged: int = limits.CONSUMER_BYTES
    # How far a browser has come. None: it is no browser.
    browsing: Browsing | None = None
    next_delivery: int = 1
    # Receives by id that wait for their message.
    receives: int = 0
    # Delivered, not acknowledged: (first delivery id, span), oldest first.
    unacknowledged: deque[tuple[int, Span]] = field(default_factory=deque)
    # It stands in its queue's line of those who have room.
    waiting: bool = False
    # With a selector: how far it has looked in each line, and what it knows of the spans ahead.
    cursors: dict[SpanList, Cursor] = field(default_factory=dict)
    known: dict[Span, np.ndarray[Any, Any]] = field(default_factory=dict)

    @property
    def chooses(self) -> bool:
        """It does not take whatever comes, or lets nobody else take it."""
        return self.selector is not None or self.exclusive

    @property
    def ready(self) -> bool:
        return self.credit > 0 and not self.paused

    @property
    def holds(self) -> int:
        """Messages given to it and not acknowledged."""
        return sum(span.rows for _, span in self.unacknowledged)
