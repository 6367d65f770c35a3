"""Request/reply for drivers whose client library has coroutines or threads: a task makes the callbacks."""

import asyncio
from abc import abstractmethod
from collections.abc import Sequence

from mqlab.drivers.api import (
    DriverError,
    DriverRequester,
    OnReply,
    ReceivedBatch,
    Reply,
    RequestBatch,
    RequestHandler,
    Responder,
)


class CoroutineRequester(DriverRequester):
    """A task for each request."""

    _asking: "asyncio.Task[None] | None" = None

    @abstractmethod
    async def request(self, body: bytes, correlation_id: str) -> Reply:
        """Send one request and return its reply. Raise DriverError if none comes within `BLOCKED_TIMEOUT_S`."""

    def ask(self, body: bytes, correlation_id: str, on_reply: OnReply) -> None:
        self._asking = asyncio.ensure_future(self._ask(body, correlation_id, on_reply))

    def stop(self) -> None:
        if self._asking is not None:
            self._asking.cancel()

    async def _ask(self, body: bytes, correlation_id: str, on_reply: OnReply) -> None:
        reply: Reply | DriverError
        try:
            reply = await self.request(body, correlation_id)
        except Exception as error:  # any error: the role must not wait without an end
            reply = error if isinstance(error, DriverError) else DriverError(repr(error))
        self._asking = None
        on_reply(reply)


class CoroutineResponder(Responder):
    """One task for all requests."""

    # Set by a responder whose replies are persistent.
    confirms = False
    _serving: "asyncio.Task[None] | None" = None

    @abstractmethod
    async def receive(self) -> ReceivedBatch:
        """Wait without a time limit for requests; acknowledge those that earlier calls returned.

        May be cancelled at any time: the next call returns the requests, or the system redelivers them.
        """

    @abstractmethod
    async def reply(self, bodies: Sequence[bytes], *, wait: bool) -> None:
        """Answer all requests of the last `receive`. With `wait`, return when the system has confirmed the replies."""

    def start(self, handler: RequestHandler) -> None:
        self._serving = asyncio.ensure_future(self._serve(handler))

    async def stop(self) -> None:
        if self._serving is not None:
            self._serving.cancel()
            await asyncio.gather(self._serving, return_exceptions=True)

    async def _serve(self, handler: RequestHandler) -> None:
        try:
            while True:
                bodies, redelivered = await self.receive()
                replies = handler.on_requests(RequestBatch(bodies.tolist(), redelivered))
                await self.reply(replies, wait=self.confirms)
                if self.confirms:
                    handler.on_confirmed()
        except Exception as error:  # any error: the role must not end silently
            handler.on_failure(error)
