"""Asynchronous calls of Java: each call has a future, and needs no Python thread."""

import asyncio
import os
from collections.abc import Callable
from contextlib import suppress
from typing import Final

import jpype
import numpy as np

from mqlab.drivers.api import DriverError
from mqlab.drivers.common.futures import fail_all
from mqlab.drivers.common.timeouts import ANSWER_TIMEOUT_S, with_timeout
from mqlab.drivers.jms.jvm import JavaObject, ProviderClasses
from mqlab.wire.native.payload import Bytes

_MIN_BUFFER_BYTES: Final = 4096
# The ticket JmsConnection.BROKEN of the Java side.
_BROKEN: Final = 2**63 - 1


class JavaCalls:
    """The calls of one connection. Java queues completions and writes to a pipe, which wakes the event loop.

    `label` begins every error text.
    """

    def __init__(self, classes: ProviderClasses, label: str) -> None:
        self._loop = asyncio.get_running_loop()
        self._label = label
        self._waiting: dict[int, asyncio.Future[JavaObject]] = {}
        # Results of calls whose future was cancelled before they were done.
        self._orphaned: dict[asyncio.Future[JavaObject], JavaObject] = {}
        self._ticket = 0
        self._broken: str | None = None
        self._reading, self._writing = os.pipe()
        os.set_blocking(self._reading, False)
        self.completions = classes.completion_queue(self._writing)
        self._take = self.completions.take
        self._loop.add_reader(self._reading, self._handle_completions)

    def submit(self, work: Callable[..., None], *arguments: object) -> "asyncio.Future[JavaObject]":
        """Start the Java method `work(ticket, *arguments)`; its future raises DriverError."""
        if self._broken is not None:
            raise DriverError(self._broken)
        return self.submit_unchecked(work, *arguments)

    def submit_unchecked(self, work: Callable[..., None], *arguments: object) -> "asyncio.Future[JavaObject]":
        """Start a call even on a broken connection."""
        self._ticket += 1
        self._waiting[self._ticket] = future = self._loop.create_future()
        work(self._ticket, *arguments)
        return future

    async def call(
        self, work: Callable[..., None], *arguments: object, timeout_s: float = ANSWER_TIMEOUT_S
    ) -> JavaObject:
        """Call a Java method and return its result. Raise DriverError, also if it takes too long."""
        return await self.wait(self.submit(work, *arguments), timeout_s)

    async def wait(self, future: "asyncio.Future[JavaObject]", timeout_s: float = ANSWER_TIMEOUT_S) -> JavaObject:
        """Return the result of a submitted call. Raise DriverError, also if it takes too long."""
        return await with_timeout(future, timeout_s, f"{self._label}: no answer")

    def reattach(self, cancelled: "asyncio.Future[JavaObject]") -> "asyncio.Future[JavaObject]":
        """Return a new future for a call whose future was cancelled; the call itself goes on."""
        future = self._loop.create_future()
        for ticket, waiting in self._waiting.items():
            if waiting is cancelled:
                self._waiting[ticket] = future
                return future
        # The call was done before its task noticed the cancellation.
        future.set_result(self._orphaned.pop(cancelled, None))
        return future

    def close(self) -> None:
        """Release the pipe; pending futures raise DriverError."""
        self._loop.remove_reader(self._reading)
        self._fail("the connection is closed")
        self.completions.close()
        os.close(self._reading)
        os.close(self._writing)

    def _handle_completions(self) -> None:
        with suppress(BlockingIOError):
            os.read(self._reading, 64)
        for at, ticket in enumerate(np.frombuffer(memoryview(self._take()), dtype=np.int64).tolist()):
            future = self._waiting.pop(abs(ticket), None)
            if ticket == -_BROKEN:
                self._fail(str(self.completions.error(at)))
            elif future is not None:
                self._finish(future, at if ticket < 0 else None)

    def _finish(self, future: "asyncio.Future[JavaObject]", at: int | None) -> None:
        """`at` is the index of the call's result or error, None if it has neither."""
        error = None if at is None else self.completions.error(at)
        result = None if at is None else self.completions.result(at)
        if future.done():
            if result is not None:
                self._orphaned[future] = result
        elif error is None:
            future.set_result(result)
        else:
            fail_all((future,), DriverError(f"{self._label}: {error}"))

    def _fail(self, reason: str) -> None:
        self._broken = f"{self._label}: {reason}"
        waiting, self._waiting = self._waiting, {}
        fail_all(waiting.values(), DriverError(self._broken))


class DirectBuffer:
    """Memory outside the Java heap, which Java reads directly: bodies need one copy only."""

    def __init__(self) -> None:
        self.buffer: JavaObject = None
        self._view: Bytes = np.empty(0, dtype=np.uint8)

    def put(self, data: Bytes) -> JavaObject:
        """Copy `data` and return the Java buffer. The caller must not put again before Java has read it."""
        if len(data) > len(self._view):
            size = max(_MIN_BUFFER_BYTES, len(data))
            self.buffer = jpype.java.nio.ByteBuffer.allocateDirect(size)
            self._view = np.frombuffer(memoryview(self.buffer), dtype=np.uint8)
        self._view[: len(data)] = data
        return self.buffer
