"""The requester: one request under way, the next when its reply has come (or when the schedule says so)."""

from mqlab.drivers import Requester
from mqlab.events.recorder import CONFIRMED_CODE, NO_TIME, UNKNOWN_CODE
from mqlab.load.assignment import Role
from mqlab.load.bodies import BodyMaker, identity
from mqlab.load.pacing import Schedule
from mqlab.load.timeline import Log, Tally, Timeline, now, share, until
from mqlab.study import Point


class RequesterRole:
    """A producer of requests and a consumer of replies: what it does is recorded as both, and as round trips."""

    def __init__(self, role: Role, point: Point, requester: Requester, log: Log) -> None:
        self.role = role
        self.tally = Tally()
        self._point = point
        self._requester = requester
        self._log = log
        self._maker = BodyMaker(role.number, point.size, 1)
        self._share = share(point.messages, role.number, point.requesters)

    async def play(self, timeline: Timeline) -> None:
        """Returns when the reply to its last request has come. Raises DriverError."""
        rate, tally = self._point.rate, self.tally
        schedule = None if rate is None else Schedule(rate / self._point.requesters, 1, timeline.start)
        await until(timeline.start)
        while tally.sent < self._share:
            planned = now() if schedule is None else (await schedule.next())[0]
            if planned >= timeline.stop:
                break
            sent, received = await self._round_trip(planned)
            if timeline.counts(sent):
                tally.counted_sent += 1
            if timeline.counts(received):
                tally.counted_received += 1
                tally.counted_round_trips += 1
            tally.last = received
        await self._requester.close()

    async def _round_trip(self, planned: int) -> tuple[int, int]:
        number, seq, log = self.role.number, self.tally.sent, self._log
        body = self._maker.one(seq)
        sent = now()
        try:
            reply = await self._requester.request(body, f"{number}-{seq}")
        except BaseException:
            log.sent(number, self.role.destination, seq, 1, len(body), planned, sent, NO_TIME, UNKNOWN_CODE)
            log.round_trip(number, seq, planned, sent, NO_TIME)
            raise
        received = now()
        responder, answer = identity(reply.body)
        # That there is a reply confirms the request; when the system had it, nobody knows.
        log.sent(number, self.role.destination, seq, 1, len(body), planned, sent, NO_TIME, CONFIRMED_CODE)
        log.received(
            number, self.role.replies, responder, answer, 1, len(reply.body), seq, received, int(reply.redelivered),
            NO_TIME,
        )  # fmt: skip
        log.round_trip(number, seq, planned, sent, received)
        self.tally.sent += 1
        self.tally.received += 1
        return sent, received
