"""The producer: sends as fast as the system takes it, or to a schedule, and records all that it does."""

from collections.abc import Awaitable, Callable

import numpy as np

from mqlab.drivers import Sender
from mqlab.drivers.api import Matrix, Properties
from mqlab.events.recorder import CONFIRMED_CODE, NO_TIME, UNKNOWN_CODE
from mqlab.runner.agents.assignment import Role
from mqlab.runner.agents.bodies import BodyMaker
from mqlab.runner.agents.pacing import SendSchedule
from mqlab.runner.agents.send_ahead import SendAhead
from mqlab.runner.timeline import Log, RoleCounters, Timeline, now, share, until
from mqlab.study import Point


class ProducerRole:
    """Sends from the start to the end of the measure phase, or until its share of a fixed amount of work is sent.

    `bounded`: it waits for nothing and follows no schedule, and is not ahead of the system further than a Lead allows.
    """

    def __init__(self, role: Role, point: Point, sender: Sender, log: Log, *, bounded: bool = False) -> None:
        self.role = role
        self.tally = RoleCounters()
        self._point = point
        self._sender = sender
        self._log = log
        self._bounded = bounded
        self._maker = BodyMaker(role.number, point.size, point.batch)
        self._share = share(point.messages, role.number, point.producers)

    async def play(self, timeline: Timeline) -> None:
        """Returns when everything it sent has been taken by the system. Raises DriverError."""
        send, rows = self._manner()
        rate = self._point.rate
        schedule = None
        if rate is not None:
            whole = self._point.transaction > 0
            schedule = SendSchedule(rate / self._point.producers, rows, timeline.start, whole=whole)
        await until(timeline.start)
        lead = SendAhead(rows, self._point.producers) if self._bounded else None
        while self.tally.sent < self._share:
            planned = now()
            if schedule is not None:
                planned, rows = await schedule.next()
            elif lead is not None:
                rows = lead.rows
            # Behind its plan, a producer goes on beyond the end until all that was planned before is sent; the lab
            # gives it the drain phase for that.
            if planned >= timeline.stop:
                break
            rows = min(rows, self._share - self.tally.sent)
            if timeline.counts(await send(planned, rows)):
                self.tally.counted_sent += rows
            self.tally.sent += rows
            if lead is not None:
                await lead.after(rows, self._sender)
        await self._sender.close()
        self.tally.last = now()
        self._log.accepted(self.role.number)

    def _manner(self) -> tuple[Callable[[int, int], Awaitable[int]], int]:
        """How it sends, and how many messages at once: a batch, or a transaction as a whole."""
        point = self._point
        if point.transaction:
            return self._send_transaction, point.transaction
        return (self._send_and_wait if point.send == "confirmed" else self._send_freely), point.batch

    async def _send_freely(self, planned: int, rows: int) -> int:
        bodies, properties = self._made(self.tally.sent, rows)
        sent = now()
        try:
            await self._sender.send(bodies, wait=False, properties=properties)
        finally:
            # Also of a send that broke off: some of it may arrive.
            self._log.sent_freely(
                self.role.number, self.role.destination, self.tally.sent, rows, rows * self._point.size, planned, sent
            )
        return sent

    async def _send_and_wait(self, planned: int, rows: int) -> int:
        bodies, properties = self._made(self.tally.sent, rows)
        sent = now()
        try:
            await self._sender.send(bodies, wait=True, properties=properties)
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
                bodies, properties = self._made(self.tally.sent + begin, min(batch, rows - begin))
                await self._sender.send(bodies, wait=False, properties=properties)
            await self._sender.commit()
        except BaseException:
            self._sent(rows, planned, sent, NO_TIME, UNKNOWN_CODE)
            raise
        self._sent(rows, planned, sent, now(), CONFIRMED_CODE)
        return sent

    def _made(self, first: int, rows: int) -> tuple[Matrix, Properties | None]:
        """Bodies, and what a selector can ask for: where nobody has one, messages carry no properties."""
        bodies = self._maker.make(first, rows)
        if not self._point.selector:
            return bodies, None
        numbers = np.arange(first, first + rows, dtype=np.int64)
        return bodies, {"seq": numbers, "producer": np.full(rows, self.role.number, dtype=np.int32)}

    def _sent(self, rows: int, planned: int, sent: int, confirmed: int, outcome: int) -> None:
        size = rows * self._point.size
        self._log.sent(
            self.role.number, self.role.destination, self.tally.sent, rows, size, planned, sent, confirmed, outcome
        )
