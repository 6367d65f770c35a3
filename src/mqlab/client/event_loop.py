"""The event loop that does the work of callers that block: in a thread of its own, or the broker's."""

import asyncio
import threading
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Any, Final, Generic, TypeVar

import uvloop

from mqlab.client.errors import ClosedError

T = TypeVar("T")

# How often one who waits looks whether the loop is still there: it may be the broker's, which can end.
_LOOK_SECONDS: Final = 1.0


class Caller:
    """Has work done in an event loop of another thread, and waits for it."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._stopped = False
        # Between the look at `stopped` and the hand-over to the loop nobody may stop it.
        self._lock = threading.Lock()
        self._tasks: set[asyncio.Task[Any]] = set()

    @property
    def stopped(self) -> bool:
        """Nothing is done there any more."""
        return self._stopped or self._loop.is_closed()

    def do(self, work: Coroutine[Any, Any, T]) -> T:
        """Do it there and wait for its result here."""
        call = _Call(self, work)
        try:
            self.submit(call.begin)
        except ClosedError:
            work.close()
            raise
        return call.result()

    def submit(self, action: Callable[[], None]) -> None:
        """Do it there, and do not wait."""
        with self._lock:
            try:
                if not self._stopped:
                    self._loop.call_soon_threadsafe(action)
                    return
            except RuntimeError:
                # The broker's loop has ended.
                pass
        raise ClosedError("the connection is closed")

    def keep(self, task: asyncio.Task[Any]) -> None:
        """Until it is done or, at the latest, until `stop`. The loop itself holds tasks only weakly."""
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def stop(self) -> None:
        """Whoever still waits for a result is told that there will be none."""
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
        """Until the loop releases it. False: the loop has ended, and never will."""
        while not done.acquire(timeout=_LOOK_SECONDS):
            if self._loop.is_closed():
                return False
        return True

    def _cancel_all(self, ended: threading.Lock) -> None:
        tasks = self._unfinished()
        for task in tasks:
            task.cancel()
        asyncio.gather(*tasks, return_exceptions=True).add_done_callback(lambda _: ended.release())

    def _unfinished(self) -> set[asyncio.Task[Any]]:
        return self._tasks


class LoopThread(Caller):
    """With a loop, and a thread, of its own."""

    def __init__(self) -> None:
        super().__init__(uvloop.new_event_loop())
        self._thread = threading.Thread(target=self._run, name="mqlab-client", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._loop.run_forever()
        self._loop.close()

    def _unfinished(self) -> set[asyncio.Task[Any]]:
        return asyncio.all_tasks(self._loop)

    def stop(self) -> None:
        super().stop()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()


class _Call(Generic[T]):
    """Work for the loop, and a place for its result: a lock is all that a waiting thread needs."""

    __slots__ = ("_caller", "_done", "_task", "_work")

    def __init__(self, caller: Caller, work: Coroutine[Any, Any, T]) -> None:
        self._caller = caller
        self._work = work
        self._task: asyncio.Task[T] | None = None
        self._done = threading.Lock()
        self._done.acquire()

    def begin(self) -> None:
        self._task = asyncio.ensure_future(self._work)
        self._caller.keep(self._task)
        self._task.add_done_callback(self._finished)

    def _finished(self, _: "asyncio.Task[T]") -> None:
        self._done.release()

    def result(self) -> T:
        in_time = self._caller.wait(self._done)
        if not in_time:
            self._give_up()
        if not in_time or self._task is None or self._task.cancelled():
            raise ClosedError("the connection is closed")
        return self._task.result()

    def _give_up(self) -> None:
        """The loop has ended before this was done, or begun: nobody is to hear of it as of something forgotten."""
        with suppress(RuntimeError):
            self._work.close()
        if self._task is not None:
            self._task._log_destroy_pending = False  # type: ignore[attr-defined]


async def as_work(action: Callable[[], None]) -> None:
    """Something short, to be done in the loop's thread."""
    action()
