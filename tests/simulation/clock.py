"""Time that passes only when the simulation says so."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from unittest.mock import patch

from mqlab.broker.core.durability import paging
from mqlab.broker.store import group_commit, journal

_BEGIN_MS = 1_000_000_000
# What somebody may set the wall clock by.
STEPS_MS = (-20_000, -2_000, -500, 500, 2_000, 20_000)


class Clock:
    """Stands in for the module `time`, as far as the broker uses it."""

    def __init__(self) -> None:
        self.seconds = 1.0
        # By how much somebody has set the wall clock forward (or back, if negative) in all.
        self.ahead_ms = 0
        # And how much of that was back.
        self.set_back_ms = 0

    def set_by(self, step_ms: int) -> None:
        """Somebody sets the wall clock."""
        self.ahead_ms += step_ms
        self.set_back_ms += max(0, -step_ms)

    def perf_counter(self) -> float:
        return self.seconds

    monotonic = perf_counter

    def monotonic_ns(self) -> int:
        return int(self.seconds * 1_000_000_000)

    def time_ns(self) -> int:
        return self.ms * 1_000_000

    @property
    def steady_us(self) -> int:
        return int(self.seconds * 1_000_000)

    @property
    def ms(self) -> int:
        """As the core counts it, since 1970."""
        return _BEGIN_MS + self.ahead_ms + int(self.seconds * 1000)


@contextmanager
def in_place(clock: Clock) -> Iterator[None]:
    """The store lives by this clock, and few messages are enough for what goes to disk together."""
    with (
        patch.object(journal, "time", clock), patch.object(group_commit, "time", clock),
        patch.object(paging, "_PAGE_BYTES", 600), patch.object(paging, "_MOST_SPANS", 5),
    ):  # fmt: skip
        yield
