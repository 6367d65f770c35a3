"""The requester: one request under way, the next when its reply has come (or when the schedule says so)."""

from mqlab.drivers import Requester
from mqlab.events.recorder import NO_TIME, UNKNOWN_CODE
from mqlab.runner.agents.assignment import Role
from mqlab.runner.agents.bodies import BodyMaker, identity
from mqlab.runner.agents.pacing import SendSchedule
from mqlab.runner.timeline import Log, RoleCounters, Timeline, now, share, until
from mqlab.study import Point


class RequesterRole:
    """A producer of requests and a consumer of replies: what it does is recorded as both, and as round trips."""

    def __init__(self, role: Role, point: Point, requester: Requester, log: Log) -> None:
        self.role = role
        self.tally = RoleCounters()
        self._point = point
        self._requester = requester
        self._log = log
        self._maker = BodyMaker(role.number, point.size, 1)
        self._share = share(point.messages, role.number, point.requesters)

    async def play(self, timeline: Timeline) -> None:
        """Returns when the reply to its last request has come. Raises DriverError."""
        rate, tally = self._point.rate, self.tally
        schedule = None if rate is None else SendSchedule(rate / self._point.requesters, 1, timeline.start)
        await until(timeline.start)
        number, destination, replies = self.role.number, self.role.destination, self.role.replies
        while tally.sent < self._share:
            planned = now() if schedule is None else (await schedule.next())[0]
            if planned >= timeline.stop:
                break
            seq = tally.sent
            body = self._maker.one(seq)
            sent = now()
            try:
                reply, redelivered = await self._requester.request(body, f"{number}-{seq}")
            except BaseException:
                self._log.sent(number, destination, seq, 1, len(body), planned, sent, NO_TIME, UNKNOWN_CODE)
                self._log.round_trip(number, seq, planned, sent, NO_TIME)
                raise
            received = tally.last = now()
            self._log.answered(
                number, destination, seq, len(body), planned, sent, replies, *identity(reply), len(reply), received,
                redelivered,
            )  # fmt: skip
            tally.sent = seq + 1
            tally.received += 1
            if timeline.counts(sent):
                tally.counted_sent += 1
            if timeline.counts(received):
                tally.counted_received += 1
                tally.counted_round_trips += 1
        await self._requester.close()
