"""Monitoring: what is seen of a queue or a channel beside its counters, by looking at some of what passes.

A look costs something, a counter next to nothing: how many looks there are is a setting of the broker.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

import numpy as np

if TYPE_CHECKING:
    from mqlab.broker.core.model.queue import Queue

# One look in so many messages (or batches); 0: none.
EVERY: Final = {"off": 0, "low": 64, "medium": 8, "high": 1}

# How many looks a mean forgets in.
_SHORT: Final = 8
_LONG: Final = 64
# What came before so many looks has no weight any more that could be seen.
_REMEMBERED: Final = 64 * _LONG
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

    def add_all(self, values: list[int]) -> None:
        """The same as to add them one after the other."""
        if not values:
            return
        self.looks += len(values)
        values = values[-_REMEMBERED:]
        if self.short is None or self.long is None:
            self.short = self.long = values.pop(0)
        self.short, self.long = _followed(self.short, values, _SHORT), _followed(self.long, values, _LONG)


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
    """What is known of one queue. Times are microseconds of the monotonic clock."""

    __slots__ = ("every", "get_rate", "last_get", "last_put", "looks_at", "put_rate", "sums_at", "time", "times")

    def __init__(self, every: int) -> None:
        self.every = every
        self.last_put = self.last_get = 0
        # The number of the message that is looked at next when it is delivered.
        self.looks_at = every
        # How long messages were on the queue before they were first delivered, or last: the looks since the last sum.
        self.times: list[int] = []
        self.time = Mean()
        self.put_rate = Rate()
        self.get_rate = Rate()
        # When all this is summed up next.
        self.sums_at = 0

    def sum_up(self, queue: Queue) -> None:
        now = queue.context.monotonic_us
        self.sums_at = now + _WINDOW
        self.put_rate.look(queue.counters.put, now)
        self.get_rate.look(queue.counters.delivered, now)
        self.time.add_all(self.times)
        self.times.clear()


def describe(queue: Queue) -> dict[str, Any] | None:
    """For people and programs; None: nobody looks. Times on the queue in microseconds, others in milliseconds."""
    watch, now = queue.watch, queue.context.monotonic_us
    if watch is None:
        return None
    watch.sum_up(queue)
    oldest = queue.oldest
    return {
        "on_queue_short_us": _rounded(watch.time.short, 0),
        "on_queue_long_us": _rounded(watch.time.long, 0),
        "looks": watch.time.looks,
        "put_rate": _rounded(watch.put_rate.mean.short, 3),
        "get_rate": _rounded(watch.get_rate.mean.short, 3),
        "oldest_age_ms": None if oldest is None else max(0, now - oldest.since) // 1000,
        "last_put_ms": _wall_ms(queue, watch.last_put),
        "last_get_ms": _wall_ms(queue, watch.last_get),
    }


def _wall_ms(queue: Queue, at: int) -> int | None:
    """When that was, in ms since 1970 as the wall clock counts now; None: it never was."""
    context = queue.context
    return context.now_ms - (context.monotonic_us - at) // 1000 if at else None


def _followed(mean: float, values: list[int], forgets_in: int) -> float:
    """The mean after these values, each of which moves it by that part of its distance."""
    kept = _kept(forgets_in)[_REMEMBERED - len(values) :]
    return mean * float(kept[0]) + float(np.dot(kept[1:], np.array(values, dtype=np.float64))) / forgets_in


@lru_cache
def _kept(forgets_in: int) -> np.ndarray[Any, Any]:
    """What is left of a value after so many others; backwards, so that the last is what is left of the newest."""
    left: np.ndarray[Any, Any] = (1 - 1 / forgets_in) ** np.arange(_REMEMBERED, -1, -1, dtype=np.float64)
    return left


def _rounded(value: float | None, digits: int) -> float | None:
    return None if value is None else round(value, digits)
