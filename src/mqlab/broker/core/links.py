"""Who talks to the core: sessions, and the producers and consumers in them."""

from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mqlab.broker.core.messages import Span
    from mqlab.broker.core.queue import Queue, Topic


@dataclass(eq=False, slots=True)
class Session:
    """The scope of a transaction. `owner` is the server's own handle; the core only passes it on."""

    owner: object
    number: int
    transacted: bool
    producers: "list[Producer]" = field(default_factory=list)
    consumers: "list[Consumer]" = field(default_factory=list)
    # Of the transaction under way: what was sent, and what was acknowledged.
    sends: "list[tuple[Producer, Span]]" = field(default_factory=list)
    acknowledged: "list[tuple[Consumer, Span]]" = field(default_factory=list)
    size: int = 0
    # Why the transaction cannot be committed: something of it was refused.
    doomed: str = ""
    # The record of its last commit: a later commit may not overtake it.
    last_lsn: int = 0
    closed: bool = False


@dataclass(eq=False, slots=True)
class Producer:
    session: Session
    link: int
    destination: "Queue | Topic"
    # Bytes it has sent since its credit was last renewed.
    spent: int = 0
    # The record of its last persistent send: later sends, persistent or not, may not overtake it.
    last_lsn: int = 0
    closed: bool = False


@dataclass(eq=False, slots=True)
class Consumer:
    session: Session
    link: int
    queue: "Queue"
    # Messages it has room for.
    credit: int
    # The connection cannot take more for now, whatever the credit.
    paused: bool = False
    next_delivery: int = 1
    # Delivered, not acknowledged: (first delivery id, span), oldest first.
    unacknowledged: "deque[tuple[int, Span]]" = field(default_factory=deque)

    @property
    def ready(self) -> bool:
        return self.credit > 0 and not self.paused
