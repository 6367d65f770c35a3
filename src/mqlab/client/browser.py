"""Browsing: a consumer that reads a queue and removes nothing."""

from mqlab.client.connection import NativeClientConnection
from mqlab.client.consumer import Consumer
from mqlab.client.errors import SeenAllError
from mqlab.wire.native.frames import Frame, Kind


class Browser(Consumer):
    """Gives the messages that were on a queue when the browser was opened, and that are still there."""

    end_error = SeenAllError

    def __init__(
        self, connection: NativeClientConnection, session: int, link: int, destination: str, prefetch: int
    ) -> None:
        super().__init__(connection, session, link, destination, prefetch, "dups_ok")

    def handle(self, frame: Frame) -> None:
        if frame.kind == Kind.SEEN:
            self.lost(SeenAllError("the browser has reached the end of the queue"))
        else:
            super().handle(frame)

    async def close(self, *, unprocessed: int = 0) -> None:  # noqa: ARG002 - a browser acknowledges nothing
        self._connection.detach(self._link)
        self._error = None
        await super().close()
