"""A sender channel: it connects, learns from the token what has arrived, and moves batches until it is stopped."""

import asyncio
import logging
import time
from collections.abc import Coroutine
from contextlib import suppress
from enum import StrEnum
from typing import Final, TypeVar

from mqlab.broker.channel_settings import ChannelError, ChannelSettings
from mqlab.broker.core.monitoring import EVERY, Mean
from mqlab.broker.server.channels.batch import ChannelBatch
from mqlab.broker.server.channels.host import ChannelHost
from mqlab.broker.server.channels.receiving_end import ReceivingEnd, read_password
from mqlab.broker.server.channels.sending_end import SendingEnd
from mqlab.broker.server.channels.token import ChannelToken
from mqlab.broker.settings import Level
from mqlab.client.errors import MessagingError, RefusedError
from mqlab.json_values import JsonObject
from mqlab.wire.tls import TlsError

T = TypeVar("T")

log = logging.getLogger("mqlab.broker")

# Characters of another broker's text in a log line.
_MOST_LOGGED: Final = 500
_FIRST_PAUSE_S: Final = 0.05
# After this time without progress the channel pings the other broker.
_PING_AFTER_S: Final = 1.0


class ChannelState(StrEnum):
    RUNNING = "running"
    BLOCKED = "blocked"  # the other broker answers, but does not accept the batch yet
    RETRYING = "retrying"
    STOPPED = "stopped"


class ChannelStatus:
    """Counters are always on; batch sizes and round trips are sampled as the monitoring level says."""

    def __init__(self, channel: ChannelSettings, monitoring: Level) -> None:
        self._channel = channel
        self.set_monitoring(monitoring)
        self.state, self.reason, self._since = ChannelState.STOPPED, "", _now()
        self.messages = self.bytes = self.batches = 0
        # Messages that the other broker refused, now dead letters; non-persistent ones lost when it crashed.
        self.refused = self.lost = 0
        self.in_doubt = 0
        self._round_trip, self._batch = Mean(), Mean()

    def set_monitoring(self, level: Level) -> None:
        self._every = EVERY[level]

    def set_state(self, state: ChannelState, reason: str = "") -> None:
        if state != self.state:
            self._since = _now()
        self.state, self.reason = state, reason

    def batch_moved(self, messages: int, size: int, seconds: float) -> None:
        self.messages += messages
        self.bytes += size
        self.batches += 1
        if self._every and self.batches % self._every == 0:
            self._round_trip.add(seconds * 1e6)
            self._batch.add(messages)

    def shown(self) -> JsonObject:
        """`since` is ms since 1970; `monitoring` is None if it is off."""
        return {
            "to": self._channel.to, "address": self._channel.address, "state": self.state.value,
            "reason": self.reason, "since": self._since, "messages": self.messages, "bytes": self.bytes,
            "batches": self.batches, "batch_mean": self.messages / self.batches if self.batches else None,
            "in_doubt": self.in_doubt, "refused": self.refused, "lost": self.lost,
            "monitoring": self._monitoring() if self._every else None,
        }  # fmt: skip

    def _monitoring(self) -> JsonObject:
        trip, batch = self._round_trip, self._batch
        return {
            "looks": trip.looks, "batch_short": batch.short, "batch_long": batch.long,
            "round_trip_short_us": trip.short, "round_trip_long_us": trip.long,
        }  # fmt: skip


def _now() -> int:
    return time.time_ns() // 1_000_000


