"""The event loop of one simulated process: it turns when it is told to, and its sockets are the simulated network's."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Coroutine
from contextvars import Context
from functools import partial
from typing import TYPE_CHECKING, TypeVar, TypeVarTuple

from simulation.files import Crashed, SimulatedFiles

from .timeline import Timeline

if TYPE_CHECKING:
    from .network import End, Network, Server

# Coroutines of a process that is gone come to their end in so many turns.
_LAST_TURNS = 1000

Arguments = TypeVarTuple("Arguments")
Result = TypeVar("Result")


class Loop(asyncio.AbstractEventLoop):
    """`on_crash` is called when the process is gone, in the midst of a call of its file layer."""

    def __init__(self, timeline: Timeline, network: Network, on_crash: Callable[[], None]) -> None:
        self.timeline = timeline
        self.network = network
        # The disk of its process, if it has one, and what a sync takes there.
        self.files: SimulatedFiles | None = None
        self.sync_seconds: tuple[float, ...] = ()
        # What nobody thought of: exceptions that reached the loop.
        self.complaints: list[str] = []
        self.dead = False
        self._on_crash = on_crash
        self._crashed = False
        self._ready: deque[asyncio.Handle] = deque()
        self._tasks: dict[asyncio.Task[object], None] = {}
        timeline.loops.append(self)

    @property
    def is_busy(self) -> bool:
        return bool(self._ready)

    def turn(self) -> None:
        """All that is ready now, as a loop does it."""
        self._turn()
        if self._crashed and not self.dead:
            self._on_crash()

    def _turn(self) -> None:
        asyncio._set_running_loop(self)
        try:
            for _ in range(len(self._ready)):
                handle = self._ready.popleft()
                if not handle.cancelled():
                    handle._run()
                if self._crashed and not self.dead:
                    return
        finally:
            asyncio._set_running_loop(None)

    def die(self) -> None:
        """The process is gone. Its coroutines are brought to their end; whatever they do on the way reaches nobody."""
        self.dead = True
        self.timeline.loops.remove(self)
        for _ in range(_LAST_TURNS):
            for task in self._tasks:
                task.cancel()
            self._turn()
            if not self._tasks:
                break
        else:
            raise AssertionError(f"{[*self._tasks]} do not end")
        self._ready.clear()

    # As everybody knows a loop

    def time(self) -> float:
        return self.timeline.now

    def call_soon(
        self, callback: Callable[[*Arguments], object], *args: *Arguments, context: Context | None = None
    ) -> asyncio.Handle:
        handle = asyncio.Handle(callback, args, self, context)
        self._ready.append(handle)
        return handle

    call_soon_threadsafe = call_soon

    def call_later(
        self, delay: float, callback: Callable[[*Arguments], object], *args: *Arguments, context: Context | None = None
    ) -> asyncio.TimerHandle:
        return self.call_at(self.time() + delay, callback, *args, context=context)

    def call_at(
        self, when: float, callback: Callable[[*Arguments], object], *args: *Arguments, context: Context | None = None
    ) -> asyncio.TimerHandle:
        handle = asyncio.TimerHandle(when, callback, args, self, context)
        self.timeline.at(when, partial(self._ready.append, handle), handle)
        return handle

    def _timer_handle_cancelled(self, handle: asyncio.TimerHandle) -> None: ...

    def create_future(self) -> asyncio.Future[object]:
        return asyncio.Future(loop=self)

    def create_task(  # type: ignore[override] # typeshed wants to know the result's type
        self, coro: Coroutine[object, None, Result], *, name: str | None = None, context: Context | None = None
    ) -> asyncio.Task[Result]:
        task = asyncio.Task(coro, loop=self, name=name, context=context)
        self._tasks[task] = None
        task.add_done_callback(self._tasks.pop)
        return task

    def get_debug(self) -> bool:
        return False

    def call_exception_handler(self, context: dict[str, object]) -> None:
        error = context.get("exception")
        if isinstance(error, Crashed):
            self._crashed = True
        elif not self.dead:
            self.complaints.append(f"{context.get('message')}: {error!r}")

    # Sockets

    async def create_unix_connection(  # type: ignore[override] # a simulated one has fewer options
        self, protocol_factory: Callable[[], asyncio.BaseProtocol], path: str
    ) -> tuple[End, asyncio.BaseProtocol]:
        return await self.network.connect(self, protocol_factory, path)

    async def create_unix_server(  # type: ignore[override] # a simulated one has fewer options
        self, protocol_factory: Callable[[], asyncio.BaseProtocol], path: str
    ) -> Server:
        return self.network.listen(self, protocol_factory, path)
