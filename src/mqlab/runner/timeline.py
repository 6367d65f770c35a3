"""The time of a run: when its phases begin and end, and what a role counts in them.

`alongside` lets the conductor do something else while the load goes on: faults, and switches of settings.
"""

import asyncio
import time
from collections.abc import Awaitable
from dataclasses import dataclass
from typing import Final, TypeVar

from mqlab.study import Point

Result = TypeVar("Result")
now = time.monotonic_ns

# A moment after the end of every run.
NEVER: Final = 2**62


@dataclass(frozen=True)
class Timeline:
    """When the phases of a run begin and end, in ns of the agents' clock. A fixed workload has no planned end."""

    start: int
    measure: int
    stop: int

    @classmethod
    def of(cls, point: Point, start: int) -> "Timeline":
        if point.messages is not None:
            return cls(start, start, NEVER)
        measure = start + round(point.phases.warmup * 1e9)
        return cls(start, measure, measure + round(point.phases.measure * 1e9))

    @classmethod
    def preload(cls, start: int) -> "Timeline":
        """For work before the measure phase: none of it counts."""
        return cls(start, NEVER, NEVER)

    def counts(self, moment: int) -> bool:
        """Whether the moment is in the measure phase."""
        return self.measure <= moment < self.stop


@dataclass
class RoleCounters:
    """The counters of a role: over the whole run, and (`counted_*`) in the measure phase."""

    sent: int = 0
    received: int = 0
    counted_sent: int = 0
    counted_received: int = 0
    counted_round_trips: int = 0
    # When the last message came; of a role that only sends, when the system had accepted the last one.
    t_last: int = 0
    # Messages of the protocol over the whole run: fewer than `sent` and `received` count, if messages are packed.
    sent_messages: int = 0
    received_messages: int = 0
    # How often a producer waited for confirmations.
    waits: int = 0


async def sleep_until(moment: int) -> None:
    """Sleep most of the time and poll for the rest, since a timer may fire a millisecond late."""
    margin: Final = 2_000_000
    if (left := moment - now()) > margin:
        await asyncio.sleep((left - margin) / 1e9)
    while now() < moment:
        await asyncio.sleep(0)


async def alongside(work: Awaitable[Result], other: Awaitable[None]) -> Result:
    """Do both at once, both to their end; return the result of the work. An error of one of them ends the other."""
    working, accompanying = asyncio.ensure_future(work), asyncio.ensure_future(other)
    try:
        await asyncio.wait((working, accompanying), return_when=asyncio.FIRST_COMPLETED)
        if accompanying.done():
            await accompanying
        result = await working
        await accompanying
        return result
    finally:
        for task in (accompanying, working):
            task.cancel()
        await asyncio.gather(accompanying, working, return_exceptions=True)
