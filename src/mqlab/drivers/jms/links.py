"""What a role holds of a JMS session. The loops over messages are in Java; here batches go in and out."""

import asyncio
import struct
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final

import jpype
import numpy as np

from mqlab.drivers.api import (
    DriverError,
    Matrix,
    Properties,
    ReceivedBatch,
    Receiver,
    Reply,
    Requester,
    Responder,
    Sender,
)
from mqlab.drivers.common.timeouts import BLOCKED_TIMEOUT_S, NO_REPLY, with_timeout
from mqlab.drivers.jms.calls import DirectBuffer, JavaCalls
from mqlab.wire.native.bodies import Bodies

# A sender that does not wait is so far ahead of its thread at most: two batches, or so many messages.
_MAX_SUBMITTED_BATCHES: Final = 2
_MAX_SUBMITTED_MESSAGES: Final = 64
# Rows, and whether redelivered; offsets and data follow.
_HEAD: Final = struct.Struct("=ii")


class JmsSender(Sender):
    """`waiting` opens the link for those sends that `java` would not wait for, if there are any."""

    def __init__(
        self, calls: JavaCalls, java: Any, persistent: bool, waiting: Callable[[], Awaitable[Any]] | None
    ) -> None:
        self._calls = calls
        self._java = java
        self._waiting = waiting
        self._waited: Any = None
        self._persistent = persistent
        self._free: list[DirectBuffer] = []
        # What Java has not sent yet, with its trays and numbers of messages.
        self._submitted: deque[tuple[asyncio.Future[Any], DirectBuffer, int]] = deque()
        self._submitted_messages = 0
        # Once somebody wants to know what is taken, each send is answered.
        self._reports_accepted = False
        self._without = (jpype.JArray(jpype.JString)(0), jpype.JArray(jpype.JObject)(0))
        self._closed = False

    async def send(self, bodies: Matrix, *, wait: bool, properties: Properties | None = None) -> None:
        rows, size = bodies.shape
        java = self._java
        # A persistent message alone is confirmed when its `send` returns, whatever the provider.
        if wait and self._waiting is not None and not (self._persistent and rows == 1):
            self._waited = java = self._waited or await self._waiting()
        memory = self._free.pop() if self._free else DirectBuffer()
        names, columns = self._without if properties is None else self._columns(properties)
        buffer = memory.put(bodies.reshape(-1))
        mark = self._reports_accepted and not wait
        self._submitted.append(
            (self._calls.submit(java.send, buffer, rows, size, wait, mark, names, columns), memory, rows)
        )
        self._submitted_messages += rows
        while self._submitted and (wait or self._submitted[0][0].done() or self._has_submitted_enough()):
            await self._finish_first()

    async def wait_accepted(self, max_pending: int) -> None:
        """Of a provider that does not tell what its broker has taken: what its library has."""
        self._reports_accepted = True
        while self._submitted_messages > max_pending:
            await self._finish_first()

    async def commit(self) -> None:
        await self._finish_all()
        await self._calls.call(self._java.commit, timeout_s=BLOCKED_TIMEOUT_S)

    async def close(self) -> None:
        if not self._closed:
            await self._finish_all()
            self._closed = True
            await self._calls.call(self._java.close)
            if self._waited is not None:
                await self._calls.call(self._waited.close)

    async def preload(self, bodies: Matrix) -> None:
        """Messages that nobody asks for."""
        rows, size = bodies.shape
        memory = DirectBuffer().put(bodies.reshape(-1))
        await self._calls.call(self._java.preload, memory, rows, size, timeout_s=BLOCKED_TIMEOUT_S)

    def _has_submitted_enough(self) -> bool:
        return len(self._submitted) >= _MAX_SUBMITTED_BATCHES and self._submitted_messages > _MAX_SUBMITTED_MESSAGES

    async def _finish_all(self) -> None:
        while self._submitted:
            await self._finish_first()

    async def _finish_first(self) -> None:
        done, memory, rows = self._submitted.popleft()
        self._submitted_messages -= rows
        await self._calls.wait(done, BLOCKED_TIMEOUT_S)
        self._free.append(memory)

    def _columns(self, properties: Properties) -> tuple[Any, Any]:
        kinds = {"i8": jpype.JLong, "i4": jpype.JInt, "f8": jpype.JDouble}
        columns = []
        for name, values in properties.items():
            kind = kinds.get(values.dtype.str[1:])
            if kind is None:
                raise DriverError(f"the jms driver cannot send the property {name!r} of type {values.dtype}")
            columns.append(jpype.JArray(kind)(values))
        return jpype.JArray(jpype.JString)(list(properties)), jpype.JArray(jpype.JObject)(columns)


