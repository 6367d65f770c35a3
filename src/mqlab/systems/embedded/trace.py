"""Reads the activity trace from its queue: after a run or, with `read_out`, into a file while the records come."""

import asyncio
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Final

import pyarrow as pa

from mqlab.broker.server.trace.records import SCHEMA, decoded
from mqlab.broker.server.trace.traced_links import TRACE_QUEUE
from mqlab.client import aio
from mqlab.client.errors import MessagingError

# The application name of the lab's own connections. They are not part of a run and must not be traced.
OWN_APPLICATION: Final = "mqlab-lab"
_POLL_SECONDS: Final = 0.02
# Each message has up to some thousand records.
_PREFETCH: Final = 16


class TraceQueueReader:
    """All methods raise MessagingError, OSError, and ValueError for malformed records."""

    def __init__(self, connection: aio.Connection, session: aio.Session, file: Path) -> None:
        self._connection = connection
        self._session = session
        self._file = file
        # While it reads records into a file; how many files there were; those that are finished and not read yet.
        self._writer: _TraceFileWriter | None = None
        self._files = 0
        self._finished: list[Path] = []

    @classmethod
    async def start(cls, address: str, file: Path) -> "TraceQueueReader":
        """`file`: how the names of the files begin that `set_read_out` writes."""
        connection = await aio.connect(address, application=OWN_APPLICATION)
        return cls(connection, await connection.session(), file)

    async def set_read_out(self, read_out: bool) -> None:
        """Begin or end to read the records into a file while they come."""
        if read_out and self._writer is None:
            consumer = await self._session.consumer(TRACE_QUEUE, prefetch=_PREFETCH)
            self._files += 1
            self._writer = _TraceFileWriter(consumer, self._file.with_name(f"{self._file.name}-{self._files}"))
        elif not read_out and self._writer is not None:
            writer, self._writer = self._writer, None
            self._finished.append(await writer.close())

    async def read(self) -> pa.Table:
        """The records since the last call. Those that a writer had received and not acknowledged may come twice."""
        finished, self._finished = self._finished, []
        earlier = [_read_file(path) for path in finished]
        return pa.concat_tables([*earlier, await self._read_rest()])

    async def _read_rest(self) -> pa.Table:
        """The records that no finished file has."""
        if self._writer is None:
            return await self._read_queue()
        # Until the writer has read and acknowledged all records.
        while await self._backlog() and not self._writer.failed:
            await asyncio.sleep(_POLL_SECONDS)
        return await self._writer.read_and_restart()

    async def close(self) -> None:
        try:
            if self._writer is not None:
                await self._writer.end()
        finally:
            with suppress(MessagingError):
                await self._connection.close()

    async def _backlog(self) -> int:
        """Messages on the queue. The command makes the broker put all its records there first."""
        return int((await self._connection.ask("trace"))["messages"])

    async def _read_queue(self) -> pa.Table:
        tables, backlog = [SCHEMA.empty_table()], await self._backlog()
        if backlog:
            consumer = await self._session.consumer(TRACE_QUEUE, prefetch=_PREFETCH)
            tables += [decoded((await consumer.receive()).body) for _ in range(backlog)]
            await consumer.close()
        return pa.concat_tables(tables)


class _TraceFileWriter:
    """Writes records to a file; `read_and_restart` begins the file anew."""

    def __init__(self, consumer: aio.Consumer, path: Path) -> None:
        self._consumer = consumer
        self._path = path
        self._begin()

    @property
    def failed(self) -> bool:
        return self._task.done()

    async def read_and_restart(self) -> pa.Table:
        await self.end()
        records = _read_file(self._path)
        self._begin()
        return records

    async def close(self) -> Path:
        """End it and its consumer; return the path of its complete file."""
        await self.end()
        await self._consumer.close()
        return self._path

    async def end(self) -> None:
        self._task.cancel()
        try:
            with suppress(asyncio.CancelledError):
                await self._task
        finally:
            self._files.close()

    def _begin(self) -> None:
        self._files = ExitStack()
        file = self._files.enter_context(pa.OSFile(str(self._path), "wb"))
        stream = self._files.enter_context(pa.ipc.new_stream(file, SCHEMA))
        self._task = asyncio.ensure_future(self._read(stream))

    async def _read(self, stream: pa.ipc.RecordBatchStreamWriter) -> None:
        while True:
            stream.write_table(decoded((await self._consumer.receive()).body))


def _read_file(path: Path) -> pa.Table:
    with pa.OSFile(str(path)) as file, pa.ipc.open_stream(file) as stream:
        return stream.read_all()