class SenderChannel:
    """`password`, if given, replaces the one in the file that the settings name."""

    def __init__(self, broker: ChannelHost, settings: ChannelSettings, password: str = "") -> None:
        self.settings = settings
        self.status = ChannelStatus(settings, broker.core.monitoring)
        self._own = broker.settings.name
        self._password = password
        self._sending_end = SendingEnd(broker, settings.to, settings.batch)
        self._task: asyncio.Task[None] | None = None
        # A batch whose commit the other broker has not answered, and whether the token sent with it is persistent.
        self._in_doubt: tuple[ChannelBatch, bool] | None = None
        self._retry_now = asyncio.Event()

    def start(self) -> None:
        """A channel that waits for its next attempt tries at once."""
        self._retry_now.set()
        if self._task is None:
            self.status.set_state(ChannelState.RETRYING, "not connected yet")
            self._task = asyncio.ensure_future(self._run())
            self._task.add_done_callback(self._ended)

    async def stop(self) -> None:
        """A batch under way may have arrived or not; the next start finds out."""
        task = self._task
        if task is not None:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            # Another request may have stopped the channel at the same time, and started it since.
            if self._task is task:
                self._task = None
                self._sending_end.release()
                self.status.set_state(ChannelState.STOPPED)

    def _ended(self, task: asyncio.Task[None]) -> None:
        """Only an unexpected error ends the task by itself."""
        if not task.cancelled() and (error := task.exception()) is not None:
            log.error("channel to %s stops: %s", self.settings.to, error, exc_info=error)
            self._task = None
            self._sending_end.release()
            self.status.set_state(ChannelState.STOPPED, str(error))

    async def _run(self) -> None:
        pause_s, logged_reason = _FIRST_PAUSE_S, ""
        while True:
            began, batches = time.monotonic(), self.status.batches
            try:
                await self._run_connection()
            except (MessagingError, ChannelError, TlsError, OSError, UnicodeDecodeError) as error:
                reason = _one_line(str(error)) or "the broker does not answer"
            if self.status.batches > batches or time.monotonic() - began > self.settings.retry:
                pause_s, logged_reason = _FIRST_PAUSE_S, ""
            self.status.set_state(ChannelState.RETRYING, reason)
            if reason != logged_reason:
                log.warning("channel to %s: %s; the channel tries again", self.settings.to, reason)
                logged_reason = reason
            self._retry_now.clear()
            with suppress(TimeoutError):
                async with asyncio.timeout(pause_s):
                    await self._retry_now.wait()
            pause_s = min(2 * pause_s, self.settings.retry)

    async def _run_connection(self) -> None:
        """Move batches over one connection until it ends. Raises the error that ended it."""
        password = self._password or read_password(self.settings.password_file)
        receiver = await ReceivingEnd.connect(self.settings, self._own, password)
        try:
            self._resume(await self._with_pings(receiver, receiver.token(), self.status.state))
            log.info("channel to %s: connected to %s", self.settings.to, self.settings.address)
            while True:
                self.status.set_state(ChannelState.RUNNING)
                batch = await self._with_pings(receiver, self._sending_end.next_batch(), self.status.state)
                await self._with_pings(receiver, self._move(receiver, batch, fresh=False), ChannelState.BLOCKED)
        finally:
            await receiver.close()

    def _resume(self, token: ChannelToken | None) -> None:
        """The token says whether the batch in doubt has arrived."""
        in_doubt, self._in_doubt, self.status.in_doubt = self._in_doubt, None, 0
        if token is None and in_doubt is not None and not in_doubt[1]:
            # The other broker has restarted and lost the non-persistent token. If the batch had arrived, it is lost
            # with it, or was consumed: a second send could deliver it twice.
            lost = self._sending_end.resume(in_doubt[0].ranges)
            self.status.lost += lost
            log.warning("channel to %s: %d non-persistent messages were lost", self.settings.to, lost)
            return
        arrived = self._sending_end.resume([*token.ids] if token is not None else [])
        if arrived:
            log.info("channel to %s: %d messages that were in doubt had arrived", self.settings.to, arrived)
        self.status.messages += arrived

    async def _move(self, receiver: ReceivingEnd, batch: ChannelBatch, *, fresh: bool) -> None:
        """`fresh`: the batch is for one queue, and the channel opens a new producer for it."""
        try:
            await self._transfer(receiver, batch)
        except RefusedError as error:
            self._in_doubt, self.status.in_doubt = None, 0
            await receiver.rollback()
            if disk_full := await receiver.ping():
                raise MessagingError(f"the broker cannot write persistent messages now: {disk_full}") from None
            if fresh:
                self._give_up(batch, _one_line(str(error)))
                return
            # Find the queue that refuses. A queue that was deleted and created again refuses only old producers.
            for part in batch.by_target():
                await self._move(receiver, part, fresh=True)

    async def _transfer(self, receiver: ReceivingEnd, batch: ChannelBatch) -> None:
        began = time.monotonic()
        if "" in batch.targets:
            raise RefusedError("a client sent it to the transmission queue itself, so it has no destination")
        await receiver.send(batch)
        leaving, persistent_leaving = self._sending_end.leaving
        persistent = persistent_leaving or batch.persistent
        self._in_doubt, self.status.in_doubt = (batch, persistent), batch.rows
        await receiver.commit(ChannelToken.of([*leaving, *batch.ranges]), persistent=persistent)
        self._in_doubt, self.status.in_doubt = None, 0
        self._sending_end.arrived(batch)
        self.status.batch_moved(batch.rows, batch.size, time.monotonic() - began)

    def _give_up(self, batch: ChannelBatch, reason: str) -> None:
        target = batch.targets[0] or "no queue"
        message = "channel to %s: %d messages for %s go to the dead letter queue: %s"
        log.warning(message, self.settings.to, batch.rows, target, reason)
        self._sending_end.give_up(batch)
        self.status.refused += batch.rows

    async def _with_pings(self, receiver: ReceivingEnd, work: Coroutine[object, None, T], meanwhile: ChannelState) -> T:
        """Run `work` and ping the other broker; `meanwhile` is the state of the channel for that time."""
        task = asyncio.ensure_future(work)
        try:
            while not task.done():
                await asyncio.wait((task, receiver.ended), timeout=_PING_AFTER_S, return_when=asyncio.FIRST_COMPLETED)
                if task.done():
                    break
                if receiver.ended.done():
                    raise receiver.ended.result()
                await receiver.ping()
                self.status.set_state(meanwhile)
            return task.result()
        finally:
            if not task.done():
                task.cancel()
                await asyncio.gather(task, return_exceptions=True)
            elif not task.cancelled():
                # Fetch an error that came after the other one: the loop logs errors that are never fetched.
                task.exception()


def _one_line(text: str) -> str:
    """Printable text, whatever the other broker sent."""
    return text[:_MOST_LOGGED] if text.isprintable() else text[:_MOST_LOGGED].encode("unicode_escape").decode()
