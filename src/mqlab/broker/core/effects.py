"""What the core wants done. The server carries effects out in their order; nothing in them can fail."""

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from mqlab.broker.core.durability.records import Record
    from mqlab.broker.core.model.messages import Span
    from mqlab.broker.core.model.sessions import Consumer, Producer, Session


class Deliver(NamedTuple):
    """Give a consumer the messages of a span; the first has this delivery id."""

    consumer: "Consumer"
    first_delivery: int
    span: "Span"


# The same in a third of the time: most effects are this one.
deliver: Callable[[tuple["Consumer", int, "Span"]], Deliver] = partial(tuple.__new__, Deliver)


class Confirm(NamedTuple):
    """Tell a producer that everything up to this sequence number is safe."""

    producer: "Producer"
    seq: int


class Credit(NamedTuple):
    """Let a producer send so many bytes more."""

    producer: "Producer"
    size: int


class Opened(NamedTuple):
    """A consumer is there, and so, for good, is the durable subscription it may have made."""

    consumer: "Consumer"


class Finished(NamedTuple):
    """All that a closing producer ever sent is dealt with."""

    producer: "Producer"


class Committed(NamedTuple):
    session: "Session"


class RolledBack(NamedTuple):
    session: "Session"


class Requeued(NamedTuple):
    """What a consumer had is back on its queue, and it has no room any more."""

    consumer: "Consumer"


class BrowseEnded(NamedTuple):
    """A browser has seen all there was."""

    consumer: "Consumer"


class Answer(NamedTuple):
    """A question of a connection has its answer: what it asked for is done, and durable."""

    owner: object
    number: int
    value: dict[str, Any]


class Continue(NamedTuple):
    """Go on with long work in a later turn, when others had theirs."""

    work: Callable[[], None]


class Append(NamedTuple):
    """Write a record to the journal as number `lsn`.

    `waiter` is who waits until it is durable (anything hashable), or None where nobody does.
    """

    record: "Record"
    lsn: int
    waiter: object | None


Effect = (
    Deliver | Confirm | Credit | Opened | Finished | Committed | RolledBack | Requeued | BrowseEnded | Answer | Continue
    | Append
)  # fmt: skip
