"""Work that Java does for asyncio: each piece is a future, and no thread of Python is needed for it."""

import asyncio
import os
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final

import jpype
import numpy as np

from mqlab.drivers.api import DriverError
from mqlab.drivers.common.timeouts import ANSWER_TIMEOUT_S, with_timeout
from mqlab.drivers.jms.jvm import ProviderClasses
from mqlab.wire.native.payload import Bytes

_SMALLEST: Final = 4096
# The ticket of Desk.BROKEN.
_BROKEN: Final = 2**63 - 1


class JavaCalls:
    """Those of one connection. `place` begins every error, so that it says who failed."""

    def __init__(self, provider_classes: ProviderClasses, place: str) -> None:
        self._loop = asyncio.get_running_loop()
        self.place = place
        self._waiting: dict[int, asyncio.Future[Any]] = {}
        # Results of work that nobody waited for any more when it was done.
        self._late: dict[asyncio.Future[Any], Any] = {}
        self._ticket = 0
        self._broken: str | None = None
        self._reading, self._writing = os.pipe()
        os.set_blocking(self._reading, False)
        self.bell = provider_classes.bell(self._writing)
        self._take = self.bell.take
        self._loop.add_reader(self._reading, self._look)

    def submit(self, work: Callable[..., None], *arguments: Any) -> "asyncio.Future[Any]":
        """`work` takes a ticket, then the arguments. The future raises DriverError."""
        if self._broken is not None:
            raise DriverError(self._broken)
        return self.submit_unchecked(work, *arguments)

    def submit_unchecked(self, work: Callable[..., None], *arguments: Any) -> "asyncio.Future[Any]":
        """Also of a connection that broke."""
        self._ticket += 1
        self._waiting[self._ticket] = future = self._loop.create_future()
        work(self._ticket, *arguments)
        return future

    async def call(self, work: Callable[..., None], *arguments: Any, timeout_s: float = ANSWER_TIMEOUT_S) -> Any:
        """The result of what must be done in time. Raises DriverError."""
        return await self.wait(self.submit(work, *arguments), timeout_s)

    async def wait(self, future: "asyncio.Future[Any]", timeout_s: float = ANSWER_TIMEOUT_S) -> Any:
        """The result of what was ordered before, and must be done in time. Raises DriverError."""
        return await with_timeout(future, timeout_s, f"{self.place}: no answer")

    def reattach(self, cancelled: "asyncio.Future[Any]") -> "asyncio.Future[Any]":
        """Another future for the same work, which goes on."""
        future = self._loop.create_future()
        for ticket, waiting in self._waiting.items():
            if waiting is cancelled:
                self._waiting[ticket] = future
                return future
        # It was done before its task knew that it was cancelled.
        future.set_result(self._late.pop(cancelled, None))
        return future

    def close(self) -> None:
        """What is still waited for ends with an error."""
        self._loop.remove_reader(self._reading)
        self._fail("the connection is closed")
        self.bell.close()
        os.close(self._reading)
        os.close(self._writing)

    def _look(self) -> None:
        with suppress(BlockingIOError):
            os.read(self._reading, 64)
        for at, ticket in enumerate(np.frombuffer(memoryview(self._take()), dtype=np.int64).tolist()):
            future = self._waiting.pop(abs(ticket), None)
            if ticket == -_BROKEN:
                self._fail(str(self.bell.error(at)))
            elif future is not None:
                self._finish(future, at if ticket < 0 else None)

    def _finish(self, future: "asyncio.Future[Any]", at: int | None) -> None:
        """`at`: where its result or error is, if it has one."""
        error = None if at is None else self.bell.error(at)
        result = None if at is None else self.bell.result(at)
        if future.done():
            if result is not None:
                self._late[future] = result
        elif error is None:
            future.set_result(result)
        else:
            _raise_in(future, f"{self.place}: {error}")

    def _fail(self, reason: str) -> None:
        self._broken = f"{self.place}: {reason}"
        waiting, self._waiting = self._waiting, {}
        for future in waiting.values():
            if not future.done():
                _raise_in(future, self._broken)


class DirectBuffer:
    """Memory that Java reads as it is: bodies go there in one copy, however many they are."""

    def __init__(self) -> None:
        self.buffer: Any = None
        self._view: Bytes = np.empty(0, dtype=np.uint8)

    def put(self, data: Bytes) -> Any:
        """The buffer. It must not be put to again before Java has read it."""
        if len(data) > len(self._view):
            size = max(_SMALLEST, len(data))
            self.buffer = jpype.java.nio.ByteBuffer.allocateDirect(size)
            self._view = np.frombuffer(memoryview(self.buffer), dtype=np.uint8)
        self._view[: len(data)] = data
        return self.buffer


def _raise_in(future: "asyncio.Future[Any]", reason: str) -> None:
    future.set_exception(DriverError(reason))
    # Looked at, so that asyncio does not complain of one that nobody waits for any more.
    future.exception()
