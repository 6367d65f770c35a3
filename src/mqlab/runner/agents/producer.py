"""The producer role: sends as fast as the system accepts messages, or by a schedule, and records every send."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Final, TypedDict

import numpy as np

from mqlab.drivers import DriverError, Sender
from mqlab.drivers.api import Integers, Matrix, MessageHeaders, Properties, Texts
from mqlab.drivers.common.filler import ID_SIZE
from mqlab.events.recorder import CONFIRMED_CODE, NO_TIME, UNKNOWN_CODE, Recorder
from mqlab.runner.agents.assignment import Role
from mqlab.runner.agents.bodies import BodyMaker
from mqlab.runner.agents.pacing import SendAhead, schedule_of
from mqlab.runner.agents.varied.bodies import VariedMaker
from mqlab.runner.agents.varied.variants import HeaderColumns, PropertyColumns, body_variants
from mqlab.runner.timeline import NEVER, RoleCounters, Timeline, now, sleep_until
from mqlab.study import Point

# Sends messages that were planned for a moment: how many of them.
_Send = Callable[[int, int], Awaitable[None]]


class _SendColumns(TypedDict, total=False):
    """Arguments of `Sender.send`: what messages have beside their bodies."""

    properties: Properties
    headers: MessageHeaders


_NO_COLUMNS: Final = _SendColumns()


class ProducerRole:
    """Sends from the start to the end of the measure phase, or until its share of a fixed workload is sent.

    `bounded`: it waits for no confirmations, has no schedule, and its send-ahead is bounded. `max_send`: how many
    messages it passes to one call of its driver (0: `batch` of the point). `packed`: as the records of one message.
    `reopen`: in a run with faults, gives a new sender when the former one has failed. The producer then sends again
    what was not confirmed, until it is, or until the drain phase is over.
    """

    def __init__(
        self, role: Role, point: Point, sender: Sender, recorder: Recorder, *, max_send: int = 0,
        packed: bool = False, bounded: bool = False, reopen: Callable[[], Awaitable[Sender]] | None = None,
    ) -> None:  # fmt: skip
        self.role = role
        self.counters = RoleCounters()
        self._point = point
        self._packed = packed
        self._variants = body_variants(point)
        self._varied = None if self._variants is None else VariedMaker(role.number, self._variants)
        self._properties = PropertyColumns(point) if point.properties else None
        self._headers = HeaderColumns(point) if point.has_headers else None
        self._has_columns = bool(self._properties or self._headers or point.selector)
        self._use(sender)
        self._reopen = reopen
        self._record = recorder.sends.append
        self._unconfirmed = recorder.sends.pending()
        self._bounded = bounded
        self._max_send = max_send or point.batch
        # Of bodies that differ in more than their id, it makes the ids.
        self._maker = BodyMaker(role.number, point.size if self._varied is None else ID_SIZE, self._max_send)
        own = point.message_share(role.number)
        self._share = NEVER if own is None else own

    async def play(self, timeline: Timeline) -> None:
        """Returns when the system has accepted everything that it sent. Raises DriverError."""
        self._timeline = timeline
        send, count = self._send_method()
        whole = self._packed or self._point.transaction > 0
        parts = self._point.rate_parts(self.role.destination)
        schedule = schedule_of(self._point, parts, count, timeline.start, whole=whole)
        await sleep_until(timeline.start)
        # The send-ahead counts messages.
        send_ahead = SendAhead(1 if self._packed else count, self._point.producers) if self._bounded else None
        while self.counters.sent < self._share:
            planned = now()
            if schedule is not None:
                planned, count = await schedule.next(timeline.stop)
            elif send_ahead is not None and not self._packed:
                count = send_ahead.next_count
            # A producer that is late sends after the end what was planned before it; the drain phase leaves time for
            # that.
            if planned >= timeline.stop:
                break
            count = min(count, self._share - self.counters.sent)
            if self._reopen is None:
                await send(planned, count)
                is_in_time = True
            else:
                is_in_time = await self._send_through(send, planned, count, self._reopen)
            self.counters.sent += count
            self.counters.sent_messages += -(-count // self._max_send) if self._packed else count
            if not is_in_time:
                # The link may wait for the system, and ends with its connection.
                self.counters.t_last = now()
                return
            if send_ahead is not None:
                await send_ahead.after(1 if self._packed else count, self.link)
        with suppress(*([] if self._reopen is None else [DriverError])):
            # In a run with faults, all messages are confirmed by now.
            await self.link.close()
        self.counters.t_last = now()
        self._unconfirmed.release(outcome=CONFIRMED_CODE)

    def _use(self, sender: Sender) -> None:
        self.link = sender
        one_size = sender.send_packed if self._packed else sender.send
        self._send: Callable[..., Awaitable[None]] = one_size if self._varied is None else self._varied.sender(sender)

    async def _send_through(
        self, send: _Send, planned: int, count: int, reopen: Callable[[], Awaitable[Sender]]
    ) -> bool:
        """Send the same messages until the system takes them. False: it has not by the end of the drain phase."""
        end_s = self._timeline.stop / 1e9 + self._point.phases.drain
        try:
            async with asyncio.timeout_at(end_s):
                while True:
                    with suppress(DriverError):
                        await send(planned, count)
                        return True
                    self._use(await reopen())
        except TimeoutError:
            return False

    def _send_method(self) -> tuple[_Send, int]:
        """The method that sends, and the number of messages for one call: at most, or a whole transaction."""
        point = self._point
        if point.transaction:
            return self._send_transaction, point.transaction
        return (self._send_confirmed if point.send == "confirmed" else self._send_unconfirmed), self._max_send

    async def _send_unconfirmed(self, planned: int, count: int) -> None:
        bodies, columns = self._make(self.counters.sent, count)
        sent = now()
        try:
            await self._send(bodies, wait=False, **columns)
        finally:
            # Also after an error: some of the messages may arrive.
            self._count(sent, count)
            self._unconfirmed.append(
                producer=self.role.number, destination=self.role.destination, first_seq=self.counters.sent,
                count=count, bytes=self._size_of(count), t_planned=planned, t_sent=sent, t_confirmed=NO_TIME,
                outcome=UNKNOWN_CODE,
            )  # fmt: skip

    async def _send_confirmed(self, planned: int, count: int) -> None:
        bodies, columns = self._make(self.counters.sent, count)
        sent = now()
        try:
            await self._send(bodies, wait=True, **columns)
        except BaseException:
            self._record_send(count, planned, sent, NO_TIME, UNKNOWN_CODE)
            raise
        self._record_send(count, planned, sent, now(), CONFIRMED_CODE)

    async def _send_transaction(self, planned: int, count: int) -> None:
        """One transaction: all its sends, and a commit."""
        at_once, sent = self._max_send, now()
        try:
            for begin in range(0, count, at_once):
                bodies, columns = self._make(self.counters.sent + begin, min(at_once, count - begin))
                await self._send(bodies, wait=False, **columns)
            await self.link.commit()
        except BaseException:
            self._record_send(count, planned, sent, NO_TIME, UNKNOWN_CODE)
            raise
        self._record_send(count, planned, sent, now(), CONFIRMED_CODE)

    def _count(self, sent: int, count: int) -> None:
        """Every send that is recorded counts, also one that fails."""
        if self._timeline.counts(sent):
            self.counters.counted_sent += count

    def _size_of(self, count: int) -> int:
        """The bytes of the next messages."""
        if self._variants is None:
            return count * self._point.size
        return self._variants.total_size(self.role.number, self.counters.sent, count)

    def _make(self, first_seq: int, count: int) -> tuple[Matrix, _SendColumns]:
        bodies = self._maker.make(first_seq, count)
        return bodies, self._columns(first_seq, count) if self._has_columns else _NO_COLUMNS

    def _columns(self, first_seq: int, count: int) -> _SendColumns:
        """The headers; the properties of the study, and those for a selector."""
        producer, columns = self.role.number, _SendColumns()
        if self._headers is not None:
            columns["headers"] = self._headers.of(producer, first_seq, count)
        properties: dict[str, Integers | Texts] = {}
        if self._properties is not None:
            properties |= self._properties.of(producer, first_seq, count)
        if self._point.selector:
            properties["seq"] = np.arange(first_seq, first_seq + count, dtype=np.int64)
            properties["producer"] = np.full(count, producer, dtype=np.int32)
        if properties:
            columns["properties"] = properties
        return columns

    def _record_send(self, count: int, planned: int, sent: int, confirmed: int, outcome: int) -> None:
        self._count(sent, count)
        self.counters.waits += outcome == CONFIRMED_CODE
        self._record(
            producer=self.role.number, destination=self.role.destination, first_seq=self.counters.sent, count=count,
            bytes=self._size_of(count), t_planned=planned, t_sent=sent, t_confirmed=confirmed, outcome=outcome,
        )  # fmt: skip
