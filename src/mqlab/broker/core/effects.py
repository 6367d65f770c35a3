"""Effects: what the core asks the server to do. The server runs them in their order; none of them can fail."""

from collections.abc import Callable
from typing import Any, NamedTuple, cast

from mqlab.broker.core.durability.records import Record
from mqlab.broker.core.model.messages import Span
from mqlab.broker.core.model.queue_consumer import QueueConsumer
from mqlab.broker.core.model.sessions import CoreConsumer, CoreProducer, CoreSession
from mqlab.json_values import JsonObject


class Deliver(NamedTuple):
    """Send a consumer the messages of a span; the first has this delivery id."""

    consumer: CoreConsumer
    first_delivery: int
    span: Span


# A queue knows its consumers as `QueueConsumer`; each is a `CoreConsumer`.
deliver = cast(Callable[[QueueConsumer, int, Span], Deliver], Deliver)


class Confirm(NamedTuple):
    """Confirm to a producer all messages up to this sequence number."""

    producer: CoreProducer
    seq: int


class Credit(NamedTuple):
    """Grant a producer so many more bytes."""

    producer: CoreProducer
    size: int


class Opened(NamedTuple):
    """Tell a client that its consumer is open and that a durable subscription it created is durable."""

    consumer: CoreConsumer


class Finished(NamedTuple):
    """Tell a client that the broker has handled all sends of a closed producer."""

    producer: CoreProducer


class Committed(NamedTuple):
    session: CoreSession


class RolledBack(NamedTuple):
    session: CoreSession


class Requeued(NamedTuple):
    """Tell a client that its consumer's unacknowledged messages are back on the queue and its credit is 0."""

    consumer: CoreConsumer


class Cancelled(NamedTuple):
    """Tell a client that its consumer has no credit; all deliveries for that credit precede this effect."""

    consumer: CoreConsumer


class BrowseEnded(NamedTuple):
    """Tell a client that its browser has seen all messages."""

    consumer: CoreConsumer


class Answer(NamedTuple):
    """Answer a request of a connection: what it asked for is done and durable."""

    owner: object
    number: int
    value: JsonObject


class Continue(NamedTuple):
    """Run the next slice of long work after other connections were served."""

    work: Callable[[], None]


class Append(NamedTuple):
    """Write a record to the journal as number `lsn`.

    `waiter` (anything hashable) waits until it is durable; None: it may be synced whenever the next one is.
    """

    record: Record
    lsn: int
    waiter: object | None


Effect = (
    Deliver | Confirm | Credit | Opened | Finished | Committed | RolledBack | Requeued | Cancelled | BrowseEnded
    | Answer | Continue | Append
)  # fmt: skip
# Any: an action takes only effects of its own type, and a dict cannot say so.
EffectActions = dict[type, Callable[[Any], None]]
