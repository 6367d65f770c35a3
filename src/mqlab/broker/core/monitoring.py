"""Monitoring: figures of a queue or a channel beside its counters, from samples of the messages that pass.

A sample costs far more than a counter, so a setting of the broker decides how many there are.
"""

from dataclasses import dataclass
from functools import lru_cache
from typing import Final, Protocol

import numpy as np

from mqlab.broker.core.context import CoreContext
from mqlab.broker.core.model.messages import Span
from mqlab.json_values import JsonObject

# One sample in so many messages (or batches); 0: none.
EVERY: Final = {"off": 0, "low": 64, "medium": 8, "high": 1}

# Over how many samples the means run.
_SHORT: Final = 8
_LONG: Final = 64
# Samples before the last so many have no visible weight.
_REMEMBERED: Final = 64 * _LONG
# A rate is counted over at least so long.
_WINDOW_US: Final = 1_000_000


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
    """The mean of the last few samples, and of many; None before the first."""

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
        """Add samples as if one after the other."""
        if not values:
            return
        self.looks += len(values)
        values = values[-_REMEMBERED:]
        if self.short is None or self.long is None:
            self.short = self.long = values.pop(0)
        self.short, self.long = _moving_mean(self.short, values, _SHORT), _moving_mean(self.long, values, _LONG)


class Rate:
    """How fast a counter grows in a second: the mean of the last few windows of time."""

    __slots__ = ("_at", "_count", "mean")

    def __init__(self) -> None:
        self._at = self._count = 0
        self.mean = Mean()

    def look(self, count: int, now: int) -> None:
        """`now` in microseconds. Two calls within one window change nothing."""
        passed = now - self._at
        if not self._at:
            self._at, self._count = now, count
        elif passed >= _WINDOW_US:
            self.mean.add((count - self._count) * 1_000_000 / passed)
            self._at, self._count = now, count


class QueueMonitor:
    """Figures of one queue. Times are microseconds of the monotonic clock."""

    __slots__ = (
        "get_rate", "interval", "last_get", "last_put", "next_sample", "next_update_us", "put_rate", "time", "times",
    )  # fmt: skip

    def __init__(self, interval: int) -> None:
        self.interval = interval
        self.last_put = self.last_get = 0
        # The number of the delivery that is sampled next.
        self.next_sample = interval
        # How long messages were on the queue before their delivery: the samples since the last update.
        self.times: list[int] = []
        self.time = Mean()
        self.put_rate = Rate()
        self.get_rate = Rate()
        self.next_update_us = 0

    def update(self, counters: Counters, now: int) -> None:
        """Bring means and rates up to date."""
        self.next_update_us = now + _WINDOW_US
        self.put_rate.look(counters.put, now)
        self.get_rate.look(counters.delivered, now)
        self.time.add_all(self.times)
        self.times.clear()


class MonitoredQueue(Protocol):
    """A queue, as far as monitoring reads it."""

    @property
    def context(self) -> CoreContext: ...

    @property
    def counters(self) -> Counters: ...

    @property
    def monitor(self) -> QueueMonitor | None: ...

    @property
    def oldest(self) -> Span | None: ...


def describe(queue: MonitoredQueue) -> JsonObject | None:
    """The figures of a queue; None without monitoring. Times on the queue in microseconds, others in milliseconds."""
    monitor, now = queue.monitor, queue.context.monotonic_us
    if monitor is None:
        return None
    monitor.update(queue.counters, now)
    oldest = queue.oldest
    return {
        "on_queue_short_us": _rounded(monitor.time.short, 0),
        "on_queue_long_us": _rounded(monitor.time.long, 0),
        "looks": monitor.time.looks,
        "put_rate": _rounded(monitor.put_rate.mean.short, 3),
        "get_rate": _rounded(monitor.get_rate.mean.short, 3),
        "oldest_age_ms": None if oldest is None or not oldest.since else max(0, now - oldest.since) // 1000,
        "last_put_ms": _wall_ms(queue, monitor.last_put),
        "last_get_ms": _wall_ms(queue, monitor.last_get),
    }


def _wall_ms(queue: MonitoredQueue, at: int) -> int | None:
    """A time of the monotonic clock in ms since 1970, by the wall clock as it is now; None for 0."""
    context = queue.context
    return context.now_ms - (context.monotonic_us - at) // 1000 if at else None


def _moving_mean(mean: float, values: list[int], forgets_in: int) -> float:
    """The mean after these values, each of which moves it by the share 1 / `forgets_in` of its distance."""
    weights = _weights(forgets_in)[_REMEMBERED - len(values) :]
    return mean * float(weights[0]) + float(np.dot(weights[1:], np.array(values, dtype=np.float64))) / forgets_in


@lru_cache
def _weights(forgets_in: int) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    """The weight of a value after so many later ones; the newest is the last."""
    return (1 - 1 / forgets_in) ** np.arange(_REMEMBERED, -1, -1, dtype=np.float64)


def _rounded(value: float | None, digits: int) -> float | None:
    return None if value is None else round(value, digits)
