"""Takes the records of a running broker's activity trace from their queue, as a client."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any, Final

import pyarrow as pa

from mqlab.broker.server.trace.records import SCHEMA, BadRecordsError, decoded
from mqlab.broker.server.trace.traced_links import TRACE_QUEUE
from mqlab.client import aio

# A message that another reader has does not come.
_PATIENCE: Final = 1.0
# Messages that are on their way at a time; each has up to some hundred KiB.
_PREFETCH: Final = 16


class ActivityTraceReader:
    """`done()` says that all that was read up to now is safe; what is not done stays with the broker."""

    def __init__(self, session: aio.Session, consumer: aio.Consumer, status: dict[str, Any]) -> None:
        self._session = session
        self._consumer = consumer
        # As the broker had it when it was asked: among others `messages` and `dropped`.
        self.status = status
        # Messages on the queue that nobody knows how to read.
        self.unreadable = 0

    @classmethod
    async def open(cls, connection: aio.Connection) -> ActivityTraceReader:
        """Raises RefusedError where the trace is somebody else's business."""
        session = await connection.session("client")
        consumer = await session.consumer(TRACE_QUEUE, prefetch=_PREFETCH)
        return cls(session, consumer, await connection.ask("trace"))

    async def tables(self) -> AsyncIterator[pa.Table]:
        """What was recorded before it was opened, a table a message."""
        for _ in range(self.status["messages"]):
            try:
                table = await self.next(_PATIENCE)
            except TimeoutError:
                return
            if table is not None:
                yield table

    async def next(self, timeout: float) -> pa.Table | None:
        """The next message, also one that comes later; None: it cannot be read. Raises TimeoutError."""
        message = await self._consumer.receive(timeout)
        try:
            return decoded(message.body)
        except BadRecordsError:
            self.unreadable += 1
            return None

    def done(self) -> None:
        self._session.acknowledge()

    async def close(self) -> None:
        await self._session.close()


async def read_trace(connection: aio.Connection) -> pa.Table:
    """All that was recorded up to now. It is gone from the broker then."""
    reader = await ActivityTraceReader.open(connection)
    found = [table async for table in reader.tables()]
    reader.done()
    await reader.close()
    return pa.concat_tables([SCHEMA.empty_table(), *found])
