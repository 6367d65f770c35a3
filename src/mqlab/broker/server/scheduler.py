"""Shares the time of the event loop: long work runs in slices, and slices take turns."""

import asyncio
from collections import deque
from collections.abc import Callable
from time import time_ns

from mqlab.broker import limits


class Scheduler:
    """Runs slices one after the other until the time for this turn of the loop is used up."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._waiting: deque[Callable[[], None]] = deque()
        self._is_due = False
        self._closed = False
        # The longest time that a callback of the broker has held the loop since the start.
        self.longest_turn_ns = 0

    def defer(self, work: Callable[[], None]) -> None:
        """Run a slice in a later turn of the loop. A slice that has not finished the work defers the rest itself."""
        self._waiting.append(work)
        if not self._is_due and not self._closed:
            self._is_due = True
            self._loop.call_soon(self._run)

    def close(self) -> None:
        self._closed = True
        self._waiting.clear()

    def record_turn(self, began_ns: int) -> None:
        """The turn that began at this time (ns since 1970) is over."""
        duration_ns = time_ns() - began_ns
        if duration_ns > self.longest_turn_ns:
            self.longest_turn_ns = duration_ns

    def _run(self) -> None:
        began_ns, waiting = time_ns(), self._waiting
        ends_ns = began_ns + limits.TURN_NS
        try:
            while waiting and not self._closed:
                waiting.popleft()()
                if not began_ns <= time_ns() <= ends_ns:
                    break
        finally:
            self._is_due = bool(waiting) and not self._closed
            if self._is_due:
                self._loop.call_soon(self._run)
            self.record_turn(began_ns)
