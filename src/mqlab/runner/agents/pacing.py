"""Open loop: send times that do not depend on the system, and a rate limit for consumers.

The latency of a message that is sent late counts from its planned time, so a stall of the system is visible.
"""

import asyncio
import time
from typing import Final

# The messages of one tick are sent together; the event loop can keep up with ticks of this length.
_TICK_SECONDS: Final = 1e-3
# How much lateness a limiter makes up for: that of timers and a busy machine, not that of a slow system.
_MAX_CATCH_UP_NS: Final = 100_000_000


class RateLimiter:
    """Limits a consumer to a rate (messages/s) until the moment `until`."""

    def __init__(self, rate: float, until: int) -> None:
        self._interval_ns = 1e9 / rate
        self._until = until
        self._next = 0

    async def after(self, count: int) -> None:
        """Wait as long as `count` messages take at the rate.

        It makes up for late timers, but not for time without messages. It cannot tell these apart, so the amount that
        it makes up for is small and fixed.
        """
        now = time.monotonic_ns()
        self._next = max(self._next or now, now - _MAX_CATCH_UP_NS) + round(count * self._interval_ns)
        while (left := min(self._next, self._until) - time.monotonic_ns()) > 0:
            await asyncio.sleep(left / 1e9)


class SendSchedule:
    """When one producer sends, and how many messages each time, at a rate (messages/s)."""

    def __init__(self, rate: float, max_count: int, start: int, *, whole: bool = False) -> None:
        """At most `max_count` messages at a time; `whole`: always `max_count`, since they are one transaction."""
        self._count = max_count if whole else max(1, min(max_count, round(rate * _TICK_SECONDS)))
        self._interval_ns = self._count / rate * 1e9
        self._start = start
        self._calls = 0

    async def next(self) -> tuple[int, int]:
        """Wait until the next messages are due. Returns their planned time and their number; it skips none."""
        planned = self._start + round(self._calls * self._interval_ns)
        self._calls += 1
        # A loop, since a timer of whole milliseconds may fire early, and no message is sent before its time.
        while (left := planned - time.monotonic_ns()) > 0:
            await asyncio.sleep(left / 1e9)
        return planned, self._count
