"""Pauses reading from a socket while any reason to pause holds; reasons begin and end independently."""

import asyncio
from typing import Final

# The client does not read, so that unsent frames would pile up.
CLIENT_NOT_READING: Final = 1
# Frames of an earlier read wait to be handled.
FRAMES_WAITING: Final = 2
# Read fairness: the connection has used up its read budget and yields to the others.
READ_BUDGET_USED: Final = 4


class ReadGate:
    __slots__ = ("_reasons", "_transport")

    def __init__(self) -> None:
        self._reasons = 0
        self._transport: asyncio.Transport | None = None

    def attach(self, transport: asyncio.Transport | None) -> None:
        self._transport = transport

    def pause(self, reason: int) -> None:
        if not self._reasons and self._transport is not None and not self._transport.is_closing():
            self._transport.pause_reading()
        self._reasons |= reason

    def resume(self, reason: int) -> None:
        if self._reasons & reason:
            self._reasons &= ~reason
            if not self._reasons and self._transport is not None and not self._transport.is_closing():
                self._transport.resume_reading()

    def yield_once(self) -> None:
        """Pause until the next turn of the loop."""
        if not self._reasons & READ_BUDGET_USED:
            self.pause(READ_BUDGET_USED)
            asyncio.get_running_loop().call_soon(self.resume, READ_BUDGET_USED)
