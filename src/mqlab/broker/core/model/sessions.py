"""The core's side of sessions, with their transactions, producers and consumers."""

from dataclasses import dataclass, field

from mqlab.broker import limits
from mqlab.broker.core.accounts import Account
from mqlab.broker.core.errors import CommandError
from mqlab.broker.core.model.browser_position import BrowserPosition
from mqlab.broker.core.model.destination_names import TEMPORARY
from mqlab.broker.core.model.messages import Span
from mqlab.broker.core.model.queue import Queue, Topic
from mqlab.broker.core.model.queue_consumer import QueueConsumer


@dataclass(eq=False, repr=False, slots=True)
class Transaction:
    """The sends and acknowledgements of a session since its last commit or rollback."""

    sends: "list[tuple[CoreProducer, Span]]" = field(default_factory=list)
    acknowledged: list[tuple[Queue, Span]] = field(default_factory=list)
    size: int = 0
    # Bytes that its connection's account is charged.
    charged: int = 0
    # Why it can only be rolled back, or "".
    doomed: str = ""

    def add(self, producer: "CoreProducer", span: Span) -> None:
        """Raises CommandError. A transaction that can only be rolled back drops its sends."""
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
            raise CommandError(why)
        if not self.doomed:
            self.charged += span.memory
            self.sends.append((producer, span))

    def doom(self, why: str, account: Account) -> None:
        """From now on it can only be rolled back."""
        self.doomed = why
        self.sends = []
        self.settle(account)

    def settle(self, account: Account) -> None:
        """Release the memory of its sends, which are on their queues or dropped."""
        account.release(self.charged)
        self.charged = 0

    @property
    def why_not(self) -> str:
        """Why it cannot be committed, or "": a send was refused, or a destination was deleted.

        A deleted temporary queue does not count: its requester has left, and must not cause a redelivery of requests.
        """
        closed = (producer.destination.full_name for producer, _ in self.sends if producer.destination.closed)
        gone = next((name for name in closed if not name.startswith(f"queue:{TEMPORARY}")), None)
        return self.doomed or ("" if gone is None else f"{gone} is gone")


@dataclass(eq=False, repr=False, slots=True)
class CoreSession:
    """The scope of a transaction. `owner` is the connection, an object that only the server uses."""

    owner: object
    number: int
    transacted: bool
    # The connection's.
    account: Account
    # The client id, or "".
    client: str = ""
    # The user of the client, or "" in a broker without users.
    user: str = ""
    producers: "list[CoreProducer]" = field(default_factory=list)
    consumers: "list[CoreConsumer]" = field(default_factory=list)
    transaction: Transaction = field(default_factory=Transaction)
    # The record of its last commit: a later commit may not overtake it.
    last_lsn: int = 0
    closed: bool = False


@dataclass(eq=False, repr=False, slots=True)
class CoreProducer:
    session: CoreSession
    link: int
    destination: Queue | Topic
    # Bytes it may send ahead.
    window: int
    # The name of another broker's queue that it sends to; the destination is then a transmission queue. Or "".
    origin: str = ""
    # Bytes it has sent since its credit was last renewed.
    spent: int = 0
    # The record of its last persistent send: later sends, persistent or not, may not overtake it.
    last_lsn: int = 0
    # Since when it is held back, if it is (microseconds of the monotonic clock).
    held_since: int = 0
    closed: bool = False
    # It belongs to a channel of another broker (see `flow`).
    of_channel: bool = False

    @property
    def target(self) -> str:
        """The full name of the destination that the client named."""
        return self.origin or self.destination.full_name


@dataclass(eq=False, repr=False, slots=True, kw_only=True)
class CoreConsumer(QueueConsumer):
    session: CoreSession
    link: int
    queue: Queue
    # Bytes that its connection's account is charged for it.
    charged: int = limits.CONSUMER_BYTES
    # The position of a browser; None for other consumers.
    browser: BrowserPosition | None = None
