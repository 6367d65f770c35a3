"""The roles: a producer and a consumer, each with a driver session, recording all that it does."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final, Protocol

from mqlab.drivers import Receiver, Sender
from mqlab.events.recorder import CONFIRMED_CODE, NO_TIME, UNKNOWN_CODE
from mqlab.load.assignment import Role
from mqlab.load.bodies import BodyMaker, ranges
from mqlab.load.pacing import Schedule
from mqlab.study import Point

now = time.monotonic_ns


@dataclass(frozen=True)
class Timeline:
    """When the phases of a run begin and end, in ns of the agents' clock."""

    start: int
    measure: int
    stop: int

    @classmethod
    def of(cls, point: Point, start: int) -> "Timeline":
        measure = start + round(point.phases.warmup * 1e9)
        return cls(start, measure, measure + round(point.phases.measure * 1e9))


class Log(Protocol):
    """Where a role writes: a Recorder, or nothing at all."""

    def sent(self, *row: int) -> None: ...
    def sent_freely(self, producer: int, *row: int) -> None: ...
    def accepted(self, producer: int) -> None: ...
    def received(self, *row: int) -> None: ...


class ProducerRole:
    """Sends from the start of the warm-up to the end of the measure phase."""

    def __init__(self, role: Role, point: Point, sender: Sender, log: Log) -> None:
        self.role = role
        self.messages = 0
        # Sent within the measure phase, by its own count.
        self.counted = 0
        self._point = point
        self._sender = sender
        self._log = log
        self._maker = BodyMaker(role.number, point.size, point.batch)

    async def play(self, timeline: Timeline) -> None:
        """Returns when everything it sent has been taken by the system. Raises DriverError."""
        send, rows = self._manner()
        rate = self._point.rate
        schedule = None
        if rate is not None:
            whole = self._point.transaction > 0
            schedule = Schedule(rate / self._point.producers, rows, timeline.start, whole=whole)
        await _until(timeline.start)
        while True:
            planned = now()
            if schedule is not None:
                planned, rows = await schedule.next()
            # Behind its plan, a producer goes on beyond the end until all that was planned before is sent; the lab
            # gives it the drain phase for that.
            if planned >= timeline.stop:
                break
            sent = await send(planned, rows)
            if timeline.measure <= sent < timeline.stop:
                self.counted += rows
            self.messages += rows
        await self._sender.close()
        self._log.accepted(self.role.number)

    def _manner(self) -> tuple[Callable[[int, int], Awaitable[int]], int]:
        """How it sends, and how many messages at once: a batch, or a transaction as a whole."""
        point = self._point
        if point.transaction:
            return self._send_transaction, point.transaction
        return (self._send_and_wait if point.send == "confirmed" else self._send_freely), point.batch

    async def _send_freely(self, planned: int, rows: int) -> int:
        bodies = self._maker.make(self.messages, rows)
        sent = now()
        try:
            await self._sender.send(bodies, wait=False)
        finally:
            # Also of a send that broke off: some of it may arrive.
            self._log.sent_freely(
                self.role.number, self.role.destination, self.messages, rows, rows * self._point.size, planned, sent
            )
        return sent

    async def _send_and_wait(self, planned: int, rows: int) -> int:
        bodies = self._maker.make(self.messages, rows)
        sent = now()
        try:
            await self._sender.send(bodies, wait=True)
        except BaseException:
            self._sent(rows, planned, sent, NO_TIME, UNKNOWN_CODE)
            raise
        self._sent(rows, planned, sent, now(), CONFIRMED_CODE)
        return sent

    async def _send_transaction(self, planned: int, rows: int) -> int:
        """In as many sends as the batch size makes of it, and one commit."""
        batch, sent = self._point.batch, now()
        try:
            for begin in range(0, rows, batch):
                bodies = self._maker.make(self.messages + begin, min(batch, rows - begin))
                await self._sender.send(bodies, wait=False)
            await self._sender.commit()
        except BaseException:
            self._sent(rows, planned, sent, NO_TIME, UNKNOWN_CODE)
            raise
        self._sent(rows, planned, sent, now(), CONFIRMED_CODE)
        return sent

    def _sent(self, rows: int, planned: int, sent: int, confirmed: int, outcome: int) -> None:
        size = rows * self._point.size
        self._log.sent(
            self.role.number, self.role.destination, self.messages, rows, size, planned, sent, confirmed, outcome
        )


class ConsumerRole:
    """Receives until it is told that no more will come."""

    def __init__(self, role: Role, point: Point, receiver: Receiver, log: Log) -> None:
        self.role = role
        self.messages = 0
        self.counted = 0
        # Why it ended before it was told to, if it did.
        self.failed: Exception | None = None
        self._point = point
        self._receiver = receiver
        self._log = log
        self._ordinal = 0
        self._uncommitted: list[tuple[int, ...]] = []
        self._uncommitted_messages = 0

    async def play(self, timeline: Timeline) -> None:
        """Runs until it is cancelled."""
        transaction = self._point.transaction
        try:
            while True:
                arrival = await self._receiver.receive()
                received = now()
                rows = len(arrival.bodies)
                self._record(arrival.redelivered, ranges(arrival.bodies), received, bool(transaction))
                if timeline.measure <= received < timeline.stop:
                    self.counted += rows
                self.messages += rows
                if transaction:
                    self._uncommitted_messages += rows
                    if self._uncommitted_messages >= transaction:
                        await self._commit()
        except Exception as error:  # whatever it was: a consumer that ends silently would look like messages lost
            self.failed = error

    async def close(self) -> None:
        """After `play` was cancelled: commit what is open, if the system still answers."""
        if self.failed is None and self._uncommitted:
            await self._commit()

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

    async def _commit(self) -> None:
        # Taken first: should the commit be cancelled half-way, no row is written twice.
        rows, self._uncommitted, self._uncommitted_messages = self._uncommitted, [], 0
        committed = NO_TIME
        try:
            await self._receiver.commit()
            committed = now()
        finally:
            for row in rows:
                self._log.received(*row, committed)


async def _until(moment: int) -> None:
    """Sleep most of the way and wait for the rest, since a timer may be a millisecond late."""
    margin: Final = 2_000_000
    if (left := moment - now()) > margin:
        await asyncio.sleep((left - margin) / 1e9)
    while now() < moment:
        await asyncio.sleep(0)
