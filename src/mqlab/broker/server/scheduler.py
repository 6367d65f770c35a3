"""Shares the time of the event loop: long work runs in slices, and clients that take much time wait for the others."""

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

    def is_contended(self) -> bool:
        """Whether slices wait for their turn."""
        return bool(self._waiting)

    def close(self) -> None:
        self._closed = True
        self._waiting.clear()

    def record_turn(self, began_ns: int) -> int:
        """The turn that began at this time (ns since 1970) is over; return its duration."""
        duration_ns = time_ns() - began_ns
        if duration_ns > self.longest_turn_ns:
            self.longest_turn_ns = duration_ns
        return duration_ns

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


class TimeShare:
    """The time that the event loop spends on one client, less what a client may use without waiting for others.

    While slices wait, the commands of a client with too large a share become a slice too. So a client that asks for
    little is served at once, however many clients ask for much.
    """

    __slots__ = ("_at_ns", "_used_ns")

    def __init__(self) -> None:
        # A new client waits at first: a stream of new connections asks for much.
        self._used_ns = 2 * limits.TURN_NS
        self._at_ns = time_ns()

    def charge(self, began_ns: int, duration_ns: int) -> None:
        """The loop has been busy with the client for so long, since `began_ns` (ns since 1970)."""
        self._forgive(began_ns)
        if duration_ns > 0:
            self._used_ns += duration_ns

    def is_used_up(self, now_ns: int) -> bool:
        self._forgive(now_ns)
        return self._used_ns > limits.TURN_NS

    def _forgive(self, now_ns: int) -> None:
        elapsed_ns, self._at_ns = now_ns - self._at_ns, now_ns
        if elapsed_ns > 0:
            used_ns = self._used_ns - elapsed_ns // limits.TIME_SHARE
            self._used_ns = used_ns if used_ns > 0 else 0
