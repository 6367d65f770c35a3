"""What has come for one consumer and waits until it asks."""

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Generic, NamedTuple, TypeVar

from mqlab.drivers.api import DriverError
from mqlab.drivers.common.timeouts import next_message
from mqlab.wire.equal_frames import concat_bodies
from mqlab.wire.native.bodies import Bodies

Mark = TypeVar("Mark")


class Waiting(NamedTuple, Generic[Mark]):
    """Messages that came together; a mark for each (where to acknowledge or answer it), or none at all."""

    bodies: Bodies
    marks: list[Mark]
    redelivered: bool


class Inbox(Generic[Mark]):
    """Holds its line back (`full`) while it has more than `room` messages, and lets go (`empty`) with half of that.

    Where others need the line as well, it does so only with more than `spare` bytes.
    """

    def __init__(
        self, room: int, full: Callable[[object], None], empty: Callable[[object], None], spare: int = 0
    ) -> None:
        self._room = room
        self._spare = spare
        self._full = full
        self._empty = empty
        self._waiting: deque[Waiting[Mark]] = deque()
        self._messages = self._bytes = 0
        self._holds = False
        self._why: str | None = None
        self._asked: asyncio.Future[None] | None = None

    def __len__(self) -> int:
        return self._messages

    def put(self, bodies: Bodies, marks: list[Mark], redelivered: bool = False) -> None:
        self._waiting.append(Waiting(bodies, marks, redelivered))
        self._messages += len(bodies)
        self._bytes += bodies.nbytes
        if self._messages > self._room and self._bytes > self._spare and not self._holds:
            self._holds = True
            self._full(self)
        self._wake()

    def fail(self, why: str) -> None:
        """What is there is still given out."""
        self._why = why
        self._wake()

    async def take(self, *, is_reply: bool = False) -> Waiting[Mark]:
        """As many as are there, at least one and no more than there is room for. Raises DriverError."""
        while not self._waiting:
            if self._why is not None:
                raise DriverError(self._why)
            self._asked = asyncio.get_running_loop().create_future()
            await next_message(self._asked, is_reply=is_reply)
        return self._next()

    def take_all(self) -> list[Mark]:
        """The marks of all that nobody asked for any more."""
        marks = [mark for one in self._waiting for mark in one.marks]
        self._waiting.clear()
        self._messages = self._bytes = 0
        return marks

    def _next(self) -> Waiting[Mark]:
        some = [self._waiting.popleft()]
        count = len(some[0].bodies)
        most = max(1, self._room)
        if count > most:
            some = [self._cut(some[0], most)]
            count = most
        while self._waiting and count < most:
            more = self._waiting[0]
            if more.redelivered != some[0].redelivered or count + len(more.bodies) > most:
                break
            some.append(self._waiting.popleft())
            count += len(more.bodies)
        self._messages -= count
        self._bytes -= sum(one.bodies.nbytes for one in some)
        if self._holds and (self._messages <= self._room // 2 or self._bytes <= self._spare // 2):
            self._holds = False
            self._empty(self)
        if len(some) == 1:
            return some[0]
        marks = [mark for one in some for mark in one.marks]
        return Waiting(concat_bodies([one.bodies for one in some]), marks, some[0].redelivered)

    def _cut(self, whole: Waiting[Mark], rows: int) -> Waiting[Mark]:
        """So many of it; the rest waits on."""
        bodies, marks, redelivered = whole
        rest = Bodies(bodies.data, bodies.offsets[rows:])
        self._waiting.appendleft(Waiting(rest, marks[rows:], redelivered))
        return Waiting(Bodies(bodies.data, bodies.offsets[: rows + 1]), marks[:rows], redelivered)

    def _wake(self) -> None:
        if self._asked is not None and not self._asked.done():
            self._asked.set_result(None)
