"""Monitoring: what is seen of a queue or a channel beside its counters, by looking at some of what passes.

A look costs something, a counter next to nothing: how many looks there are is a setting of the broker.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from mqlab.broker.core.messages import Span
    from mqlab.broker.core.queue import Queue

# One look in so many messages (or batches); 0: none.
EVERY: Final = {"off": 0, "low": 64, "medium": 8, "high": 1}

# How many looks a mean forgets in.
_SHORT: Final = 8
_LONG: Final = 64
# A rate is counted over at least so long (microseconds).
_WINDOW: Final = 1_000_000


@dataclass(slots=True)
class Counters:
    """Messages since the start."""

    put: int = 0
    delivered: int = 0
    acknowledged: int = 0
    redelivered: int = 0
    expired: int = 0
    dead: int = 0
    dropped: int = 0
    saved: int = 0


class Mean:
    """A figure as of the last looks, and as of many of them; None before the first."""

    __slots__ = ("long", "looks", "short")

    def __init__(self) -> None:
        self.looks = 0
        self.short: float | None = None
        self.long: float | None = None

    def add(self, value: float) -> None:
        self.looks += 1
        if self.short is None or self.long is None:
            self.short = self.long = value
        else:
            self.short += (value - self.short) / _SHORT
            self.long += (value - self.long) / _LONG


class Rate:
    """How fast a counter grows, a second: the mean of the last few windows of time."""

    __slots__ = ("_at", "_count", "mean")

    def __init__(self) -> None:
        self._at = self._count = 0
        self.mean = Mean()

    def look(self, count: int, now: int) -> None:
        """`now` in microseconds. Between two looks that are close together nothing is concluded."""
        passed = now - self._at
        if not self._at:
            self._at, self._count = now, count
        elif passed >= _WINDOW:
            self.mean.add((count - self._count) * 1_000_000 / passed)
            self._at, self._count = now, count


class Watch:
    """What is known of one queue. Times are microseconds since 1970."""

    __slots__ = ("every", "get_rate", "gets_left", "last_get", "last_put", "put_rate", "puts_left", "time")

    def __init__(self, every: int) -> None:
        self.every = every
        # How many pass until the next look.
        self.puts_left = self.gets_left = every
        self.last_put = self.last_get = 0
        # How long messages were on the queue before they were first delivered, or last.
        self.time = Mean()
        self.put_rate = Rate()
        self.get_rate = Rate()

    def look_at_put(self, queue: Queue) -> None:
        self.puts_left = self.every
        self.put_rate.look(queue.counters.put, queue.desk.now_us)

    def look_at_get(self, queue: Queue, span: Span) -> None:
        self.gets_left = self.every
        now = queue.desk.now_us
        self.time.add(now - span.since)
        self.get_rate.look(queue.counters.delivered, now)


def shown(queue: Queue) -> dict[str, Any] | None:
    """For people and programs; None: nobody looks. Times on the queue in microseconds, others in milliseconds."""
    watch, now = queue.watch, queue.desk.now_us
    if watch is None:
        return None
    watch.put_rate.look(queue.counters.put, now)
    watch.get_rate.look(queue.counters.delivered, now)
    oldest = queue.oldest
    return {
        "on_queue_short_us": _rounded(watch.time.short, 0),
        "on_queue_long_us": _rounded(watch.time.long, 0),
        "looks": watch.time.looks,
        "put_rate": _rounded(watch.put_rate.mean.short, 3),
        "get_rate": _rounded(watch.get_rate.mean.short, 3),
        "oldest_age_ms": None if oldest is None else (now - oldest.since) // 1000,
        "last_put_ms": watch.last_put // 1000 or None,
        "last_get_ms": watch.last_get // 1000 or None,
    }


def _rounded(value: float | None, digits: int) -> float | None:
    return None if value is None else round(value, digits)
