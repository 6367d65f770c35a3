"""The loop's time: what would keep other connections waiting is done in slices, and the slices take turns."""

import asyncio
from collections import deque
from collections.abc import Callable
from time import time_ns

from mqlab.broker import limits


class Scheduler:
    """Runs slices of work, one after the other, until the time for this turn of the loop is used up."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._waiting: deque[Callable[[], None]] = deque()
        self._is_due = False
        self._closed = False
        # The longest that a callback of the broker kept the loop, since the start (ns).
        self.longest_turn_ns = 0

    def defer(self, work: Callable[[], None]) -> None:
        """Do it in a later turn of the loop: others are served before. Work that is longer asks again for the rest."""
        self._waiting.append(work)
        if not self._is_due and not self._closed:
            self._is_due = True
            self._loop.call_soon(self._run)

    def close(self) -> None:
        self._closed = True
        self._waiting.clear()

    def record_turn(self, began: int) -> None:
        """A turn that began then (ns since 1970) is over."""
        spent = time_ns() - began
        if spent > self.longest_turn_ns:
            self.longest_turn_ns = spent

    def _run(self) -> None:
        began, waiting = time_ns(), self._waiting
        ends = began + limits.TURN_NS
        try:
            while waiting and not self._closed:
                waiting.popleft()()
                if not began <= time_ns() <= ends:
                    break
        finally:
            self._is_due = bool(waiting) and not self._closed
            if self._is_due:
                self._loop.call_soon(self._run)
            self.record_turn(began)
