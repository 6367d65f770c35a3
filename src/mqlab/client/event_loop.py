"""Runs coroutines for blocking callers: in an event loop with a thread of its own, or in that of a local broker."""

import asyncio
import threading
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Final, Generic, TypeVar

import uvloop

from mqlab.client.errors import ClosedError

T = TypeVar("T")

# How often a waiting caller checks that the loop still runs: a local broker's loop may end.
_LOOP_CHECK_S: Final = 1.0


class LoopCaller:
    """Runs coroutines in the event loop of another thread, and waits for their results."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._stopped = False
        # `stop` must not come between the check of `_stopped` and the call of the loop.
        self._lock = threading.Lock()
        self._tasks: set[asyncio.Task[object]] = set()

    @property
    def stopped(self) -> bool:
        """The loop takes no more work."""
        return self._stopped or self._loop.is_closed()

    def run(self, coroutine: Coroutine[object, None, T]) -> T:
        """Run the coroutine in the loop, and wait for its result."""
        call = _Call(self, coroutine)
        try:
            self.schedule(call.start)
        except ClosedError:
            coroutine.close()
            raise
        return call.result()

    def schedule(self, action: Callable[[], None]) -> None:
        """Call `action` in the loop, without waiting."""
        with self._lock:
            try:
                if not self._stopped:
                    self._loop.call_soon_threadsafe(action)
                    return
            except RuntimeError:
                # The loop of the local broker has ended.
                pass
        raise ClosedError("the connection is closed")

    def keep_task(self, task: asyncio.Task[object]) -> None:
        """Hold a reference to the task until it is done: the loop itself holds tasks only weakly."""
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def stop(self) -> None:
        """Cancel all tasks: callers that wait for a result get ClosedError."""
        with self._lock:
            self._stopped = True
        ended = threading.Lock()
        ended.acquire()
        try:
            self._loop.call_soon_threadsafe(self._cancel_all, ended)
        except RuntimeError:
            return
        self.wait(ended)

    def wait(self, done: threading.Lock) -> bool:
        """Wait until the loop releases the lock. Returns False if the loop has ended before."""
        while not done.acquire(timeout=_LOOP_CHECK_S):
            if self._loop.is_closed():
                return False
        return True

    def _cancel_all(self, ended: threading.Lock) -> None:
        tasks = self._unfinished()
        for task in tasks:
            task.cancel()
        asyncio.gather(*tasks, return_exceptions=True).add_done_callback(lambda _: ended.release())

    def _unfinished(self) -> set[asyncio.Task[object]]:
        return self._tasks


class LoopThread(LoopCaller):
    """Has an event loop and a thread of its own."""

    def __init__(self) -> None:
        super().__init__(uvloop.new_event_loop())
        self._thread = threading.Thread(target=self._run, name="mqlab-client", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._loop.run_forever()
        self._loop.close()

    def _unfinished(self) -> set[asyncio.Task[object]]:
        return asyncio.all_tasks(self._loop)

    def stop(self) -> None:
        super().stop()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()


class _Call(Generic[T]):
    """A coroutine that runs in the loop while a thread waits for it, by a lock: that is cheaper than a Future."""

    __slots__ = ("_caller", "_coroutine", "_done", "_task")

    def __init__(self, caller: LoopCaller, coroutine: Coroutine[object, None, T]) -> None:
        self._caller = caller
        self._coroutine = coroutine
        self._task: asyncio.Task[T] | None = None
        self._done = threading.Lock()
        self._done.acquire()

    def start(self) -> None:
        self._task = asyncio.ensure_future(self._coroutine)
        self._caller.keep_task(self._task)
        self._task.add_done_callback(self._finished)

    def _finished(self, _: "asyncio.Task[T]") -> None:
        self._done.release()

    def result(self) -> T:
        in_time = self._caller.wait(self._done)
        if not in_time:
            self._abandon()
        if not in_time or self._task is None or self._task.cancelled():
            raise ClosedError("the connection is closed")
        return self._task.result()

    def _abandon(self) -> None:
        """The loop has ended before the coroutine did: silence the warnings that it was never awaited or finished."""
        with suppress(RuntimeError):
            self._coroutine.close()
        if self._task is not None:
            self._task._log_destroy_pending = False  # type: ignore[attr-defined] # not in typeshed


async def call_in_loop(action: Callable[[], None]) -> None:
    """Call a short function in the thread of the loop."""
    action()
