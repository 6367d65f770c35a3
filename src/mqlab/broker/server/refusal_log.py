"""Log lines about events that clients cause, limited in number so that no client can fill the disk."""

import logging
import time
from collections.abc import Callable
from typing import Final

from mqlab.broker import limits
from mqlab.broker.server.access import Client
from mqlab.broker.server.native.refusal_frames import REFUSALS
from mqlab.wire.native.frames import Frame, Kind

log: Final = logging.getLogger("mqlab.broker")

Handler = Callable[[Frame], object]

_OPENED: Final = {Kind.OPEN_PRODUCER: "a producer", Kind.OPEN_CONSUMER: "a consumer"}


class LimitedLog:
    """Writes a limited number of warnings a second, and counts those that it omits."""

    def __init__(self) -> None:
        self._second = 0
        self._lines = self._omitted = 0

    def warn(self, message: str, *arguments: object) -> None:
        second = int(time.monotonic())
        if second != self._second:
            if self._omitted:
                log.warning("%d more lines like the last ones were omitted", self._omitted)
            self._second, self._lines, self._omitted = second, 0, 0
        if self._lines >= limits.LOG_LINES_A_SECOND:
            self._omitted += 1
            return
        self._lines += 1
        log.warning(message, *arguments)


class RefusalLog(LimitedLog):
    """Refusals and ended connections have separate limits: clients that reconnect without end hide no refusal."""

    def __init__(self) -> None:
        super().__init__()
        self._ended = LimitedLog()

    def ended(self, message: str) -> None:
        """Log that the broker has ended a connection."""
        self._ended.warn("connection ended: %s", message)

    def refused(self, connection: Client, command: str, error: Exception) -> None:
        """Log that the broker has refused a command of a connection that has logged in."""
        user, number = connection.user.name, connection.number
        self.warn("%s of %s (connection %d) is refused: %s", command, user, number, error)


def with_refusal_log(refusals: RefusalLog, connection: Client, handler: Handler) -> Handler:
    """Return the handler of a frame that opens a link; an operator wants to know when the broker refuses one."""

    def handle(frame: Frame) -> object:
        try:
            return handler(frame)
        except REFUSALS as error:
            refusals.refused(connection, _OPENED[Kind(frame.kind)], error)
            raise

    return handle
