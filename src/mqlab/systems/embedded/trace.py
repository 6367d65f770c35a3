"""Reads the records of the broker's trace off their queue: after a run or, `read_out`, into a file while they come."""

import asyncio
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Final

import pyarrow as pa

from mqlab.broker.server.trace.records import SCHEMA, decoded
from mqlab.broker.server.trace.traced_links import TRACE_QUEUE
from mqlab.client import aio
from mqlab.client.errors import MessagingError

# The lab's own connections: what they do is not part of a run, and must not be traced.
OWN_APPLICATION: Final = "mqlab-lab"
_POLL_SECONDS: Final = 0.02
# Messages ahead of the reader: each has up to some thousand records.
_PREFETCH: Final = 16


class ActivityTraceReader:
    """All methods raise MessagingError, OSError, and ValueError for what are no records."""

    def __init__(self, connection: aio.Connection, session: aio.Session, reading: "_TraceFileWriter | None") -> None:
        self._connection = connection
        self._session = session
        self._reading = reading

    @classmethod
    async def start(cls, address: str, file: Path | None) -> "ActivityTraceReader":
        """With a `file` it reads all the time, from now on."""
        connection = await aio.connect(address, application=OWN_APPLICATION)
        session = await connection.session()
        if file is None:
            return cls(connection, session, None)
        consumer = await session.consumer(TRACE_QUEUE, prefetch=_PREFETCH)
        return cls(connection, session, _TraceFileWriter(consumer, file))

    async def read(self) -> pa.Table:
        """All that was traced since the last time."""
        if self._reading is None:
            return await self._read_now()
        # Until it has caught up: all is read and acknowledged.
        while await self._waiting() and not self._reading.failed:
            await asyncio.sleep(_POLL_SECONDS)
        return await self._reading.turn_over()

    async def close(self) -> None:
        try:
            if self._reading is not None:
                await self._reading.end()
        finally:
            with suppress(MessagingError):
                await self._connection.close()

    async def _waiting(self) -> int:
        """Messages on the queue, once the broker has put there all that it has seen: the question makes it do so."""
        return int((await self._connection.ask("trace"))["messages"])

    async def _read_now(self) -> pa.Table:
        tables, waiting = [SCHEMA.empty_table()], await self._waiting()
        if waiting:
            consumer = await self._session.consumer(TRACE_QUEUE, prefetch=_PREFETCH)
            tables += [decoded((await consumer.receive()).body) for _ in range(waiting)]
            await consumer.close()
        return pa.concat_tables(tables)


class _TraceFileWriter:
    """Into a file that is begun anew whenever it has been read."""

    def __init__(self, consumer: aio.Consumer, path: Path) -> None:
        self._consumer = consumer
        self._path = path
        self._begin()

    @property
    def failed(self) -> bool:
        return self._task.done()

    async def turn_over(self) -> pa.Table:
        await self.end()
        with pa.OSFile(str(self._path)) as file, pa.ipc.open_stream(file) as stream:
            found = stream.read_all()
        self._begin()
        return found

    async def end(self) -> None:
        self._task.cancel()
        try:
            with suppress(asyncio.CancelledError):
                await self._task
        finally:
            self._open.close()

    def _begin(self) -> None:
        self._open = ExitStack()
        file = self._open.enter_context(pa.OSFile(str(self._path), "wb"))
        stream = self._open.enter_context(pa.ipc.new_stream(file, SCHEMA))
        self._task = asyncio.ensure_future(self._read(stream))

    async def _read(self, stream: pa.ipc.RecordBatchStreamWriter) -> None:
        while True:
            stream.write_table(decoded((await self._consumer.receive()).body))
