"""The parts of the core's model: messages, producers and consumers."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple

from mqlab.broker.core.durability.records import Prepare
from mqlab.broker.core.model.queue import Queue
from mqlab.broker.core.model.sessions import CoreConsumer, CoreProducer, CoreSession
from mqlab.wire.native.bodies import Payload, encode
from mqlab.wire.native.columns import Value

from .payloads import batch, single

# Where a message is: reserved, but not to be seen yet (for the disk, or for a decision); to be had; not due yet; with
# a consumer; acknowledged in an open transaction; acknowledged for good, as soon as the disk (or somebody) says so.
PENDING, VISIBLE, DELAYED = "pending", "visible", "delayed"
DELIVERED, ACKNOWLEDGED, LEAVING = "delivered", "acknowledged", "leaving"

# What a consumer can choose by, as a selector and as this model understands it.
SELECTORS: dict[str, Callable[[int | None], bool]] = {
    "": lambda _: True,
    "kind = 0": lambda kind: kind == 0,
    "kind > 0": lambda kind: kind is not None and kind > 0,
}


class Wanted(NamedTuple):
    """A message as somebody wants to send it. Times are from then on; 0: no such time."""

    size: int
    kind: int | None = None
    key: str | None = None
    priority: int | None = None
    delay: int = 0
    life: int = 0


@dataclass(eq=False)
class Entry:
    """A message on one queue."""

    queue: Queue
    id: int
    body: bytes
    size: int
    memory: int
    persistent: bool
    about: Wanted
    # None: it was moved here from another queue.
    producer: CoreProducer | None
    payload: Payload | None
    due: int = 0
    expires: int = 0
    state: str = PENDING
    # Deliveries in vain, and how many of them are not sure: nobody knows what happened before a restart.
    delivered: int = 0
    doubtful: int = 0
    # The journal has it, or will have it with what was appended.
    kept: bool = False
    # The command with which it became visible, and that with which it came back.
    since: int = 0
    returned: int = 0
    # The global transaction that sends it, or "": what is decided later does not come before what is sent meanwhile.
    xid: str = ""

    @property
    def priority(self) -> int:
        return 4 if self.about.priority is None else self.about.priority

    @property
    def place(self) -> tuple[int, int]:
        """Among all that are visible on its queue."""
        return -self.priority, self.id


@dataclass(eq=False)
class Step:
    """Takes effect when record `lsn` is durable."""

    lsn: int
    appear: list[Entry]
    vanish: list[Entry] = field(default_factory=list)
    come_back: list[Entry] = field(default_factory=list)
    answer: tuple[object, ...] | None = None


@dataclass(eq=False)
class PreparedModel:
    placed: list[Entry]
    removed: list[Entry]
    said: Prepare | None


class Sent(NamedTuple):
    producer: CoreProducer
    wanted: list[tuple[bytes, Wanted]]
    payload: Payload
    persistent: bool
    at: int


@dataclass(eq=False)
class SessionModel:
    session: CoreSession
    open: bool = True
    sends: list[Sent] = field(default_factory=list)
    acknowledged: list[Entry] = field(default_factory=list)
    last_commit: int = 0


@dataclass(eq=False)
class ConsumerModel:
    consumer: CoreConsumer
    credit: int
    selector: str = ""
    # It receives by correlation id only: those it waits for.
    keyed: bool = False
    waits_for: list[str] = field(default_factory=list)
    paused: bool = False
    next_delivery: int = 1
    # (delivery id, entry) of what it has and did not acknowledge.
    has: deque[tuple[int, Entry]] = field(default_factory=deque)

    def accepts(self, entry: Entry) -> bool:
        return SELECTORS[self.selector](entry.about.kind)


@dataclass(eq=False)
class ProducerModel:
    producer: CoreProducer
    credit: int = 0
    next_seq: int = 1
    last_lsn: int = 0


def payload_of(wanted: list[tuple[bytes, Wanted]], now: int) -> Payload:
    rows = [(body, _values(about, now)) for body, about in wanted]
    if not any(values for _, values in rows):
        return encode([body for body, _ in rows])
    if len(rows) == 1:
        return single(rows[0][0], **rows[0][1])
    return batch(*rows)


def shares(whole: int, rows: int) -> list[int]:
    """What each message of a payload counts for; together exactly the whole."""
    return [whole * (row + 1) // rows - whole * row // rows for row in range(rows)]


def _values(about: Wanted, now: int) -> dict[str, Value]:
    found: dict[str, Value | None] = {
        "kind": about.kind, "correlation_id": about.key, "priority": about.priority,
        "deliver_at": now + about.delay if about.delay else None,
        "expiration": now + about.life if about.life else None,
    }  # fmt: skip
    return {name: value for name, value in found.items() if value is not None}
