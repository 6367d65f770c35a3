"""Links of the JMS driver: sender and receivers. Java loops over messages; batches cross the border to Python."""

import asyncio
import struct
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Final

import jpype
import numpy as np

from mqlab.drivers.api import (
    DriverError,
    Integers,
    Matrix,
    MessageHeaders,
    Properties,
    ReceivedBatch,
    Receiver,
    Sender,
    Texts,
)
from mqlab.drivers.common.message_rows import expires_ms
from mqlab.drivers.common.timeouts import BLOCKED_TIMEOUT_S, with_timeout
from mqlab.drivers.jms.calls import DirectBuffer, JavaCalls
from mqlab.drivers.jms.jvm import JavaObject
from mqlab.wire.native.bodies import Bodies

# How much a sender that does not wait may submit before its Java thread has sent it.
MAX_SUBMITTED_BATCHES: Final = 2
_MAX_SUBMITTED_MESSAGES: Final = 64
# Number of rows, redelivered or not; offsets and data follow.
_HEAD: Final = struct.Struct("=ii")


class JmsSender(Sender):
    """`java` is the Java sender. `open_waiting` opens a second one for sends that wait, where the provider needs it."""

    def __init__(
        self, calls: JavaCalls, java: JavaObject, persistent: bool, open_waiting: Callable[[], Awaitable[object]] | None
    ) -> None:
        self._calls = calls
        self._java = java
        self._open_waiting = open_waiting
        self._waiting_java: JavaObject = None
        self._persistent = persistent
        self._free: list[DirectBuffer] = []
        # Batches that Java has not sent yet: their futures, buffers and numbers of messages.
        self._submitted: deque[tuple[asyncio.Future[JavaObject], DirectBuffer, int]] = deque()
        self._submitted_messages = 0
        # After the first `wait_accepted`, Java completes a send only when the broker has accepted it.
        self._reports_accepted = False
        self._no_columns = (jpype.JArray(jpype.JString)(0), jpype.JArray(jpype.JObject)(0))
        self._closed = False

    async def send(
        self, bodies: Matrix, *, wait: bool, properties: Properties | None = None, headers: MessageHeaders | None = None
    ) -> None:
        rows, size = bodies.shape
        java = self._java
        # In JMS, `send` of a single persistent message always returns after its confirmation.
        if wait and self._open_waiting is not None and not (self._persistent and rows == 1):
            self._waiting_java = java = self._waiting_java or await self._open_waiting()
        memory = self._free.pop() if self._free else DirectBuffer()
        names, columns = self._no_columns
        if properties is not None or headers is not None:
            names, columns = self._columns(properties or {}, headers or MessageHeaders())
        buffer = memory.put(bodies.reshape(-1))
        reported = self._reports_accepted and not wait
        self._submitted.append(
            (
                self._calls.submit(java.send, buffer, rows, size, wait, reported, names, columns, expires_ms(headers)),
                memory,
                rows,
            )
        )
        self._submitted_messages += rows
        while self._submitted and (wait or self._submitted[0][0].done() or self._has_submitted_enough()):
            await self._finish_first()

    async def wait_accepted(self, max_pending: int) -> None:
        """Providers that cannot tell what the broker has accepted count what their library has accepted."""
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
            if self._waiting_java is not None:
                await self._calls.call(self._waiting_java.close)

    async def preload(self, bodies: Matrix) -> None:
        """Send messages with correlation ids that no requester uses."""
        rows, size = bodies.shape
        memory = DirectBuffer().put(bodies.reshape(-1))
        await self._calls.call(self._java.preload, memory, rows, size, timeout_s=BLOCKED_TIMEOUT_S)

    def _has_submitted_enough(self) -> bool:
        return len(self._submitted) >= MAX_SUBMITTED_BATCHES and self._submitted_messages > _MAX_SUBMITTED_MESSAGES

    async def _finish_all(self) -> None:
        while self._submitted:
            await self._finish_first()

    async def _finish_first(self) -> None:
        done, memory, rows = self._submitted.popleft()
        self._submitted_messages -= rows
        await self._calls.wait(done, BLOCKED_TIMEOUT_S)
        self._free.append(memory)

    def _columns(self, properties: Properties, headers: MessageHeaders) -> tuple[JavaObject, JavaObject]:
        named: dict[str, Integers | Texts] = {**properties}
        if headers.priority is not None:
            named["JMSPriority"] = headers.priority.astype(np.int32)
        if headers.key is not None:
            named["JMSXGroupID"] = headers.key
        kinds = {"i8": jpype.JLong, "i4": jpype.JInt, "f8": jpype.JDouble}
        columns = []
        for name, values in named.items():
            kind = jpype.JString if values.dtype.kind == "U" else kinds.get(values.dtype.str[1:])
            if kind is None:
                raise DriverError(f"the jms driver cannot send the property {name!r} of type {values.dtype}")
            columns.append(jpype.JArray(kind)(values.tolist() if kind is jpype.JString else values))
        return jpype.JArray(jpype.JString)(list(named)), jpype.JArray(jpype.JObject)(columns)


class JmsReceiver(Receiver):
    """The receiver of a session that acknowledges by itself: a Java listener collects messages."""

    def __init__(self, calls: JavaCalls, java: JavaObject) -> None:
        self._calls = calls
        self._java = java
        self._pending: asyncio.Future[JavaObject] | None = None
        self._closed = False

    async def receive(self) -> ReceivedBatch:
        await self._wait_pending()
        self._pending = None
        return unpack_batch(self._java.take())

    async def close(self) -> None:
        if not self._closed:
            self._closed = True
            await self._calls.call(self._java.close)

    async def _wait_pending(self) -> JavaObject:
        """Wait for the pending Java call. If this task is cancelled, the next one waits for the same call."""
        if self._pending is None:
            self._pending = self._calls.submit(self._java.requestBatch)
        try:
            return await self._pending
        except asyncio.CancelledError:
            if self._pending.cancelled():
                self._pending = self._calls.reattach(self._pending)
            raise


class JmsAcknowledgingReceiver(JmsReceiver):
    """The receiver of a session in which the driver acknowledges or commits."""

    async def receive(self) -> ReceivedBatch:
        while True:
            try:
                batch = await self._wait_pending()
            except asyncio.CancelledError:
                self._java.stop()
                raise
            self._pending = None
            # None: a cancelled `receive` stopped it, so call it again.
            if batch is not None:
                return unpack_batch(batch)

    async def commit(self) -> None:
        # A cancelled `receive` may have got messages since, and a commit would acknowledge them too.
        if self._pending is not None and await with_timeout(self._wait_pending()) is not None:
            raise DriverError("a cancelled receive got messages, which the commit would acknowledge")
        self._pending = None
        await self._calls.call(self._java.commit)


def unpack_batch(packed: JavaObject) -> ReceivedBatch:
    """Unpack a Batch of the Java side with one copy."""
    data = np.frombuffer(memoryview(packed), dtype=np.uint8)
    rows, redelivered = _HEAD.unpack_from(data.data)
    begin = _HEAD.size + 4 * (rows + 1)
    return ReceivedBatch(Bodies(data[begin:], data[_HEAD.size : begin].view(np.int32)), redelivered == 1)
