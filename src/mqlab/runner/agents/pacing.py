"""The pace of roles: send times that do not depend on the system (open loop), the send-ahead, and a rate limit.

The latency of a message that is sent late counts from its planned time, so a stall of the system is visible.
"""

import asyncio
from typing import Final

from mqlab.drivers import Sender
from mqlab.runner.timeline import now
from mqlab.study import Point
from mqlab.study.language.rates import RateProfile, parse_profile

# The messages of one tick are sent together; the event loop can keep up with ticks of this length.
_TICK_SECONDS: Final = 1e-3
# How much lateness a limiter makes up for: that of timers and a busy machine, not that of a slow system.
_MAX_CATCH_UP_NS: Final = 100_000_000
# Much longer than a round trip, so the system never waits for the producer; much shorter than a measure phase.
AHEAD_SECONDS: Final = 0.1
_AHEAD_NS: Final = round(AHEAD_SECONDS * 1e9)
# The first bound, of all producers together, and the smallest one of each, in messages.
_FIRST, _MIN = 128, 8


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
        moment = now()
        self._next = max(self._next or moment, moment - _MAX_CATCH_UP_NS) + round(count * self._interval_ns)
        while (left := min(self._next, self._until) - now()) > 0:
            await asyncio.sleep(left / 1e9)


class SendSchedule:
    """When one producer sends, and how many messages each time, at a rate (messages/s)."""

    def __init__(self, rate: float, max_count: int, start: int, *, whole: bool = False) -> None:
        """At most `max_count` messages at a time; `whole`: always `max_count`, since they are one transaction."""
        self._count = max_count if whole else max(1, min(max_count, round(rate * _TICK_SECONDS)))
        self._interval_ns = self._count / rate * 1e9
        self._start = start
        self._calls = 0

    def plan_next(self) -> int:
        """The planned time of the next messages. It skips none."""
        planned = self._start + round(self._calls * self._interval_ns)
        self._calls += 1
        return planned

    async def next(self, stop: int) -> tuple[int, int]:
        """Wait until the next messages are due, at most until `stop`. Returns their planned time and their number."""
        planned = self.plan_next()
        # A loop, since a timer of whole milliseconds may fire early, and no message is sent before its time.
        while (left := min(planned, stop) - now()) > 0:
            await asyncio.sleep(left / 1e9)
        return planned, self._count


class ProfileSchedule(SendSchedule):
    """The schedule of one of `producers` equal producers at a rate that changes."""

    def __init__(
        self, profile: RateProfile, producers: float, max_count: int, start: int, *, whole: bool = False
    ) -> None:
        super().__init__(1.0, max_count, start, whole=whole)
        self._profile = profile
        self._producers = producers
        self._max_count = max_count
        self._whole = whole
        self._planned_messages = 0

    def plan_next(self) -> int:
        seconds = self._profile.time_of(self._planned_messages * self._producers)
        if not self._whole:
            rate = self._profile.rate_at(seconds) / self._producers
            self._count = max(1, min(self._max_count, round(rate * _TICK_SECONDS)))
        self._planned_messages += self._count
        return self._start + round(seconds * 1e9)


class ThinkTime(SendSchedule):
    """A role that waits for `think_s` when it could send its next messages; without a rate of its own."""

    def __init__(self, think_s: float, count: int, start: int) -> None:
        super().__init__(1.0, count, start, whole=True)
        self._think_ns = round(think_s * 1e9)

    def plan_next(self) -> int:
        planned = now() + self._think_ns if self._calls else self._start
        self._calls += 1
        return planned


def schedule_of(point: Point, roles: float, max_count: int, start: int, *, whole: bool = False) -> SendSchedule | None:
    """The schedule of a role that has its part of the rate, one of so many equal ones; None if it has no schedule."""
    if point.profile:
        return ProfileSchedule(parse_profile(point.profile), roles, max_count, start, whole=whole)
    if point.think:
        return ThinkTime(point.think, max_count if whole else min(max_count, point.batch), start)
    return None if point.rate is None else SendSchedule(point.rate / roles, max_count, start, whole=whole)


class SendAhead:
    """How far a producer that does not wait for confirmations may be ahead of the system.

    Messages that are on their way when the load ends must still arrive, or the audit would not be exact. Socket buffers
    hold a hundred thousand small messages: a minute of work for a slow system with many consumers. So the bound is a
    time: at most the messages that the system accepts in this time may be sent and not yet accepted. `messages` is the
    bound. It follows the system's rate; each step at most doubles or halves it.
    """

    def __init__(self, max_count: int, producers: int = 1) -> None:
        """For one of `producers` producers, which sends at most `max_count` messages at once."""
        self.messages = max(_MIN, _FIRST // producers)
        self._max_count = max_count
        self._sent = 0
        self._since = now()

    @property
    def next_count(self) -> int:
        """How many messages to send next: half of the bound, so the other half keeps the system busy meanwhile."""
        return max(1, min(self._max_count, self.messages // 2))

    async def after(self, count: int, sender: Sender) -> None:
        """Called after `count` messages were sent: returns when the next may be sent. Raises DriverError."""
        await sender.wait_accepted(self.messages // 2)
        self._sent += count
        if self._sent >= self.messages:
            elapsed_ns, self._since = now() - self._since, now()
            # The system has accepted about as many messages as were sent, since the difference is bounded.
            target = self._sent * _AHEAD_NS // max(1, elapsed_ns)
            self.messages = max(_MIN, self.messages // 2, min(target, 2 * self.messages))
            self._sent = 0
