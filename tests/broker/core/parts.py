"""What the model of the core is made of: messages, and those who send and take them."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import Any

from mqlab.broker.core.links import Consumer, Producer, Session
from mqlab.broker.core.queue import Queue
from mqlab.wire.bodies import Payload

# Reserved, but not to be seen yet; to be had; with a consumer; acknowledged in a transaction; in a commit under way.
PENDING, VISIBLE, DELIVERED, ACKNOWLEDGED, COMMITTING = "pending", "visible", "delivered", "acknowledged", "committing"


@dataclass(eq=False)
class Entry:
    queue: Queue
    body: bytes
    producer: Producer
    seq: int
    size: int
    persistent: bool
    state: str = PENDING
    # The redelivered mark it must carry; None where both are right.
    mark: bool | None = False


@dataclass(eq=False)
class Step:
    """A send or commit that takes effect when record `lsn` is durable."""

    lsn: int
    appear: list[Entry]
    vanish: list[Entry] = field(default_factory=list)
    answer: tuple[Any, ...] | None = None


@dataclass(eq=False)
class SessionModel:
    session: Session
    open: bool = True
    sends: list[tuple[Producer, list[bytes], Payload, bool]] = field(default_factory=list)
    acknowledged: list[Entry] = field(default_factory=list)
    last_commit: int = 0


@dataclass(eq=False)
class ConsumerModel:
    consumer: Consumer
    credit: int
    paused: bool = False
    next_delivery: int = 1
    # (delivery id, entry) of what it has and did not acknowledge.
    has: deque[tuple[int, Entry]] = field(default_factory=deque)


@dataclass(eq=False)
class ProducerModel:
    producer: Producer
    credit: int = 0
    next_seq: int = 1
    last_lsn: int = 0
    # Since it was held back, the whole broker was full at some moment.
    saw_full_broker: bool = False


def shares(payload: Payload) -> list[int]:
    """The bytes that each message counts for; together exactly those of the payload."""
    whole, rows = len(payload.data), payload.rows
    return [whole * (row + 1) // rows - whole * row // rows for row in range(rows)]
