"""A handler for the responders of drivers."""

import asyncio
from collections.abc import Callable

from mqlab.drivers import RequestBatch


class Answers:
    """Replies to each request by its body. It keeps what the responder told it."""

    def __init__(self, reply: Callable[[bytes], bytes] = lambda body: b"re:" + body) -> None:
        self._reply = reply
        self.batches: list[RequestBatch] = []
        self.confirmed = 0
        self.failed: asyncio.Future[Exception] = asyncio.get_running_loop().create_future()

    def on_requests(self, requests: RequestBatch) -> list[bytes]:
        self.batches.append(requests)
        return [self._reply(body) for body in requests.bodies]

    def on_confirmed(self) -> None:
        self.confirmed += 1

    def on_failure(self, error: Exception) -> None:
        self.failed.set_result(error)
