"""Request/reply over JMS: the requester's consumer on the reply queue is in Java."""

import asyncio
from collections import deque
from collections.abc import Sequence

import jpype
import numpy as np

from mqlab.drivers.api import Reply
from mqlab.drivers.common.coroutines import CoroutineRequester, CoroutineResponder
from mqlab.drivers.common.timeouts import BLOCKED_TIMEOUT_S, NO_REPLY, with_timeout
from mqlab.drivers.jms.calls import DirectBuffer, JavaCalls
from mqlab.drivers.jms.jvm import JavaObject
from mqlab.drivers.jms.links import MAX_SUBMITTED_BATCHES, JmsReceiver, unpack_batch


class JmsRequester(CoroutineRequester):
    def __init__(self, calls: JavaCalls, java: JavaObject) -> None:
        self._calls = calls
        self._java = java
        self._memory = DirectBuffer()
        self._closed = False

    async def request(self, body: bytes, correlation_id: str) -> Reply:
        buffer = self._memory.put(np.frombuffer(body, dtype=np.uint8))
        call = self._calls.submit(self._java.request, buffer, len(body), correlation_id)
        bodies, redelivered = unpack_batch(await with_timeout(call, BLOCKED_TIMEOUT_S, NO_REPLY))
        return Reply(bodies.data.tobytes(), redelivered)

    async def close(self) -> None:
        if not self._closed:
            self._closed = True
            await self._calls.call(self._java.close)


class JmsResponder(JmsReceiver, CoroutineResponder):
    def __init__(self, calls: JavaCalls, java: JavaObject, *, persistent: bool) -> None:
        super().__init__(calls, java)
        self.confirms = persistent
        self._sizes = jpype.JArray(jpype.JInt)
        # Submitted replies. Each has a buffer of its own until Java has sent it.
        self._free: list[DirectBuffer] = []
        self._submitted: deque[tuple[asyncio.Future[JavaObject], DirectBuffer]] = deque()

    async def reply(self, bodies: Sequence[bytes], *, wait: bool) -> None:
        memory = self._free.pop() if self._free else DirectBuffer()
        buffer = memory.put(np.frombuffer(b"".join(bodies), dtype=np.uint8))
        sizes = self._sizes([len(body) for body in bodies])
        self._submitted.append((self._calls.submit(self._java.reply, buffer, sizes, wait), memory))
        while self._submitted and (
            wait or self._submitted[0][0].done() or len(self._submitted) > MAX_SUBMITTED_BATCHES
        ):
            await self._finish_first()

    async def close(self) -> None:
        while self._submitted:
            await self._finish_first()
        await super().close()

    async def _finish_first(self) -> None:
        done, memory = self._submitted.popleft()
        await self._calls.wait(done, BLOCKED_TIMEOUT_S)
        self._free.append(memory)
