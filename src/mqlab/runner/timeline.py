"""When a run's phases are, who writes down what happens in them, and how much of a fixed amount of work is whose."""

import asyncio
import time
from dataclasses import dataclass
from typing import Final, Protocol

from mqlab.study import Point

now = time.monotonic_ns

# A moment that no run sees.
NEVER: Final = 2**62


@dataclass(frozen=True)
class Timeline:
    """When the phases of a run begin and end, in ns of the agents' clock. Fixed work ends when it is done."""

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
    def before(cls, start: int) -> "Timeline":
        """Of what is done before the measure phase, and does not count."""
        return cls(start, NEVER, NEVER)

    def counts(self, moment: int) -> bool:
        return self.measure <= moment < self.stop


@dataclass
class RoleCounters:
    """What a role counts by itself: in all, and (`counted_*`) within the measure phase."""

    sent: int = 0
    received: int = 0
    counted_sent: int = 0
    counted_received: int = 0
    counted_round_trips: int = 0
    # When the last message came or, of those who only send, when the system had taken the last.
    last: int = 0


class Log(Protocol):
    """Where a role writes: a Recorder, or nothing at all."""

    def sent(self, *row: int) -> None: ...
    def sent_freely(self, producer: int, *row: int) -> None: ...
    def accepted(self, producer: int) -> None: ...
    def received(self, *row: int) -> None: ...
    def round_trip(self, *row: int) -> None: ...
    def answered(self, *row: int) -> None: ...


class Nothing:
    """Records nothing: the other side of the comparison that tells what recording costs."""

    def sent(self, *row: int) -> None: ...
    def sent_freely(self, producer: int, *row: int) -> None: ...
    def accepted(self, producer: int) -> None: ...
    def received(self, *row: int) -> None: ...
    def round_trip(self, *row: int) -> None: ...
    def answered(self, *row: int) -> None: ...


def share(total: int | None, number: int, of: int) -> int:
    """How many of `total` messages the role with this number sends; without a total, as many as there is time for."""
    if total is None:
        return NEVER
    return total // of + (number < total % of)


async def until(moment: int) -> None:
    """Sleep most of the way and wait for the rest, since a timer may be a millisecond late."""
    margin: Final = 2_000_000
    if (left := moment - now()) > margin:
        await asyncio.sleep((left - margin) / 1e9)
    while now() < moment:
        await asyncio.sleep(0)