class JmsReceiver(Receiver):
    """Of a session that acknowledges by itself: a listener in Java gathers what comes."""

    def __init__(self, calls: JavaCalls, java: Any) -> None:
        self._calls = calls
        self._java = java
        self._asked: asyncio.Future[Any] | None = None
        self._closed = False

    async def receive(self) -> ReceivedBatch:
        await self._answered()
        self._asked = None
        return unpack_batch(self._java.take())

    async def commit(self) -> None:
        raise DriverError("this session is not transacted")

    async def close(self) -> None:
        if not self._closed:
            self._closed = True
            await self._calls.call(self._java.close)

    async def _answered(self) -> Any:
        """What is asked for is asked once: if nobody waits for it any more, it is there for the next who does."""
        if self._asked is None:
            self._asked = self._calls.submit(self._java.ask)
        try:
            return await self._asked
        except asyncio.CancelledError:
            if self._asked.cancelled():
                self._asked = self._calls.reattach(self._asked)
            raise


class JmsAcknowledgingReceiver(JmsReceiver):
    """Of a session that is told when messages are done."""

    async def receive(self) -> ReceivedBatch:
        while True:
            try:
                batch = await self._answered()
            except asyncio.CancelledError:
                self._java.stop()
                raise
            self._asked = None
            # None: it was stopped, and somebody asks again.
            if batch is not None:
                return unpack_batch(batch)

    async def commit(self) -> None:
        # Only after a receive() that was cancelled. A commit takes all that the session has.
        if self._asked is not None and await with_timeout(self._answered()) is not None:
            raise DriverError("messages came that nobody took: they cannot be left out of the transaction")
        self._asked = None
        await self._calls.call(self._java.commit)


class JmsRequester(Requester):
    def __init__(self, calls: JavaCalls, java: Any) -> None:
        self._calls = calls
        self._java = java
        self._memory = DirectBuffer()
        self._closed = False

    async def request(self, body: bytes, correlation_id: str) -> Reply:
        buffer = self._memory.put(np.frombuffer(body, dtype=np.uint8))
        asked = self._calls.submit(self._java.request, buffer, len(body), correlation_id)
        bodies, redelivered = unpack_batch(await with_timeout(asked, BLOCKED_TIMEOUT_S, NO_REPLY))
        return Reply(bodies.data.tobytes(), redelivered)

    async def close(self) -> None:
        if not self._closed:
            self._closed = True
            await self._calls.call(self._java.close)


class JmsResponder(JmsReceiver, Responder):
    def __init__(self, calls: JavaCalls, java: Any) -> None:
        super().__init__(calls, java)
        self._sizes = jpype.JArray(jpype.JInt)
        # Under way: a reply that is not waited for leaves its tray to the next only when it is sent.
        self._free: list[DirectBuffer] = []
        self._submitted: deque[tuple[asyncio.Future[Any], DirectBuffer]] = deque()

    async def reply(self, bodies: Sequence[bytes], *, wait: bool) -> None:
        memory = self._free.pop() if self._free else DirectBuffer()
        buffer = memory.put(np.frombuffer(b"".join(bodies), dtype=np.uint8))
        sizes = self._sizes([len(body) for body in bodies])
        self._submitted.append((self._calls.submit(self._java.reply, buffer, sizes, wait), memory))
        while self._submitted and (
            wait or self._submitted[0][0].done() or len(self._submitted) > _MAX_SUBMITTED_BATCHES
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


def unpack_batch(packed: Any) -> ReceivedBatch:
    """A packed Batch, of which one copy is made."""
    data = np.frombuffer(memoryview(packed), dtype=np.uint8)
    rows, redelivered = _HEAD.unpack_from(data.data)
    begin = _HEAD.size + 4 * (rows + 1)
    return ReceivedBatch(Bodies(data[begin:], data[_HEAD.size : begin].view(np.int32)), redelivered == 1)
