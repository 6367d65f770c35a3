"""One broker in one event loop: core, journal and connections put together."""

import asyncio
import logging
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, TextIO

from mqlab.broker.core.broker import Core
from mqlab.broker.core.effects import Append, Committed, Confirm, Credit, Deliver, Effect, Finished, RolledBack
from mqlab.broker.core.records import Declare
from mqlab.broker.server.worker import Done, Worker
from mqlab.broker.settings import Settings
from mqlab.broker.store.files import Files, TracedFiles, TurningDisk
from mqlab.broker.store.group import MOST_UNDER_WAY
from mqlab.broker.store.journal import Journal, SyncCounters
from mqlab.broker.store.lock import FolderLock
from mqlab.broker.store.recovery import recover

log = logging.getLogger("mqlab.broker")


class Broker:
    """Owns the core. Adapters call its commands and then `carry_out()`; it calls the adapters' connections back."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.core = Core(settings)
        # Set when the broker cannot go on: its reason to stop.
        self.failure: asyncio.Future[BaseException] = asyncio.get_running_loop().create_future()
        self.connections: set[Any] = set()
        # Connections with something to write at the end of this turn.
        self.unsent: list[Any] = []
        self._loop = asyncio.get_running_loop()
        self._journal: Journal | None = None
        self._worker: Worker | None = None
        self._lock: FolderLock | None = None
        self._trace: TextIO | None = None
        self._flush_is_due = False
        self._carrying_out = False
        self._actions: dict[type[Effect], Callable[[Any], None]] = {
            Deliver: lambda effect: effect.consumer.session.owner.deliver(effect),
            Confirm: lambda effect: effect.producer.session.owner.confirm(effect),
            Credit: lambda effect: effect.producer.session.owner.credit(effect),
            Finished: lambda effect: effect.producer.session.owner.finished(effect),
            Committed: lambda effect: effect.session.owner.committed(effect),
            RolledBack: lambda effect: effect.session.owner.rolled_back(effect),
            Append: self._append,
        }
        if settings.data is not None:
            self._open_store(settings.data)

    def _open_store(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._lock = FolderLock(folder)
        try:
            self._recover(folder)
        except BaseException:
            self._lock.release()
            raise

    def _recover(self, folder: Path) -> None:
        files: Files = TurningDisk(self.settings.disk_marks) if self.settings.disk_marks else Files()
        found = recover(folder, files)
        if self.settings.file_trace is not None:
            self._trace = self.settings.file_trace.open("w")
            files = TracedFiles(files, self._trace)
        for number, queue in found.queues.items():
            self.core.restore_queue(queue.name, number, queue.next_id, queue.spans())
        self.core.lsn = found.lsn
        if found.torn:
            log.warning("the journal had a torn tail of %d bytes: cut off, none of it had been confirmed", found.torn)
        self._worker = Worker(self._loop, MOST_UNDER_WAY)
        self._journal = Journal(self.settings, folder, files, self, found.segments)
        self._journal.start(found.next_file, found.lsn)

    def carry_out(self) -> None:
        """Do what the core wants done, until it wants nothing more."""
        if self._carrying_out:
            return
        self._carrying_out = True
        effects, actions = self.core.effects, self._actions
        while effects:
            batch = effects.copy()
            effects.clear()
            for effect in batch:
                try:
                    actions[type(effect)](effect)
                except Exception as error:
                    # Nothing in an effect can fail. If one does, going on would promise what was not done.
                    self.on_failure(error)
        self._carrying_out = False
        unsent, self.unsent = self.unsent, []
        for connection in unsent:
            connection.flush()

    def status(self) -> dict[str, Any]:
        """Counters since the start, and the depth now."""
        core = self.core
        syncs = self._journal.counters if self._journal else SyncCounters()
        queues = [*core.queues.values(), *(sub for topic in core.topics.values() for sub in topic.subscriptions)]
        return {
            "messages": sum(queue.messages for queue in queues),
            "bytes": core.flow.size,
            "held_producers": len(core.flow.held),
            "holds": core.flow.holds,
            "syncs": syncs.count,
            "sync_seconds": syncs.seconds,
            "journal_bytes": syncs.bytes,
            "connections": len(self.connections),
        }

    async def close(self) -> None:
        for connection in [*self.connections]:
            connection.drop()
        self.carry_out()
        if self._journal is not None:
            self._journal.closing = True
        if self._worker is not None:
            self._worker.close()
            await asyncio.sleep(0)  # let the last sync report
        if self._journal is not None:
            self._journal.close()
        if self._trace is not None:
            self._trace.close()
        if self._lock is not None:
            self._lock.release()

    def _append(self, effect: Append) -> None:
        assert self._journal is not None
        self._journal.append(effect.record, effect.lsn, effect.waiter)
        if not self._flush_is_due:
            self._flush_is_due = True
            # At the end of this turn of the loop: one write for all connections that were read in it.
            self._loop.call_soon(self._flush)

    def _flush(self) -> None:
        self._flush_is_due = False
        assert self._journal is not None
        self._journal.flush()

    # What the journal needs of its host

    def sync_in(self, work: Callable[[], None], done: Done) -> None:
        assert self._worker is not None
        self._worker.submit(work, done)

    def later(self, seconds: float, action: Callable[[], None]) -> None:
        self._loop.call_later(seconds, action)

    def on_durable(self, lsn: int) -> None:
        self.core.durable(lsn)
        self.carry_out()

    def on_failure(self, error: BaseException) -> None:
        """Nothing may be confirmed any more, so nobody is kept waiting."""
        log.critical("the broker stops: %s", error, exc_info=not isinstance(error, OSError))
        for connection in [*self.connections]:
            connection.drop()
        if not self.failure.done():
            self.failure.set_result(error)

    def declarations(self) -> Iterable[Declare]:
        return self.core.declarations()
