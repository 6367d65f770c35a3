"""A running embedded broker: the lab uses an ordinary connection to it, and samples its process."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any, Final

import psutil
import pyarrow as pa

from mqlab.broker.server.trace.traced_links import TRACE_QUEUE
from mqlab.client import aio
from mqlab.client.errors import MessagingError, RefusedError
from mqlab.errors import MqlabError
from mqlab.systems.api import Running, SystemFailedError
from mqlab.systems.embedded.trace import TraceQueueReader

_ANSWER_SECONDS: Final = 10.0


class EmbeddedRunning(Running):
    """`end` ends its process, if the lab started it; `reader` reads its activity trace, if it has one."""

    def __init__(
        self, address: str, process: psutil.Process, control: aio.Connection,
        end: Callable[[], Awaitable[None]] | None, reader: TraceQueueReader | None,
    ) -> None:  # fmt: skip
        self.address = address
        self.pid = process.pid
        self._process = process
        self._control = control
        self._end = end
        self._reader = reader

    async def sample(self) -> dict[str, Any]:
        try:
            status = await self._control.status()
            cpu, io = self._process.cpu_times(), self._process.io_counters()
            rss = self._process.memory_info().rss
        except (MessagingError, psutil.Error) as error:
            raise SystemFailedError(f"the embedded broker is gone: {error}") from error
        return {
            "cpu_seconds": cpu.user + cpu.system,
            "rss": rss,
            "syncs": status["syncs"],
            "sync_seconds": status["sync_seconds"],
            "bytes_read": io.read_bytes,
            "bytes_written": io.write_bytes,
            "depth": status["messages"],
            "blocked": status["held_producers"],
            "holds": status["holds"],
            "held_seconds": status["held_ms"] / 1000,
        }

    async def empty(self) -> bool:
        try:
            async with asyncio.timeout(_ANSWER_SECONDS):
                if self._reader is not None:
                    await self._purge_trace()
                return bool((await self._control.status())["messages"] == 0)
        except (MessagingError, TimeoutError):
            return False

    async def depth(self, queue: str) -> int:
        return int((await self._ask("show", name=queue))["messages"])

    async def remove(self, queue: str) -> None:
        await self._ask("delete", name=queue)

    async def link(self, to: str, address: str) -> None:
        await self._ask("add_channel", to=to, address=address)

    async def unlink(self, to: str) -> None:
        await self._ask("stop_channel", to=to)

    async def operations(self) -> pa.Table | None:
        if self._reader is None:
            return None
        try:
            return await self._reader.read()
        except (MqlabError, ValueError, OSError) as error:
            raise SystemFailedError(f"the trace cannot be read: {error}") from error

    async def stop(self) -> None:
        try:
            if self._reader is not None:
                with suppress(MqlabError, ValueError, OSError):
                    await self._reader.close()
            with suppress(MessagingError):
                await self._control.close()
        finally:
            if self._end is not None:
                await self._end()

    async def _purge_trace(self) -> None:
        """Delete the records of the end of a run, which come after the runner has read the trace."""
        await self._control.ask("trace")  # the broker puts all its records on the queue
        with suppress(RefusedError):  # no queue, since nothing was traced
            await self._control.ask("purge", name=TRACE_QUEUE)

    async def _ask(self, command: str, **arguments: Any) -> dict[str, Any]:
        try:
            async with asyncio.timeout(_ANSWER_SECONDS):
                return await self._control.ask(command, **arguments)
        except (MessagingError, TimeoutError) as error:
            raise SystemFailedError(f"the embedded broker failed to {command} {arguments}: {error}") from error
