"""Lines of the log about what clients cause, so few that no client fills the disk with them."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from typing import Any, Final

from mqlab.broker import limits
from mqlab.broker.server.native.refusal_frames import REFUSALS
from mqlab.wire.native.frames import Frame, Kind

log: Final = logging.getLogger("mqlab.broker")

_WORDS: Final = {Kind.OPEN_PRODUCER: "a producer", Kind.OPEN_CONSUMER: "a consumer"}


class LimitedLog:
    """Warnings, at most so many a second; the first line of a later second says how many were left out."""

    def __init__(self) -> None:
        self._second = 0
        self._lines = self._left_out = 0

    def warn(self, message: str, *arguments: object) -> None:
        second = int(time.monotonic())
        if second != self._second:
            if self._left_out:
                log.warning("%d more lines like the last ones were left out", self._left_out)
            self._second, self._lines, self._left_out = second, 0, 0
        if self._lines >= limits.LOG_LINES_A_SECOND:
            self._left_out += 1
            return
        self._lines += 1
        log.warning(message, *arguments)


class RefusalLog(LimitedLog):
    """The ends of connections are counted apart: clients that reconnect again and again hide no refusal."""

    def __init__(self) -> None:
        super().__init__()
        self._ended = LimitedLog()

    def ended(self, message: str) -> None:
        """The broker has ended a connection."""
        self._ended.warn("connection ended: %s", message)

    def refused(self, connection: Any, command: str, error: Exception) -> None:
        """A command of a connection that has logged in."""
        who, number = connection.user.name, connection.number
        self.warn("%s of %s (connection %d) is refused: %s", command, who, number, error)


def logged(refusals: RefusalLog, connection: Any, handler: Callable[[Frame], object]) -> Callable[[Frame], object]:
    """The handler of frames that open something. Their refusal is rare, and an operator wants to know of it."""

    def handle(frame: Frame) -> object:
        try:
            return handler(frame)
        except REFUSALS as error:
            refusals.refused(connection, _WORDS[Kind(frame.kind)], error)
            raise

    return handle
