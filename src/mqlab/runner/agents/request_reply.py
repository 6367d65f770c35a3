"""The roles of request/reply.

A requester sends a request, waits for its reply, then sends the next one, at once or by a schedule. A responder replies
to each request; requests that arrive together get their replies together. A reply carries the id of its request, and
the requester compares it with the id of the request that it sent.
"""

from mqlab.drivers import DriverRequester, Receiver, Responder, Sender
from mqlab.events.recorder import CONFIRMED_CODE, NO_TIME, UNKNOWN_CODE, Recorder
from mqlab.runner.agents.assignment import Role
from mqlab.runner.agents.bodies import BodyCheck, BodyMaker, is_reply_to, message_id
from mqlab.runner.agents.pacing import SendSchedule
from mqlab.runner.agents.receipts import ReceiptLog
from mqlab.runner.timeline import RoleCounters, Timeline, now, share, sleep_until
from mqlab.study import Point


class RequesterRole:
    """A producer of requests and a consumer of replies: recorded as both, and as round trips."""

    def __init__(self, role: Role, point: Point, requester: DriverRequester, recorder: Recorder) -> None:
        self.role = role
        self.counters = RoleCounters()
        # Its link has no frames of its own to count.
        self.link: Sender | Receiver | None = None
        self._point = point
        self._requester = requester
        self._recorder = recorder
        self._record_answered = recorder.answered.append
        self._maker = BodyMaker(role.number, point.size, 1)
        self._check = BodyCheck(point.size)
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
                    requester=number, seq=seq, t_planned=planned, t_sent=sent, t_received=NO_TIME, mismatched=False
                )
                raise
            received = counters.t_last = now()
            responder, reply_seq = message_id(reply)
            self._record_answered(
                requester=number, destination=destination, seq=seq, bytes=len(body), t_planned=planned, t_sent=sent,
                reply_destination=reply_destination, responder=responder, reply_seq=reply_seq, reply_bytes=len(reply),
                damaged=self._check.is_damaged_reply(reply), t_received=received, redelivered=redelivered,
                mismatched=not is_reply_to(body, reply),
            )  # fmt: skip
            counters.sent = counters.sent_messages = seq + 1
            counters.received += 1
            counters.received_messages += 1
            if timeline.counts(sent):
                counters.counted_sent += 1
            if timeline.counts(received):
                counters.counted_received += 1
                counters.counted_round_trips += 1
        await self._requester.close()


class ResponderRole:
    """A consumer of requests and a producer of replies; the replies have its own number and sequence."""

    def __init__(self, role: Role, point: Point, responder: Responder, recorder: Recorder) -> None:
        self.role = role
        self.counters = RoleCounters()
        # The error that ended the role before it was stopped.
        self.failed: Exception | None = None
        self.link: Sender | Receiver | None = None
        self._point = point
        self._responder = responder
        self._log = ReceiptLog(role, point.size, recorder)
        self._record_send = recorder.sends.append
        self._unconfirmed = recorder.sends.pending()
        self._maker = BodyMaker(role.number, point.size, 1)

    async def play(self, timeline: Timeline) -> None:
        """Runs until it is cancelled."""
        counters = self.counters
        try:
            while True:
                arrival = await self._responder.receive()
                received, requests = now(), len(arrival.bodies)
                ranges = self._log.record(arrival, received)
                counters.received += requests
                counters.received_messages += requests
                if timeline.counts(received):
                    counters.counted_received += requests
                if timeline.counts(await self._reply(ranges, requests)):
                    counters.counted_sent += requests
        except Exception as error:  # any error: the role must not end silently
            self.failed = error

    async def close(self) -> None:
        """Called after `play` was cancelled: returns when the system has accepted all replies."""
        if self.failed is None:
            await self._responder.close()
            self._unconfirmed.release(outcome=CONFIRMED_CODE)

    async def _reply(self, ranges: list[tuple[int, int, int, int]], count: int) -> int:
        """Answer the requests of these ranges, `count` in all. Returns when it called its driver."""
        first_seq, persistent = self.counters.sent, self._point.persistent
        requests = [(requester, first + n) for requester, first, messages, _ in ranges for n in range(messages)]
        bodies = [self._maker.make_reply(seq, *request) for seq, request in enumerate(requests, first_seq)]
        self.counters.sent += count
        self.counters.sent_messages += count
        record = self._record_send if persistent else self._unconfirmed.append
        sent, confirmed, outcome = now(), NO_TIME, UNKNOWN_CODE
        try:
            # A request is done only when its persistent reply is confirmed.
            await self._responder.reply(bodies, wait=persistent)
            if persistent:
                confirmed, outcome = now(), CONFIRMED_CODE
        finally:
            record(
                producer=self.role.number, destination=self.role.reply_destination, first_seq=first_seq, count=count,
                bytes=count * self._point.size, t_planned=sent, t_sent=sent, t_confirmed=confirmed, outcome=outcome,
            )  # fmt: skip
        return sent
