"""How far the wall clock is ahead of the monotonic clock."""

from time import monotonic_ns, time_ns
from typing import Final

# Readings of both clocks. The quickest one counts: the thread may be interrupted between the two clocks.
_CLOCK_READINGS: Final = 5


def wall_ahead_ns() -> int:
    """Nanoseconds by which the wall clock is ahead of the monotonic clock."""
    readings = []
    for _ in range(_CLOCK_READINGS):
        before, wall, after = monotonic_ns(), time_ns(), monotonic_ns()
        readings.append((after - before, wall - (before + after) // 2))
    return min(readings)[1]
