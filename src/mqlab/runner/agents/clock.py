"""The clock of an agent, compared with that of the conductor: by round trips, of which the shortest says most."""

import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final

_READINGS: Final = 16


@dataclass(frozen=True)
class ClockOffset:
    """The agent's time plus `offset_ns` is the conductor's. The true offset is at most `error_ns` from it."""

    offset_ns: int = 0
    error_ns: int = 0

    def to_conductor(self, moment: int) -> int:
        return moment + self.offset_ns

    def to_agent(self, moment: int) -> int:
        return moment - self.offset_ns

    def joined(self, later: "ClockOffset") -> "ClockOffset":
        """The offset over all the time between two measurements: between them the clocks may have drifted apart."""
        low = min(self.offset_ns - self.error_ns, later.offset_ns - later.error_ns)
        high = max(self.offset_ns + self.error_ns, later.offset_ns + later.error_ns)
        return ClockOffset((low + high) // 2, (high - low + 1) // 2)


async def measure_offset(
    read_clock: Callable[[], Awaitable[int]], now: Callable[[], int] = time.monotonic_ns
) -> ClockOffset:
    """Ask for the agent's time again and again.

    The agent reads its clock between question and answer, so the error is half of a round trip at most, however the
    time of a round trip divides into its two ways. Every round trip has such a bound, and the truth is within all.
    """
    low, high = -(2**62), 2**62
    for _ in range(_READINGS):
        before = now()
        moment = await read_clock()
        after = now()
        low, high = max(low, before - moment), min(high, after - moment)
    return ClockOffset((low + high) // 2, (high - low + 1) // 2 + 1)
