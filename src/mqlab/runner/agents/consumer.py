"""The consumer role: receives until the agent stops it, and records every message."""

from collections.abc import Awaitable, Callable
from typing import NoReturn

from mqlab.drivers import DriverError, Receiver
from mqlab.events.recorder import NO_TIME, Recorder
from mqlab.runner.agents.assignment import Role
from mqlab.runner.agents.bodies import unpack
from mqlab.runner.agents.pacing import RateLimiter
from mqlab.runner.agents.receipts import ReceiptLog, ReceivedNumbers
from mqlab.runner.agents.varied.bodies import body_check
from mqlab.runner.timeline import RoleCounters, Timeline, now, sleep_until
from mqlab.study import Point


class ConsumerRole:
    """`open_receiver` opens its receiver: before the start or, if the messages are there already, at the start.

    `packed`: each message has several records. `received`: in a run with faults, the messages that came. The consumer
    then opens a new receiver when the former one has failed.
    """

    def __init__(
        self, role: Role, point: Point, open_receiver: Callable[[], Awaitable[Receiver]], recorder: Recorder, *,
        packed: bool = False, received: ReceivedNumbers | None = None,
    ) -> None:  # fmt: skip
        self.role = role
        self.counters = RoleCounters()
        # The error that ended the role before it was stopped.
        self.failed: Exception | None = None
        self._point = point
        self._open_receiver = open_receiver
        self.link: Receiver | None = None
        self._packed = packed
        self._reopens = received is not None
        self._log = ReceiptLog(role, body_check(point), recorder, transacted=point.transaction > 0, received=received)
        self._uncommitted_messages = 0

    async def open(self) -> None:
        self.link = await self._open_receiver()

    async def play(self, timeline: Timeline) -> None:
        """Runs until it is cancelled."""
        rate = self._point.consume_rate
        limiter = None if rate is None else RateLimiter(rate / self._point.consumers, timeline.stop)
        try:
            if self.link is None:
                await sleep_until(timeline.start)
                await self.open()
            while True:
                try:
                    assert self.link is not None
                    await self._receive(self.link, timeline, limiter)
                except DriverError:
                    if not self._reopens:
                        raise
                # The system delivers again what was not acknowledged.
                self._uncommitted_messages = 0
                self._log.commit(NO_TIME)
                await self.open()
        except Exception as error:  # any error: the messages of a consumer that ended silently would look lost
            self.failed = error

    async def _receive(self, receiver: Receiver, timeline: Timeline, limiter: RateLimiter | None) -> NoReturn:
        """Receive until the receiver fails: raises DriverError and ForeignMessageError."""
        transaction = self._point.transaction
        while True:
            arrival = await receiver.receive()
            self.counters.t_last = received = now()
            self.counters.received_messages += len(arrival.bodies)
            if self._packed:
                arrival = arrival._replace(bodies=unpack(arrival.bodies, self._point.size))
            count = len(arrival.bodies)
            self._log.record(arrival, received)
            if timeline.counts(received):
                self.counters.counted_received += count
            self.counters.received += count
            if transaction:
                self._uncommitted_messages += count
                if self._uncommitted_messages >= transaction:
                    await self._commit(receiver)
            if limiter is not None:
                await limiter.after(count)

    async def close(self) -> None:
        """Called after `play` was cancelled: commits the open transaction, unless the consumer has failed."""
        receiver = self.link
        if self.failed is None and receiver is not None:
            if self._uncommitted_messages:
                await self._commit(receiver)
            if self._point.durable:
                # A durable subscription can be removed only when its consumer is closed.
                await receiver.close()

    async def _commit(self, receiver: Receiver) -> None:
        self._uncommitted_messages = 0
        committed = NO_TIME
        try:
            await receiver.commit()
            committed = now()
        finally:
            # Also after an error or a cancellation: the messages were received.
            self._log.commit(committed)
