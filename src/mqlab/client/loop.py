"""An event loop in a thread, for callers that block."""

import asyncio
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import CancelledError
from typing import Any, TypeVar

import uvloop

from mqlab.client.errors import ClosedError

T = TypeVar("T")


class LoopThread:
    def __init__(self) -> None:
        self._loop = uvloop.new_event_loop()
        self.stopped = False
        # Between the look at `stopped` and the hand-over to the loop nobody may stop it.
        self._lock = threading.Lock()
        self._tasks: set[asyncio.Task[None]] = set()
        self._thread = threading.Thread(target=self._run, name="mqlab-client", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._loop.run_forever()
        self._loop.close()

    def do(self, work: Coroutine[Any, Any, T]) -> T:
        """Do it there and wait for its result here."""
        with self._lock:
            if self.stopped:
                work.close()
                raise ClosedError("the connection is closed")
            future = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            return future.result()
        except CancelledError:
            raise ClosedError("the connection is closed") from None

    def submit(self, action: Callable[[], None]) -> None:
        """Do it there, and do not wait."""
        with self._lock:
            if self.stopped:
                raise ClosedError("the connection is closed")
            self._loop.call_soon_threadsafe(action)

    def keep(self, task: asyncio.Task[None]) -> None:
        """The loop itself holds tasks only weakly."""
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def stop(self) -> None:
        """Whoever still waits for a result is told that there will be none."""
        with self._lock:
            self.stopped = True
            asyncio.run_coroutine_threadsafe(self._cancel_all(), self._loop)
        self._thread.join()

    async def _cancel_all(self) -> None:
        others = asyncio.all_tasks() - {asyncio.current_task()}
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)
        # Results are handed back by callbacks: let them run.
        await asyncio.sleep(0)
        self._loop.stop()


async def as_work(action: Callable[[], None]) -> None:
    """Something short, to be done in the loop's thread."""
    action()
