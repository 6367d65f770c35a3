"""The roles of request/reply.

A requester sends a request, waits for its reply, then sends the next one, at once or by a schedule. A responder replies
to each request; requests that arrive together get their replies together. A reply carries the id of its request, and
the requester compares it with the id of the request that it sent.

Both work by callbacks of their driver: a role does all work for a round trip when the reader of the socket calls it.
"""

import asyncio

from mqlab.drivers import DriverError, DriverRequester, Receiver, Reply, RequestBatch, Responder, Sender
from mqlab.events.recorder import CONFIRMED_CODE, NO_TIME, UNKNOWN_CODE, Recorder
from mqlab.runner.agents.assignment import Role
from mqlab.runner.agents.bodies import is_reply_to, message_id
from mqlab.runner.agents.pacing import SendSchedule, schedule_of
from mqlab.runner.agents.receipts import ReceiptLog
from mqlab.runner.agents.varied.bodies import body_check, single_maker
from mqlab.runner.timeline import NEVER, RoleCounters, Timeline, now, sleep_until
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
        self._maker = single_maker(role.number, point)
        self._check = body_check(point)
        own = point.message_share(role.number)
        self._share = NEVER if own is None else own
        self._schedule: SendSchedule | None = None
        # The request that waits for its reply, when it was planned and when it was sent.
        self._body = b""
        self._planned = self._sent = 0

    async def play(self, timeline: Timeline) -> None:
        """Returns when the reply to its last request has come. Raises DriverError."""
        self._schedule = schedule_of(self._point, self._point.requesters, 1, timeline.start)
        self._timeline = timeline
        self._ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        await sleep_until(timeline.start)
        try:
            self._plan_next()
            await self._ended
        except BaseException:
            self._requester.stop()
            self._record_unanswered()
            raise
        await self._requester.close()

    def _plan_next(self) -> None:
        """Send the next request, now or when it is due; or end."""
        planned = now() if self._schedule is None else self._schedule.plan_next()
        if self.counters.sent >= self._share or planned >= self._timeline.stop:
            self._ended.set_result(None)
        elif self._schedule is None:
            self._send(planned)
        else:
            self._send_when_due(planned)

    def _send_when_due(self, planned: int) -> None:
        """A timer of whole milliseconds may fire early, and no request is sent before its time."""
        if self._ended.done():
            return
        if (left := planned - now()) > 0:
            self._ended.get_loop().call_later(left / 1e9, self._send_when_due, planned)
            return
        try:
            self._send(planned)
        except Exception as error:  # any error: the role must not end silently
            self._ended.set_exception(error)

    def _send(self, planned: int) -> None:
        seq = self.counters.sent
        self._planned, self._body = planned, self._maker.make_single(seq)
        self._sent = now()
        self._requester.ask(self._body, f"{self.role.number}-{seq}", self._on_reply)

    def _on_reply(self, reply: Reply | DriverError) -> None:
        if self._ended.done():
            return
        if isinstance(reply, DriverError):
            self._ended.set_exception(reply)
            return
        try:
            self._record(*reply)
            self._plan_next()
        except Exception as error:  # as above
            self._ended.set_exception(error)

    def _record(self, reply: bytes, redelivered: bool) -> None:
        """Raises ForeignMessageError."""
        counters, timeline, role, body, sent = self.counters, self._timeline, self.role, self._body, self._sent
        received, seq = now(), counters.sent
        self._body = b""
        responder, reply_seq = message_id(reply)
        self._record_answered(
            requester=role.number, destination=role.destination, seq=seq, bytes=len(body), t_planned=self._planned,
            t_sent=sent, reply_destination=role.reply_destination, responder=responder, reply_seq=reply_seq,
            reply_bytes=len(reply), damaged=self._check.is_damaged_reply(reply), t_received=received,
            redelivered=redelivered, mismatched=not is_reply_to(body, reply),
        )  # fmt: skip
        counters.t_last = received
        counters.sent = counters.sent_messages = seq + 1
        counters.received += 1
        counters.received_messages += 1
        if timeline.counts(sent):
            counters.counted_sent += 1
        if timeline.counts(received):
            counters.counted_received += 1
            counters.counted_round_trips += 1

    def _record_unanswered(self) -> None:
        """Record the request whose reply has not come, if there is one."""
        if not self._body:
            return
        number, seq, times = self.role.number, self.counters.sent, (self._planned, self._sent)
        self._recorder.sends.append(
            producer=number, destination=self.role.destination, first_seq=seq, count=1, bytes=len(self._body),
            t_planned=times[0], t_sent=times[1], t_confirmed=NO_TIME, outcome=UNKNOWN_CODE,
        )  # fmt: skip
        self._recorder.round_trips.append(
            requester=number, seq=seq, t_planned=times[0], t_sent=times[1], t_received=NO_TIME, mismatched=False
        )


class ResponderRole:
    """A consumer of requests and a producer of replies; the replies have its own number and sequence."""

    def __init__(self, role: Role, point: Point, responder: Responder, recorder: Recorder) -> None:
        self.role = role
        self.counters = RoleCounters()
        # The error that ended the role before it was stopped.
        self.failed: Exception | None = None
        self.link: Sender | Receiver | None = None
        self._persistent = point.persistent
        self._responder = responder
        self._log = ReceiptLog(role, body_check(point), recorder)
        # The replies whose outcome is not known: all, or the last ones if they are persistent.
        self._unconfirmed = recorder.sends.pending()
        self._maker = single_maker(role.number, point)

    async def play(self, timeline: Timeline) -> None:
        """Runs until it is cancelled."""
        self._timeline = timeline
        self._ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        try:
            self._responder.start(self)
            await self._ended
        except Exception as error:  # any error: the role must not end silently
            self.failed = error
        finally:
            await self._responder.stop()
            if self._persistent:
                self._unconfirmed.release()

    async def close(self) -> None:
        """Called after `play` was cancelled: returns when the system has accepted all replies."""
        if self.failed is None:
            await self._responder.close()
            self._unconfirmed.release(outcome=CONFIRMED_CODE)

    # Called by the responder

    def on_requests(self, requests: RequestBatch) -> list[bytes]:
        counters, timeline, count = self.counters, self._timeline, len(requests.bodies)
        received, first_seq = now(), counters.sent
        self._log.record_requests(requests, received)
        make_reply = self._maker.make_reply
        replies = [make_reply(seq, body) for seq, body in enumerate(requests.bodies, first_seq)]
        counters.received += count
        counters.received_messages += count
        if timeline.counts(received):
            counters.counted_received += count
        counters.sent += count
        counters.sent_messages += count
        sent = now()
        if timeline.counts(sent):
            counters.counted_sent += count
        self._unconfirmed.append(
            producer=self.role.number, destination=self.role.reply_destination, first_seq=first_seq, count=count,
            bytes=sum(map(len, replies)), t_planned=sent, t_sent=sent, t_confirmed=NO_TIME, outcome=UNKNOWN_CODE,
        )  # fmt: skip
        return replies

    def on_confirmed(self) -> None:
        """A request is done only when its persistent reply is confirmed."""
        self._unconfirmed.release(t_confirmed=now(), outcome=CONFIRMED_CODE)

    def on_failure(self, error: Exception) -> None:
        if not self._ended.done():
            self._ended.set_exception(error)
