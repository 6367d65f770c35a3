"""The part of a responder that does not depend on the protocol: whom it calls, when, and what follows."""

import asyncio
from abc import abstractmethod
from collections.abc import Sequence

from mqlab.drivers.api import RequestBatch, RequestHandler, Responder


class CallbackResponder(Responder):
    """Answers all requests of a read at once. The reader of the socket calls `arrived` after each read.

    Only what must wait takes a task: replies that the system confirms, and those that it holds back.
    """

    def __init__(self, *, persistent: bool) -> None:
        self._persistent = persistent
        self._handler: RequestHandler | None = None
        # The replies to the last requests are not confirmed, or held back.
        self._waiting: asyncio.Task[None] | None = None

    @abstractmethod
    def take_requests(self) -> RequestBatch | None:
        """All requests that have arrived, up to a change between redelivered and not; None if none has."""

    @abstractmethod
    def send_replies(self, bodies: Sequence[bytes]) -> bool:
        """Reply to the requests of the last `take_requests`. Return whether the next may be taken at once.

        If so, the requests are acknowledged. If not, `wait_sent` follows. Persistent replies always return False.
        """

    @abstractmethod
    async def wait_sent(self) -> None:
        """Return when the system has confirmed persistent replies, or takes more replies; acknowledge the requests."""

    def start(self, handler: RequestHandler) -> None:
        self._handler = handler
        asyncio.get_running_loop().call_soon(self.arrived)

    async def stop(self) -> None:
        self._handler = None
        if self._waiting is not None:
            self._waiting.cancel()
            await asyncio.gather(self._waiting, return_exceptions=True)

    def arrived(self) -> None:
        """Called when requests have arrived, or the connection has failed."""
        try:
            while self._handler is not None and self._waiting is None:
                requests = self.take_requests()
                if requests is None:
                    return
                if not self.send_replies(self._handler.on_requests(requests)):
                    self._waiting = asyncio.ensure_future(self._wait_sent(self._handler))
        except Exception as error:  # any error: the role must not end silently
            self._fail(error)

    async def _wait_sent(self, handler: RequestHandler) -> None:
        try:
            await self.wait_sent()
            if self._persistent:
                handler.on_confirmed()
        except Exception as error:  # as above
            self._fail(error)
            return
        finally:
            self._waiting = None
        self.arrived()

    def _fail(self, error: Exception) -> None:
        handler, self._handler = self._handler, None
        if handler is not None:
            handler.on_failure(error)
