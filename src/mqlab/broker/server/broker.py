"""One broker in one event loop: core, journal and connections put together."""

import asyncio
import logging
import secrets
import tempfile
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from itertools import count
from pathlib import Path
from time import monotonic_ns, time_ns
from typing import Any, Final, TextIO

from mqlab.broker.core.admin import totals
from mqlab.broker.core.broker import Core
from mqlab.broker.core.durability.records import Declare, Remember
from mqlab.broker.core.durability.restore import restore
from mqlab.broker.core.effects import (
    Answer,
    Append,
    BrowseEnded,
    Committed,
    Confirm,
    Continue,
    Credit,
    Deliver,
    Finished,
    Opened,
    Requeued,
    RolledBack,
)
from mqlab.broker.core.model.messages import PayloadOnDisk
from mqlab.broker.security.guard import Guard
from mqlab.broker.security.users_file import UsersFile
from mqlab.broker.server.busy_wait import BusyWait
from mqlab.broker.server.channels.registry import ChannelRegistry
from mqlab.broker.server.disk_threads import DiskThreads, DoneCallback
from mqlab.broker.server.logins import LoginQueue
from mqlab.broker.server.native.unfinished_frames import UnfinishedFrames
from mqlab.broker.server.refusal_log import RefusalLog
from mqlab.broker.server.scheduler import Scheduler
from mqlab.broker.server.trace.activity_trace import ActivityTrace
from mqlab.broker.server.trace.api_trace import ApiTrace
from mqlab.broker.server.trace.isolation import ObserverErrors
from mqlab.broker.settings import Settings
from mqlab.broker.store.files.layer import Files, RotatingDisk, TracedFiles
from mqlab.broker.store.files.lock import FolderLock
from mqlab.broker.store.group_commit import MAX_SYNCS_IN_PROGRESS
from mqlab.broker.store.host import JournalCounters
from mqlab.broker.store.journal import Journal
from mqlab.broker.store.payloads.page_files import PageFiles
from mqlab.broker.store.recovery.recovery import recover
from mqlab.wire.native.bodies import Payload

log = logging.getLogger("mqlab.broker")

# The part of the memory limit that messages may take when the broker starts: what is told of the others takes memory
# too, and producers will want their share. The others stay in the journal until they are delivered.
_KEPT_AT_START: Final = 8
# A lone sender that waits has a message, hears that it is safe, and his consumer acknowledges it. Where more happens
# between two syncs, others would have to wait while the loop does one itself.
_FEW_LOOKS: Final = 4
# So long the record that something was consumed may stay in memory.
_LAZY_SECONDS: Final = 0.001
# The broker looks at the wall clock at least so often while something is to happen at a time of it: somebody may have
# set the clock, and timers follow the monotonic clock.
_WAKE_SECONDS: Final = 1.0
# The wall clock was set if it differs by as much from where the monotonic clock says that it should be.
_CLOCK_STEP_NS: Final = 100_000_000
# Readings of both clocks, of which the quickest counts: the thread may be interrupted between the two.
_CLOCK_READINGS: Final = 5
# Random bytes in the name of a temporary queue: as many as nobody can try.
_TOKEN_BYTES: Final = 16
# While the disk is full: so long it may wait for others, to share a record with them.
_MERGE_SECONDS: Final = 0.05


