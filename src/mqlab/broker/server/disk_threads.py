"""Threads that wait for the disk, so that the event loop does not."""

import asyncio
from collections.abc import Callable
from queue import SimpleQueue
from threading import Thread

DoneCallback = Callable[[BaseException | None], None]


class DiskThreads:
    """Runs up to `most` pieces of work at a time, and calls `done` in the loop. It starts threads on demand."""

    def __init__(self, loop: asyncio.AbstractEventLoop, most: int) -> None:
        self._loop = loop
        self._most = most
        self._under_way = 0
        self._threads: list[Thread] = []
        self._work: SimpleQueue[tuple[Callable[[], None], DoneCallback] | None] = SimpleQueue()

    def submit(self, work: Callable[[], None], done: DoneCallback) -> None:
        self._under_way += 1
        if len(self._threads) < min(self._under_way, self._most):
            self._threads.append(Thread(target=self._run, name="mqlab-sync", daemon=True))
            self._threads[-1].start()
        self._work.put((work, done))

    def run_inline(self, work: Callable[[], None], done: DoneCallback) -> None:
        """Run it now, in the loop."""
        done(_attempt(work))

    def _finished(self, done: DoneCallback, failed: BaseException | None) -> None:
        self._under_way -= 1
        done(failed)

    def close(self) -> None:
        """Wait for the work under way."""
        for _ in self._threads:
            self._work.put(None)
        for thread in self._threads:
            thread.join()

    def _run(self) -> None:
        while (item := self._work.get()) is not None:
            work, done = item
            self._loop.call_soon_threadsafe(self._finished, done, _attempt(work))


def _attempt(work: Callable[[], None]) -> BaseException | None:
    try:
        work()
    except BaseException as error:  # the caller decides what to do about it
        return error
    return None
