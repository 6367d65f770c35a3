"""A sending channel: connects, finds out what has arrived, and moves batch after batch until it is stopped."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Coroutine
from contextlib import suppress
from typing import Any, Final, TypeVar

from mqlab.broker.channel_settings import ChannelError, ChannelSettings
from mqlab.broker.server.channels.batch import ChannelBatch
from mqlab.broker.server.channels.host import ChannelHost
from mqlab.broker.server.channels.receiving_end import ReceivingEnd, read_password
from mqlab.broker.server.channels.sending_end import SendingEnd
from mqlab.broker.server.channels.status import ChannelState, ChannelStatus
from mqlab.broker.server.channels.token import ChannelToken
from mqlab.client.errors import MessagingError, RefusedError
from mqlab.wire.tls import TlsError

T = TypeVar("T")

log = logging.getLogger("mqlab.broker")

# Of what another broker says, a log line has no more.
_TOLD: Final = 500
_FIRST_PAUSE: Final = 0.05
# What takes longer is a reason to ask whether the other broker is still there.
_PATIENCE: Final = 1.0


class SenderChannel:
    """`password` in place of the one in the settings' file."""

    def __init__(self, broker: ChannelHost, settings: ChannelSettings, password: str = "") -> None:
        self.settings = settings
        self.status = ChannelStatus(settings, broker.settings.monitoring)
        self._own = broker.settings.name
        self._password = password
        self._source = SendingEnd(broker, settings.to, settings.batch)
        self._task: asyncio.Task[None] | None = None
        # A batch whose commit was asked for and not answered, and whether the token that went with it is persistent.
        self._doubt: tuple[ChannelBatch, bool] | None = None
        self._hurry = asyncio.Event()

    def start(self) -> None:
        """One that waits for its next try tries at once."""
        self._hurry.set()
        if self._task is None:
            self.status.become(ChannelState.RETRYING, "it has not connected yet")
            self._task = asyncio.ensure_future(self._run())
            self._task.add_done_callback(self._ended)

    async def stop(self) -> None:
        """What is under way may have arrived or not: that is found out at the next start."""
        task = self._task
        if task is not None:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            # Somebody else may have stopped it at the same time, and started it since.
            if self._task is task:
                self._task = None
                self._source.rest()
                self.status.become(ChannelState.STOPPED)

    def _ended(self, task: asyncio.Task[None]) -> None:
        """Only what nobody thought of ends it by itself."""
        if not task.cancelled() and (error := task.exception()) is not None:
            log.error("channel to %s stops: %s", self.settings.to, error, exc_info=error)
            self._task = None
            self._source.rest()
            self.status.become(ChannelState.STOPPED, str(error))

    async def _run(self) -> None:
        pause, told = _FIRST_PAUSE, ""
        while True:
            began, moved = time.monotonic(), self.status.batches
            try:
                await self._connected()
            except (MessagingError, ChannelError, TlsError, OSError, UnicodeDecodeError) as error:
                reason = _plain(str(error)) or "nobody answers there"
            if self.status.batches > moved or time.monotonic() - began > self.settings.retry:
                pause, told = _FIRST_PAUSE, ""
            self.status.become(ChannelState.RETRYING, reason)
            if reason != told:
                log.warning("channel to %s: %s; it tries again", self.settings.to, reason)
                told = reason
            self._hurry.clear()
            with suppress(TimeoutError):
                async with asyncio.timeout(pause):
                    await self._hurry.wait()
            pause = min(2 * pause, self.settings.retry)

    async def _connected(self) -> None:
        """From one connection to its end. Raises what ended it."""
        password = self._password or read_password(self.settings.password_file)
        sink = await ReceivingEnd.connect(self.settings, self._own, password)
        try:
            self._resume(await self._watched(sink, sink.token(), self.status.state))
            log.info("channel to %s: connected to %s", self.settings.to, self.settings.address)
            while True:
                self.status.become(ChannelState.RUNNING)
                batch = await self._watched(sink, self._source.next_batch(), self.status.state)
                await self._watched(sink, self._move(sink, batch, fresh=False), ChannelState.BLOCKED)
        finally:
            await sink.close()

    def _resume(self, token: ChannelToken | None) -> None:
        """Nothing is in doubt any more."""
        doubt, self._doubt, self.status.in_doubt = self._doubt, None, 0
        if token is None and doubt is not None and not doubt[1]:
            # The other broker died, and the token with it. Had the batch arrived it would be gone as well, unless
            # somebody received it: sent again, it could be there twice.
            lost = self._source.resume(doubt[0].ranges)
            self.status.lost += lost
            log.warning("channel to %s: %d non-persistent messages were lost", self.settings.to, lost)
            return
        arrived = self._source.resume([*token.ids] if token is not None else [])
        if arrived:
            log.info("channel to %s: %d messages that were in doubt had arrived", self.settings.to, arrived)
        self.status.messages += arrived

    async def _move(self, sink: ReceivingEnd, batch: ChannelBatch, *, fresh: bool) -> None:
        """`fresh`: it is for one queue, and no producer is older than it."""
        try:
            await self._transfer(sink, batch)
        except RefusedError as error:
            self._doubt, self.status.in_doubt = None, 0
            await sink.undo()
            if disk_full := await sink.ping():
                raise MessagingError(f"the broker takes no persistent message: {disk_full}") from None
            if fresh:
                self._give_up(batch, _plain(str(error)))
                return
            # Who is it that refuses? A queue that was deleted and made again refuses only those who knew it before.
            for part in batch.by_target():
                await self._move(sink, part, fresh=True)

    async def _transfer(self, sink: ReceivingEnd, batch: ChannelBatch) -> None:
        began = time.monotonic()
        if "" in batch.targets:
            raise RefusedError("somebody put it on the transmission queue, so it is for no queue over there")
        await sink.send(batch)
        leaving, lasting = self._source.leaving
        persistent = lasting or batch.persistent
        self._doubt, self.status.in_doubt = (batch, persistent), batch.rows
        await sink.commit(ChannelToken.of([*leaving, *batch.ranges]), persistent=persistent)
        self._doubt, self.status.in_doubt = None, 0
        self._source.done(batch)
        self.status.moved(batch.rows, batch.size, time.monotonic() - began)

    def _give_up(self, batch: ChannelBatch, reason: str) -> None:
        target = batch.targets[0] or "no queue"
        log.warning("channel to %s: %d messages for %s are dead letters: %s", self.settings.to, batch.rows, target,
                    reason)  # fmt: skip
        self._source.give_up(batch)
        self.status.refused += batch.rows

    async def _watched(self, sink: ReceivingEnd, work: Coroutine[Any, Any, T], meanwhile: ChannelState) -> T:
        """Do it, and see to it that the other broker is still there. `meanwhile`: what the channel is as long."""
        task = asyncio.ensure_future(work)
        try:
            while not task.done():
                await asyncio.wait((task, sink.ended), timeout=_PATIENCE, return_when=asyncio.FIRST_COMPLETED)
                if task.done():
                    break
                if sink.ended.done():
                    raise sink.ended.result()
                await sink.ping()
                self.status.become(meanwhile)
            return task.result()
        finally:
            if not task.done():
                task.cancel()
                await asyncio.gather(task, return_exceptions=True)
            elif not task.cancelled():
                # It may have failed while something else did, and the loop complains about what nobody looks at.
                task.exception()


def _plain(words: str) -> str:
    """On one line, whatever another broker made of it."""
    return words[:_TOLD] if words.isprintable() else words[:_TOLD].encode("unicode_escape").decode()
