"""The requester role: sends a request, waits for its reply, then sends the next one, at once or by a schedule."""

from mqlab.drivers import Requester
from mqlab.events.recorder import NO_TIME, UNKNOWN_CODE, Recorder
from mqlab.runner.agents.assignment import Role
from mqlab.runner.agents.bodies import BodyMaker, message_id
from mqlab.runner.agents.pacing import SendSchedule
from mqlab.runner.timeline import RoleCounters, Timeline, now, share, sleep_until
from mqlab.study import Point


class RequesterRole:
    """A producer of requests and a consumer of replies: recorded as both, and as round trips."""

    def __init__(self, role: Role, point: Point, requester: Requester, recorder: Recorder) -> None:
        self.role = role
        self.counters = RoleCounters()
        self._point = point
        self._requester = requester
        self._recorder = recorder
        self._record_answered = recorder.answered.append
        self._maker = BodyMaker(role.number, point.size, 1)
        self._share = share(point.messages, role.number, point.requesters)

    async def play(self, timeline: Timeline) -> None:
        """Returns when the reply to its last request has come. Raises DriverError."""
        rate, counters = self._point.rate, self.counters
        schedule = None if rate is None else SendSchedule(rate / self._point.requesters, 1, timeline.start)
        await sleep_until(timeline.start)
        number, destination, reply_destination = self.role.number, self.role.destination, self.role.reply_destination
        while counters.sent < self._share:
            planned = now() if schedule is None else (await schedule.next())[0]
            if planned >= timeline.stop:
                break
            seq = counters.sent
            body = self._maker.make_single(seq)
            sent = now()
            try:
                reply, redelivered = await self._requester.request(body, f"{number}-{seq}")
            except BaseException:
                self._recorder.sends.append(
                    producer=number, destination=destination, first_seq=seq, count=1, bytes=len(body),
                    t_planned=planned, t_sent=sent, t_confirmed=NO_TIME, outcome=UNKNOWN_CODE,
                )  # fmt: skip
                self._recorder.round_trips.append(
                    requester=number, seq=seq, t_planned=planned, t_sent=sent, t_received=NO_TIME
                )
                raise
            received = counters.t_last = now()
            responder, reply_seq = message_id(reply)
            self._record_answered(
                requester=number, destination=destination, seq=seq, bytes=len(body), t_planned=planned, t_sent=sent,
                reply_destination=reply_destination, responder=responder, reply_seq=reply_seq, reply_bytes=len(reply),
                t_received=received, redelivered=redelivered,
            )  # fmt: skip
            counters.sent = seq + 1
            counters.received += 1
            if timeline.counts(sent):
                counters.counted_sent += 1
            if timeline.counts(received):
                counters.counted_received += 1
                counters.counted_round_trips += 1
        await self._requester.close()
