"""What has come for one consumer and waits until it asks."""

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Generic, NamedTuple, TypeVar

from mqlab.drivers.api import DriverError
from mqlab.drivers.common.timeouts import next_message
from mqlab.wire.equal_frames import concat_bodies
from mqlab.wire.native.bodies import Bodies

Tag = TypeVar("Tag")


class InboxBatch(NamedTuple, Generic[Tag]):
    """Messages that came together; a mark for each (where to acknowledge or answer it), or none at all."""

    bodies: Bodies
    tags: list[Tag]
    redelivered: bool


class Inbox(Generic[Tag]):
    """Holds its line back (`full`) while it has more than `room` messages, and lets go (`empty`) with half of that.

    Where others need the line as well, it does so only with more than `spare` bytes.
    """

    def __init__(
        self, capacity: int, pause: Callable[[object], None], resume: Callable[[object], None], spare_bytes: int = 0
    ) -> None:
        self._capacity = capacity
        self._spare_bytes = spare_bytes
        self._pause = pause
        self._resume = resume
        self._batches: deque[InboxBatch[Tag]] = deque()
        self._messages = self._bytes = 0
        self._paused = False
        self._failure: str | None = None
        self._waiter: asyncio.Future[None] | None = None

    def __len__(self) -> int:
        return self._messages

    def put(self, bodies: Bodies, tags: list[Tag], redelivered: bool = False) -> None:
        self._batches.append(InboxBatch(bodies, tags, redelivered))
        self._messages += len(bodies)
        self._bytes += bodies.nbytes
        if self._messages > self._capacity and self._bytes > self._spare_bytes and not self._paused:
            self._paused = True
            self._pause(self)
        self._wake()

    def fail(self, reason: str) -> None:
        """What is there is still given out."""
        self._failure = reason
        self._wake()

    async def take(self, *, is_reply: bool = False) -> InboxBatch[Tag]:
        """As many as are there, at least one and no more than there is room for. Raises DriverError."""
        while not self._batches:
            if self._failure is not None:
                raise DriverError(self._failure)
            self._waiter = asyncio.get_running_loop().create_future()
            await next_message(self._waiter, is_reply=is_reply)
        return self._next()

    def drain_tags(self) -> list[Tag]:
        """The marks of all that nobody asked for any more."""
        tags = [tag for batch in self._batches for tag in batch.tags]
        self._batches.clear()
        self._messages = self._bytes = 0
        return tags

    def _next(self) -> InboxBatch[Tag]:
        batches = [self._batches.popleft()]
        count = len(batches[0].bodies)
        max_messages = max(1, self._capacity)
        if count > max_messages:
            batches = [self._split(batches[0], max_messages)]
            count = max_messages
        while self._batches and count < max_messages:
            following = self._batches[0]
            if following.redelivered != batches[0].redelivered or count + len(following.bodies) > max_messages:
                break
            batches.append(self._batches.popleft())
            count += len(following.bodies)
        self._messages -= count
        self._bytes -= sum(batch.bodies.nbytes for batch in batches)
        if self._paused and (self._messages <= self._capacity // 2 or self._bytes <= self._spare_bytes // 2):
            self._paused = False
            self._resume(self)
        if len(batches) == 1:
            return batches[0]
        tags = [tag for batch in batches for tag in batch.tags]
        return InboxBatch(concat_bodies([batch.bodies for batch in batches]), tags, batches[0].redelivered)

    def _split(self, batch: InboxBatch[Tag], rows: int) -> InboxBatch[Tag]:
        """So many of it; the rest waits on."""
        bodies, tags, redelivered = batch
        rest = Bodies(bodies.data, bodies.offsets[rows:])
        self._batches.appendleft(InboxBatch(rest, tags[rows:], redelivered))
        return InboxBatch(Bodies(bodies.data, bodies.offsets[: rows + 1]), tags[:rows], redelivered)

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)
