"""Reading from a socket pauses as long as there is any reason for it: each reason comes and goes by itself."""

import asyncio
from typing import Final

# The client does not read what it is told, so that answers would pile up.
UNWRITTEN: Final = 1
# Frames that were read are not handled yet.
UNHANDLED: Final = 2
# The client has sent much: the others are read first.
OTHERS_FIRST: Final = 4


class ReadGate:
    __slots__ = ("_reasons", "_transport")

    def __init__(self) -> None:
        self._reasons = 0
        self._transport: asyncio.Transport | None = None

    def guard(self, transport: asyncio.Transport) -> None:
        self._transport = transport

    def shut(self, reason: int) -> None:
        if not self._reasons and self._transport is not None and not self._transport.is_closing():
            self._transport.pause_reading()
        self._reasons |= reason

    def open(self, reason: int) -> None:
        if self._reasons & reason:
            self._reasons &= ~reason
            if not self._reasons and self._transport is not None and not self._transport.is_closing():
                self._transport.resume_reading()

    def yield_once(self) -> None:
        """The socket is read again with the next turn of the loop, unless there is another reason against it."""
        if not self._reasons & OTHERS_FIRST:
            self.shut(OTHERS_FIRST)
            asyncio.get_running_loop().call_soon(self.open, OTHERS_FIRST)
