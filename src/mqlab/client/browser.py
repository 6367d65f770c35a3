"""Looking at a queue without taking anything from it."""

from mqlab.client.connection import Wire
from mqlab.client.consumer import Consumer
from mqlab.client.errors import SeenAllError
from mqlab.wire.native.frames import Frame, Kind


class Browser(Consumer):
    """Gives the messages that were on a queue when it was opened and are still there, and takes none of them away."""

    end = SeenAllError

    def __init__(self, wire: Wire, session: int, link: int, destination: str, prefetch: int) -> None:
        super().__init__(wire, session, link, destination, prefetch, "dups_ok")

    def handle(self, frame: Frame) -> None:
        if frame.kind == Kind.SEEN:
            self.lost(SeenAllError("the browser has seen all there was"))
        else:
            super().handle(frame)

    async def close(self, *, undone: int = 0) -> None:  # noqa: ARG002 - nothing is ever done
        self._wire.detach(self._link)
        self._error = None
        await super().close()
