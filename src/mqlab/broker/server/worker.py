"""One thread for what would block the loop: waiting for the disk."""

import asyncio
from collections.abc import Callable
from queue import SimpleQueue
from threading import Thread

Done = Callable[[BaseException | None], None]


class Worker:
    """Does one piece of work after the other; `done` is called back in the loop."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._work: SimpleQueue[tuple[Callable[[], None], Done] | None] = SimpleQueue()
        self._thread = Thread(target=self._run, name="mqlab-sync", daemon=True)
        self._thread.start()

    def submit(self, work: Callable[[], None], done: Done) -> None:
        self._work.put((work, done))

    def close(self) -> None:
        """Waits for the work under way."""
        self._work.put(None)
        self._thread.join()

    def _run(self) -> None:
        while (item := self._work.get()) is not None:
            work, done = item
            failed: BaseException | None = None
            try:
                work()
            except BaseException as error:  # whatever it was, the loop must know
                failed = error
            self._loop.call_soon_threadsafe(done, failed)
