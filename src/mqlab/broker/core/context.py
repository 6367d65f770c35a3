"""What all queues of a broker share."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from mqlab.broker.core.effects import Effect
from mqlab.broker.core.model.messages import OnDisk, Span
from mqlab.wire.native.bodies import Payload

if TYPE_CHECKING:
    from mqlab.broker.core.model.queue import Queue


def _no_token() -> str:
    raise RuntimeError("the server gives the core its source of random tokens")


@dataclass(slots=True)
class CoreContext:
    """Disk, time and randomness come from outside."""

    effects: list[Effect] = field(default_factory=list)
    # The wall clock (ms since 1970) decides what is due and what has expired; somebody may set it forward or back.
    now_ms: int = 0
    # The monotonic clock (microseconds since whenever) measures how long something takes.
    monotonic_us: int = 0
    # How many messages pass a queue between two looks of its monitoring; 0: none looks.
    sampling_interval: int = 0
    # Bytes that all messages not yet acknowledged take in memory, with what there is around them.
    memory: int = 0
    # Takes a payload out of memory; None if that is not possible now.
    page_out: Callable[[Payload], OnDisk | None] = lambda _: None
    # Messages have expired; they are off their queue.
    on_expired: Callable[[Queue, Span], None] = lambda *_: None
    # A text that nobody can guess, other than all before, for the name of a temporary queue.
    new_token: Callable[[], str] = _no_token
    # The queue must be looked at again at that time.
    wake_at: Callable[[int, Queue], None] = lambda *_: None
