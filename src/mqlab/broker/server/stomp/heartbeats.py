"""Heart-beats: something is sent in time, and a client that is silent for too long is gone."""

import asyncio
from collections.abc import Callable
from typing import Final

# Seconds between signs of life to a client that is not listened to: writing is the only way to learn that it is gone.
_UNHEARD: Final = 5.0
# Times the agreed pause after which a silent client is gone: messages are late at times.
_PATIENCE: Final = 2.0


class Heartbeats:
    """Times are seconds, 0: none. `silent` is called once, `send` whenever nothing else was sent in time."""

    def __init__(self, beat: float, expect: float, send: Callable[[], None], silent: Callable[[], None]) -> None:
        self._loop = asyncio.get_running_loop()
        self._send, self._silent = send, silent
        self._pause, self._patience = beat / 2, expect * _PATIENCE
        self._wrote = False
        self._heard = self._loop.time()
        self._reading_paused = False
        self._timers: dict[str, asyncio.TimerHandle] = {}
        if beat:
            self._beat_later()
        if expect:
            self._timers["listen"] = self._loop.call_later(self._patience, self._listen)

    def heard(self) -> None:
        self._heard = self._loop.time()

    def reading_paused(self, paused: bool) -> None:
        """As long as nothing is read nobody can be heard."""
        self._reading_paused = paused
        self._heard = self._loop.time()
        if paused and "beat" not in self._timers:
            self._beat_later()

    def wrote(self) -> None:
        self._wrote = True

    def stop(self) -> None:
        for timer in self._timers.values():
            timer.cancel()
        self._timers.clear()

    def _beat_later(self) -> None:
        self._timers["beat"] = self._loop.call_later(self._pause or _UNHEARD, self._beat)

    def _beat(self) -> None:
        del self._timers["beat"]
        wrote, self._wrote = self._wrote, False
        if self._pause or self._reading_paused:
            self._beat_later()
            if not wrote:
                self._send()

    def _listen(self) -> None:
        now = self._loop.time()
        if self._reading_paused:
            self._heard = now
        left = self._heard + self._patience - now
        if left <= 0:
            self._silent()
        else:
            self._timers["listen"] = self._loop.call_later(left, self._listen)
