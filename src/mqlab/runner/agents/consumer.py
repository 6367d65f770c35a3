"""The consumer: receives until it is told that no more will come, and records all that it gets."""

from collections.abc import Awaitable, Callable

from mqlab.drivers import Receiver
from mqlab.events.recorder import NO_TIME
from mqlab.runner.agents.assignment import Role
from mqlab.runner.agents.bodies import ranges
from mqlab.runner.agents.pacing import RateLimiter
from mqlab.runner.timeline import Log, RoleCounters, Timeline, now, until
from mqlab.study import Point


class ConsumerRole:
    """`opening` gives its receiver: at once, or, where it finds its messages ready, not before it starts."""

    def __init__(self, role: Role, point: Point, opening: Callable[[], Awaitable[Receiver]], log: Log) -> None:
        self.role = role
        self.tally = RoleCounters()
        # Why it ended before it was told to, if it did.
        self.failed: Exception | None = None
        self._point = point
        self._opening = opening
        self._receiver: Receiver | None = None
        self._log = log
        self._ordinal = 0
        self._uncommitted: list[tuple[int, ...]] = []
        self._uncommitted_messages = 0

    async def open(self) -> None:
        self._receiver = await self._opening()

    async def play(self, timeline: Timeline) -> None:
        """Runs until it is cancelled."""
        transaction, rate = self._point.transaction, self._point.consume_rate
        brake = None if rate is None else RateLimiter(rate / self._point.consumers, timeline.stop)
        try:
            if self._receiver is None:
                await until(timeline.start)
                await self.open()
            receiver = self._receiver
            assert receiver is not None
            while True:
                arrival = await receiver.receive()
                self.tally.last = received = now()
                rows = len(arrival.bodies)
                self._record(arrival.redelivered, ranges(arrival.bodies), received, bool(transaction))
                if timeline.counts(received):
                    self.tally.counted_received += rows
                self.tally.received += rows
                if transaction:
                    self._uncommitted_messages += rows
                    if self._uncommitted_messages >= transaction:
                        await self._commit(receiver)
                if brake is not None:
                    await brake.after(rows)
        except Exception as error:  # whatever it was: a consumer that ends silently would look like messages lost
            self.failed = error

    async def close(self) -> None:
        """After `play` was cancelled: commit what is open, if the system still answers."""
        receiver = self._receiver
        if self.failed is None and receiver is not None:
            if self._uncommitted:
                await self._commit(receiver)
            if self._point.durable:
                # What is closed can be unsubscribed.
                await receiver.close()

    def _record(
        self, redelivered: bool, found: list[tuple[int, int, int, int]], received: int, transacted: bool
    ) -> None:
        number, destination = self.role.number, self.role.destination
        for producer, first, count, size in found:
            row = (number, destination, producer, first, count, size, self._ordinal, received, int(redelivered))
            self._ordinal += 1
            if transacted:
                self._uncommitted.append(row)
            else:
                self._log.received(*row, NO_TIME)

    async def _commit(self, receiver: Receiver) -> None:
        # Taken first: should the commit be cancelled half-way, no row is written twice.
        rows, self._uncommitted, self._uncommitted_messages = self._uncommitted, [], 0
        committed = NO_TIME
        try:
            await receiver.commit()
            committed = now()
        finally:
            for row in rows:
                self._log.received(*row, committed)
