"""Busy wait: the event loop polls for a while before it sleeps.

Where each message waits for the one before, most of the latency is the time to wake up.
"""

import asyncio
from time import monotonic_ns


class BusyWait:
    """Keeps the loop polling until no event has come for the given microseconds."""

    def __init__(self, loop: asyncio.AbstractEventLoop, microseconds: int) -> None:
        self._loop = loop
        self._duration_ns = microseconds * 1000
        self._until_ns = 0
        self._is_polling = False

    def restart(self) -> None:
        """An event has come: poll for the whole duration from now on."""
        self._until_ns = monotonic_ns() + self._duration_ns
        if not self._is_polling:
            self._is_polling = True
            self._loop.call_soon(self._poll)

    def _poll(self) -> None:
        self._is_polling = monotonic_ns() < self._until_ns
        if self._is_polling:
            self._loop.call_soon(self._poll)