class Broker:
    """Owns the core. Adapters call its commands and then `run_effects()`; it calls the adapters' connections back."""

    # Looked up for each frame: CPython finds attributes quickly in slots, or among at most 30 of an object.
    __slots__ = (
        "__dict__", "__weakref__", "_actions", "_busy_wait", "_context", "_effects", "_journal", "_looks",
        "_running_effects", "_wake", "_wakes", "_wakes_at", "_wall_ahead", "now", "scheduler", "unsent",
    )  # fmt: skip

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.core = Core(settings)
        self._context = self.core.context
        self._effects, self._wakes = self.core.effects, self.core.wake_times
        # Set when the broker cannot go on: its reason to stop.
        self.failure: asyncio.Future[BaseException] = asyncio.get_running_loop().create_future()
        self.connections: set[Any] = set()
        self.numbers = count(1)
        # When that came which is dealt with now (ns since 1970).
        self.now = 0
        # Nanoseconds by which the wall clock is ahead of the monotonic clock.
        self._wall_ahead = _wall_ahead()
        self.guard = Guard()
        self.refusals = RefusalLog()
        self.users = UsersFile(settings.users) if settings.users is not None else None
        self.logins = LoginQueue(self.users, self.guard) if self.users is not None else None
        self.channels = ChannelRegistry(self)
        # Connections with something to write at the end of this turn.
        self.unsent: list[Any] = []
        self._loop = asyncio.get_running_loop()
        self.scheduler = Scheduler(self._loop)
        self.unfinished = UnfinishedFrames(settings.memory_limit)
        self._busy_wait = BusyWait(self._loop, settings.busy_wait) if settings.busy_wait else None
        self._journal: Journal | None = None
        self._worker: DiskThreads | None = None
        self._lock: FolderLock | None = None
        self._trace: TextIO | None = None
        self._pages: PageFiles | None = None
        self._temporary: tempfile.TemporaryDirectory[str] | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        # What was consumed is written with the rest, or lazily.
        self._flush_is_due = self._lazy_flush_is_due = False
        self._running_effects = False
        # At the clock, since the last sync was asked for: how often something came that had to be dealt with.
        self._looks = 0
        # When the core wants to be woken, as far as that is arranged (ms since 1970), and what will do it.
        self._wake: asyncio.TimerHandle | None = None
        self._wakes_at = 0
        self._actions: dict[type, Callable[[Any], None]] = {
            Deliver: lambda effect: effect.consumer.session.owner.deliver(effect),
            Confirm: lambda effect: effect.producer.session.owner.confirm(effect),
            Credit: lambda effect: effect.producer.session.owner.credit(effect),
            Opened: lambda effect: effect.consumer.session.owner.opened(effect),
            Finished: lambda effect: effect.producer.session.owner.finished(effect),
            Committed: lambda effect: effect.session.owner.committed(effect),
            RolledBack: lambda effect: effect.session.owner.rolled_back(effect),
            Requeued: lambda effect: effect.consumer.session.owner.taken_back(effect),
            BrowseEnded: lambda effect: effect.consumer.session.owner.seen(effect),
            Answer: lambda effect: effect.owner.answer(effect),
            Continue: lambda effect: self.scheduler.defer(partial(self._go_on, effect.work)),
            Append: self._append,
        }
        self.observer_errors = ObserverErrors()
        self.activity = ActivityTrace(settings, self.core, self.connections, self.run_effects, self.observer_errors)
        self.api_trace: ApiTrace | None = None
        if settings.api_trace is not None:
            self.api_trace = ApiTrace(settings.api_trace, self.observer_errors, internal=settings.api_trace_internal)
            self._actions = self.api_trace.around(self._actions)
        self.update_clock()
        self.core.context.page_out = self._page_out
        self.core.context.new_token = partial(secrets.token_hex, _TOKEN_BYTES)
        if settings.data is not None:
            self._open_store(settings.data)
            self.run_effects()

    def _open_store(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._lock = FolderLock(folder)
        try:
            self._recover(folder)
        except BaseException:
            self._lock.release()
            raise

    def _recover(self, folder: Path) -> None:
        files: Files = RotatingDisk(self.settings.disk_marks) if self.settings.disk_marks else Files()
        found = recover(folder, files, self.settings.memory_limit // _KEPT_AT_START)
        if self.settings.file_trace is not None:
            self._trace = self.settings.file_trace.open("w")
            files = TracedFiles(files, self._trace)
        restore(self.core, found)
        if found.torn:
            log.warning(
                "the journal ends with %d bytes that cannot be read: cut off. No record proves that they had been "
                "confirmed, as after a crash while they were written; if the disk has lost them instead, messages "
                "after record %d are missing", found.torn, found.lsn,
            )  # fmt: skip
        self._worker = DiskThreads(self._loop, MAX_SYNCS_IN_PROGRESS)
        self._pages = PageFiles(folder / "pages", files)
        self._journal = Journal(self.settings, folder, files, self, found.segments)
        self._journal.start(found.next_file, found.lsn, found.manifest)
        self.core.records.free_bytes, self.core.records.request_space = 0, self._journal.make_room

    def update_clock(self) -> None:
        """What the core must know of the world before it decides: how late it is."""
        now = time_ns()
        if not 0 <= now - self.now < _CLOCK_STEP_NS:
            # Nothing has happened for a while, or somebody has set the clock.
            self._follow_clock()
        self.now = now
        self._looks += 1
        context = self._context
        # One reading of a clock is enough for both.
        context.monotonic_us = (now - self._wall_ahead) // 1000
        context.now_ms = now // 1_000_000

    def _follow_clock(self) -> None:
        """Compare the wall clock, which somebody may have set, with the monotonic clock."""
        before, self._wall_ahead = self._wall_ahead, _wall_ahead()
        step = self._wall_ahead - before
        if abs(step) >= _CLOCK_STEP_NS:
            log.info("the clock was set %s by %.3f s", "forward" if step > 0 else "back", abs(step) / 1e9)
            if step < 0:
                self.core.clock_set_back(-step // 1_000_000)

    def run_effects(self) -> None:
        """Do what the core wants done, until it wants nothing more."""
        if self._running_effects:
            return
        effects = self._effects
        if effects:
            self._running_effects, actions = True, self._actions
            # What comes of it meanwhile is appended, and has its turn after what is there.
            for effect in effects:
                try:
                    actions[type(effect)](effect)
                except Exception as error:
                    # Nothing in an effect can fail. If one does, going on would promise what was not done.
                    self.on_failure(error)
            effects.clear()
            self._running_effects = False
        if self.unsent:
            unsent, self.unsent = self.unsent, []
            for connection in unsent:
                connection.flush()
        if self._busy_wait is not None:
            self._busy_wait.stay()
        if self._wakes and (self._wake is None or self._wakes[0][0] < self._wakes_at):
            self._arrange_wake(self._wakes[0][0])

    def keep(self, task: "asyncio.Task[None]") -> None:
        """The loop itself holds tasks only weakly."""
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def status(self) -> dict[str, Any]:
        """Counters since the start, and the depth now."""
        counters = self._journal.counters if self._journal else JournalCounters()
        return {
            **totals(self.core),
            "syncs": counters.syncs,
            "sync_seconds": counters.sync_seconds,
            "journal_bytes": counters.bytes,
            "journal_length": self._journal.length if self._journal else 0,
            "checkpoints": counters.checkpoints,
            "checkpoint_seconds": counters.checkpoint_seconds,
            "checkpoint_bytes": counters.carried_bytes,
            "connections": len(self.connections),
            "longest_turn_ns": self.scheduler.longest_turn_ns,
        }

    async def close(self) -> None:
        self.scheduler.close()
        for task in self._tasks:
            task.cancel()
        for connection in [*self.connections]:
            connection.drop()
        self.core.records.append_merged_removals()
        self.run_effects()
        self.activity.close()
        if self._wake is not None:
            self._wake.cancel()
        if self._journal is not None:
            self._journal.closing = True
        if self._worker is not None:
            self._worker.close()
            await asyncio.sleep(0)  # let the last sync report
        if self._journal is not None:
            self._journal.close()
        if self._pages is not None:
            self._pages.close()
        if self._temporary is not None:
            self._temporary.cleanup()
        if self._trace is not None:
            self._trace.close()
        if self.api_trace is not None:
            self.api_trace.close()
        if self._lock is not None:
            self._lock.release()

    def _go_on(self, work: Callable[[], None]) -> None:
        """With long work of the core."""
        self.update_clock()
        work()
        self.run_effects()

    def _arrange_wake(self, when: int) -> None:
        if self._wake is not None:
            self._wake.cancel()
        self._wakes_at = when
        seconds = min(_WAKE_SECONDS, max(0.0, when / 1000 - time_ns() / 1e9))
        self._wake = self._loop.call_later(seconds, self._wake_core)

    def _wake_core(self) -> None:
        self._wake = None
        self._follow_clock()
        self.update_clock()
        began = self.now
        self.core.tick(self.core.context.now_ms)
        self.run_effects()
        self.scheduler.record_turn(began)

    def _page_out(self, payload: Payload) -> PayloadOnDisk | None:
        """A full disk is no reason to stop: the messages stay in memory, and producers wait the sooner."""
        if self._pages is None:
            self._temporary = tempfile.TemporaryDirectory(prefix="mqlab-pages-")
            self._pages = PageFiles(Path(self._temporary.name), Files())
        try:
            return self._pages.write(payload)
        except OSError as error:
            log.warning("messages cannot be taken out of memory: %s", error)
            return None

    def _append(self, effect: Append) -> None:
        assert self._journal is not None
        if self._journal.append(*effect):
            if not self._flush_is_due:
                self._flush_is_due = True
                # At the end of this turn of the loop: one write for all connections that were read in it.
                self._loop.call_soon(self._flush)
        elif not self._lazy_flush_is_due:
            self._lazy_flush_is_due = True
            self._loop.call_later(_LAZY_SECONDS, self._flush_lazily)

    def _flush_lazily(self) -> None:
        self._lazy_flush_is_due = False
        # One that is being closed writes all it has.
        if self._journal is not None and not (self._flush_is_due or self._journal.closing):
            self._flush()

    def _flush(self) -> None:
        self._flush_is_due = False
        assert self._journal is not None
        if self.api_trace is not None:
            self.api_trace.journal("write")
        self._journal.flush()

    # What the journal needs of its host

    def run_sync(self, work: Callable[[], None], done: DoneCallback, *, quick: bool) -> None:
        assert self._worker is not None
        if self.api_trace is not None:
            self.api_trace.journal("sync")
        begin = self._worker.do_here if quick and self._looks <= _FEW_LOOKS else self._worker.submit
        begin(work, done)
        self._looks = 0

    def later(self, seconds: float, action: Callable[[], None]) -> None:
        self._loop.call_later(seconds, action)

    def on_durable(self, lsn: int) -> None:
        if self.api_trace is not None:
            self.api_trace.journal("durable", lsn)
        self.update_clock()
        # First of all, who waits for it: he has the next one ready while this one goes to its consumers.
        began = self.now
        self.core.on_durable(lsn, self.run_effects)
        self.run_effects()
        self.scheduler.record_turn(began)

    def on_failure(self, error: BaseException) -> None:
        """Nothing may be confirmed any more, so nobody is kept waiting."""
        log.critical("the broker stops: %s", error, exc_info=not isinstance(error, OSError))
        for connection in [*self.connections]:
            connection.drop()
        if not self.failure.done():
            self.failure.set_result(error)

    def on_disk_full(self, reason: str) -> None:
        """Producers of persistent messages are refused with the reason; consumers go on."""
        self.core.disk_full = reason
        self.core.records.merges_removals = bool(reason)
        self._loop.call_later(_MERGE_SECONDS, self._append_consumed)

    def _append_consumed(self) -> None:
        """What was consumed while the disk is full goes to the journal, many messages in a record."""
        if self._journal is None or self._journal.closing:
            return
        self.core.records.append_merged_removals()
        self.run_effects()
        if self.core.records.merges_removals:
            self._loop.call_later(_MERGE_SECONDS, self._append_consumed)

    def declarations(self) -> Iterable[Declare]:
        return self.core.destinations.declarations()

    def remembered(self) -> Iterable[Remember]:
        return self.core.destinations.remembered_ids()

    def carry_forward(self, intervals: dict[int, list[tuple[int, int]]], xids: Sequence[str]) -> None:
        self.core.checkpoint(intervals, xids)
        self.run_effects()


def _wall_ahead() -> int:
    """Nanoseconds by which the wall clock is ahead of the monotonic clock."""
    readings = []
    for _ in range(_CLOCK_READINGS):
        before, wall, after = monotonic_ns(), time_ns(), monotonic_ns()
        readings.append((after - before, wall - (before + after) // 2))
    return min(readings)[1]
