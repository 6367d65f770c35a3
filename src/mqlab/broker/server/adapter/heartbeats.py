"""Heart-beats: a protocol that has them finds out that its client, or the broker, is gone."""

import asyncio
from collections.abc import Callable
from typing import Final

# Seconds between heart-beats to a client while reading is paused: only a write can find out that the client is gone.
_PAUSED_INTERVAL_S: Final = 5.0


class Heartbeats:
    """Calls `send` when nothing else was sent in time, and `missed` once if the client is silent.

    `send_s` is the interval that the broker keeps, `timeout_s` the silence after which the client counts as gone; 0:
    neither.
    """

    def __init__(self, send_s: float, timeout_s: float, send: Callable[[], None], missed: Callable[[], None]) -> None:
        self._loop = asyncio.get_running_loop()
        self._send, self._missed = send, missed
        self._interval_s, self._timeout_s = send_s / 2, timeout_s
        self._wrote = False
        self._last_read = self._loop.time()
        self._reading_paused = False
        self._timers: dict[str, asyncio.TimerHandle] = {}
        if send_s:
            self._beat_later()
        if timeout_s:
            self._timers["listen"] = self._loop.call_later(self._timeout_s, self._listen)

    def data_read(self) -> None:
        self._last_read = self._loop.time()

    def reading_paused(self, paused: bool) -> None:
        """While reading is paused the client cannot be late."""
        self._reading_paused = paused
        self._last_read = self._loop.time()
        if paused and "beat" not in self._timers:
            self._beat_later()

    def data_written(self) -> None:
        self._wrote = True

    def stop(self) -> None:
        for timer in self._timers.values():
            timer.cancel()
        self._timers.clear()

    def _beat_later(self) -> None:
        self._timers["beat"] = self._loop.call_later(self._interval_s or _PAUSED_INTERVAL_S, self._beat)

    def _beat(self) -> None:
        del self._timers["beat"]
        wrote, self._wrote = self._wrote, False
        if self._interval_s or self._reading_paused:
            self._beat_later()
            if not wrote:
                self._send()

    def _listen(self) -> None:
        now = self._loop.time()
        if self._reading_paused:
            self._last_read = now
        left = self._last_read + self._timeout_s - now
        if left <= 0:
            self._missed()
        else:
            self._timers["listen"] = self._loop.call_later(left, self._listen)
