"""State that all queues of a broker share: clocks, effects, memory, and the hooks by which a queue acts on the core."""

from collections.abc import Callable
from dataclasses import dataclass, field

from mqlab.broker.core.model.messages import PayloadOnDisk
from mqlab.wire.native.bodies import Payload

# The named tuples of `core.effects`.
Effects = list[tuple[object, ...]]


def _no_token() -> str:
    raise RuntimeError("the server gives the core its source of random tokens")


@dataclass(slots=True)
class CoreContext:
    """Disk, time and randomness come from the server."""

    # Effects (`core.effects`) that the server has not run yet.
    effects: Effects = field(default_factory=list)
    # The wall clock (ms since 1970) decides what is due and what has expired; it may be set forward or back.
    now_ms: int = 0
    # The monotonic clock measures how long something takes.
    monotonic_us: int = 0
    # Monitoring looks at one of so many messages of a queue; 0: at none.
    sampling_interval: int = 0
    # Bytes in memory of all messages that are not acknowledged, and of what connections have opened.
    memory: int = 0
    # Bytes that the process takes beside these, and those that producers have credit for, beyond what is allowed.
    uncounted: int = 0
    # Takes a payload out of memory; None if that is not possible now.
    page_out: Callable[[Payload], PayloadOnDisk | None] = lambda _: None
    # A text that cannot be guessed, unlike all before, for the name of a temporary queue.
    new_token: Callable[[], str] = _no_token
    # (queue, span): the span's messages have expired and are in no list any more.
    on_expired: Callable[..., None] = lambda *_: None
    # (time in ms, queue): the queue must be woken then.
    wake_at: Callable[..., None] = lambda *_: None
    # (queue): deliver messages to consumers with credit, in turn or by what they select.
    dispatch_round_robin: Callable[..., None] = lambda _: None
    dispatch_selective: Callable[..., None] = lambda _: None
    # (queue, span): a message arrived and was not delivered at once.
    save_beyond_extent: Callable[..., None] = lambda *_: None
