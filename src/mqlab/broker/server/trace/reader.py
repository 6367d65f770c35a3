"""A client that consumes the records of a broker's activity trace."""

from collections.abc import AsyncIterator
from typing import Final

import pyarrow as pa

from mqlab.broker.server.trace.records import BadRecordsError, decoded
from mqlab.broker.server.trace.traced_links import TRACE_QUEUE
from mqlab.client import aio
from mqlab.json_values import JsonObject

# How long to wait for a message: another reader may hold it.
_RECEIVE_SECONDS: Final = 1.0
# Each message has up to some hundred KiB.
_PREFETCH: Final = 16


class ActivityTraceReader:
    """`done()` acknowledges all tables read so far; the broker keeps the others."""

    def __init__(self, session: aio.Session, consumer: aio.Consumer, status: JsonObject) -> None:
        self._session = session
        self._consumer = consumer
        # The status of the trace when the reader was opened: `messages`, `dropped` and more.
        self.status = status
        # Messages that are not trace records.
        self.unreadable = 0

    @classmethod
    async def open(cls, connection: aio.Connection) -> "ActivityTraceReader":
        """Raises CommandError if the user may not read the trace."""
        session = await connection.session("client")
        consumer = await session.consumer(TRACE_QUEUE, prefetch=_PREFETCH)
        return cls(session, consumer, await connection.ask("trace"))

    async def tables(self) -> AsyncIterator[pa.Table]:
        """The records from before the reader was opened, one table a message."""
        for _ in range(self.status["messages"]):
            try:
                table = await self.next(_RECEIVE_SECONDS)
            except TimeoutError:
                return
            if table is not None:
                yield table

    async def next(self, timeout: float) -> pa.Table | None:
        """Wait for the next message. None: it is not a message of records. Raises TimeoutError."""
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
