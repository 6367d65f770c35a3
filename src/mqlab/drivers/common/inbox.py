"""Inbox: messages that have arrived for one consumer and that it has not received yet."""

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Generic, NamedTuple, TypeVar

from mqlab.drivers.api import DriverError
from mqlab.wire.equal_frames import concat_bodies
from mqlab.wire.native.bodies import Bodies

Tag = TypeVar("Tag")


class InboxBatch(NamedTuple, Generic[Tag]):
    """Messages that arrived together. `tags` has a delivery tag for each, to acknowledge or answer it, or is empty."""

    bodies: Bodies
    tags: list[Tag]
    redelivered: bool


class Inbox(Generic[Tag]):
    """Pauses the reading of its connection with more than `capacity` messages, and resumes it with half of that.

    Where other links share the connection, it pauses only with more than `spare_bytes` as well.
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
        # In place of a task that waits: called when messages have arrived, or after a failure.
        self.on_arrival: Callable[[], None] | None = None

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
        """`take` raises DriverError once the inbox is empty."""
        self._failure = reason
        self._wake()

    async def take(self) -> InboxBatch[Tag]:
        """Wait for messages; return between one and `capacity` of them, redelivered ones apart. Raise DriverError."""
        while not self._batches:
            if self._failure is not None:
                raise DriverError(self._failure)
            self._waiter = asyncio.get_running_loop().create_future()
            await self._waiter
        return self._next()

    def take_arrived(self) -> InboxBatch[Tag] | None:
        """The same without waiting; None if no message has arrived."""
        if self._batches:
            return self._next()
        if self._failure is not None:
            raise DriverError(self._failure)
        return None

    def drain_tags(self) -> list[Tag]:
        """Remove all messages and return their tags."""
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
        """Return the first rows; put the others back."""
        bodies, tags, redelivered = batch
        rest = Bodies(bodies.data, bodies.offsets[rows:])
        self._batches.appendleft(InboxBatch(rest, tags[rows:], redelivered))
        return InboxBatch(Bodies(bodies.data, bodies.offsets[: rows + 1]), tags[:rows], redelivered)

    def _wake(self) -> None:
        if self.on_arrival is not None:
            self.on_arrival()
        elif self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)
