"""The responder: answers each request where its requester waits for it, those that came together together."""

from mqlab.drivers import Responder
from mqlab.events.recorder import CONFIRMED_CODE, NO_TIME, UNKNOWN_CODE
from mqlab.runner.agents.assignment import Role
from mqlab.runner.agents.bodies import BodyMaker, ranges
from mqlab.runner.timeline import Log, RoleCounters, Timeline, now
from mqlab.study import Point


class ResponderRole:
    """A consumer of requests and a producer of replies, which have its own number and sequence."""

    def __init__(self, role: Role, point: Point, responder: Responder, log: Log) -> None:
        self.role = role
        self.tally = RoleCounters()
        # Why it ended before it was told to, if it did.
        self.failed: Exception | None = None
        self._point = point
        self._responder = responder
        self._log = log
        self._maker = BodyMaker(role.number, point.size, 1)
        self._ordinal = 0

    async def play(self, timeline: Timeline) -> None:
        """Runs until it is cancelled."""
        tally = self.tally
        try:
            while True:
                arrival = await self._responder.receive()
                received, rows = now(), len(arrival.bodies)
                for producer, first, count, size in ranges(arrival.bodies):
                    self._log.received(
                        self.role.number, self.role.destination, producer, first, count, size, self._ordinal, received,
                        int(arrival.redelivered), NO_TIME,
                    )  # fmt: skip
                    self._ordinal += 1
                tally.received += rows
                if timeline.counts(received):
                    tally.counted_received += rows
                if timeline.counts(await self._reply(rows)):
                    tally.counted_sent += rows
        except Exception as error:  # whatever it was: it must not end silently
            self.failed = error

    async def close(self) -> None:
        """After `play` was cancelled: returns when the system has all replies."""
        if self.failed is None:
            await self._responder.close()
            self._log.accepted(self.role.number)

    async def _reply(self, rows: int) -> int:
        first, persistent = self.tally.sent, self._point.persistent
        bodies = [self._maker.one(seq) for seq in range(first, first + rows)]
        row = (self.role.number, self.role.replies, first, rows, rows * self._point.size)
        self.tally.sent += rows
        sent = now()
        # A persistent reply is waited for: only then may its request be done.
        if not persistent:
            self._log.sent_freely(*row, sent, sent)
            await self._responder.reply(bodies, wait=False)
            return sent
        confirmed, outcome = NO_TIME, UNKNOWN_CODE
        try:
            await self._responder.reply(bodies, wait=True)
            confirmed, outcome = now(), CONFIRMED_CODE
        finally:
            self._log.sent(*row, sent, sent, confirmed, outcome)
        return sent
