"""Time for several processes: whose turn it is, what happens when, and nothing in between."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from heapq import heappop, heappush
from itertools import count
from typing import TYPE_CHECKING

from simulation.clock import Clock

if TYPE_CHECKING:
    from .loop import Loop

Action = Callable[[], object]

# A turn of a process' loop takes up to so long.
_TURN_SECONDS = 0.0001


class Timeline:
    def __init__(self, chance: random.Random) -> None:
        self.chance = chance
        self.clock = Clock()
        self.loops: list[Loop] = []
        # Tell what happens, for whoever looks for a mistake.
        self.verbose = False
        self._events: list[tuple[float, int, Action, asyncio.Handle | None]] = []
        self._tie = count()

    @property
    def now(self) -> float:
        return self.clock.seconds

    def tell(self, what: str) -> None:
        if self.verbose:
            print(f"{self.now:11.6f} {what}")

    def at(self, when: float, action: Action, unless: asyncio.Handle | None = None) -> None:
        """`unless` this is cancelled by then."""
        heappush(self._events, (when, next(self._tie), action, unless))

    def after(self, seconds: float, action: Action) -> None:
        self.at(self.now + seconds, action)

    def some(self, *seconds: float) -> float:
        """One of these, more or less."""
        return self.chance.choice(seconds) * self.chance.uniform(0.5, 1.5)

    def step(self) -> None:
        """Processes take turns in any order; time goes on by itself only when none of them has anything to do."""
        while self._events and self._events[0][0] <= self.now:
            self._next()
        busy = [loop for loop in self.loops if loop.is_busy]
        if busy:
            self.chance.choice(busy).turn()
            self.clock.seconds += self.chance.random() * _TURN_SECONDS
        elif self._events:
            self._next()

    def _next(self) -> None:
        when, _, action, unless = heappop(self._events)
        if unless is None or not unless.cancelled():
            self.clock.seconds = max(self.now, when)
            action()
