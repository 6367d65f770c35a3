"""Open loop: when each message should leave, whatever the system does.

A message that is sent late still counts from its planned time, so a system that stalls cannot hide it.
"""

import asyncio
import time
from typing import Final

# Messages of one tick leave together; a tick is long enough that the loop can keep up with it.
_TICK: Final = 1e-3
# How much lost time a brake makes up for, in ns: what timers and a busy machine cost, not what a system keeps back.
_MADE_UP: Final = 100_000_000


class RateLimiter:
    """Holds a consumer back to a rate, until a moment from which on it may run free."""

    def __init__(self, rate: float, until: int) -> None:
        self._interval = 1e9 / rate
        self._until = until
        self._free = 0

    async def after(self, rows: int) -> None:
        """Waits as long as so many messages take. A timer that ends late is made up for, time without messages is not.

        Only by a fixed, small amount: the two look alike from here.
        """
        now = time.monotonic_ns()
        self._free = max(self._free or now, now - _MADE_UP) + round(rows * self._interval)
        while (left := min(self._free, self._until) - time.monotonic_ns()) > 0:
            await asyncio.sleep(left / 1e9)


class SendSchedule:
    """The plan of one producer: so many messages, at such a moment."""

    def __init__(self, rate: float, most: int, start: int, *, whole: bool = False) -> None:
        """At most so many messages at a time; `whole`: exactly so many, since they are one transaction."""
        self._rows = most if whole else max(1, min(most, round(rate * _TICK)))
        self._interval = self._rows / rate * 1e9
        self._start = start
        self._sent = 0

    async def next(self) -> tuple[int, int]:
        """Waits until the next messages are due. Returns their planned time and number; never skips any."""
        planned = self._start + round(self._sent * self._interval)
        self._sent += 1
        # Again, since a timer of whole milliseconds may end early: nothing leaves before its time.
        while (left := planned - time.monotonic_ns()) > 0:
            await asyncio.sleep(left / 1e9)
        return planned, self._rows
