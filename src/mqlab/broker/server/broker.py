"""A broker in one event loop: it connects the core, the journal and the connections."""

import asyncio
import logging
import secrets
import tempfile
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from itertools import count
from pathlib import Path
from time import time_ns
from typing import ClassVar, Final, TextIO

from mqlab.broker.core import effects
from mqlab.broker.core.admin import totals
from mqlab.broker.core.broker import Core
from mqlab.broker.core.durability.records import Declare, Remember
from mqlab.broker.core.durability.restore import restore
from mqlab.broker.core.model.messages import PayloadOnDisk
from mqlab.broker.security.guard import Guard
from mqlab.broker.security.users_file import UsersFile
from mqlab.broker.server.busy_wait import BusyWait
from mqlab.broker.server.channels.registry import ChannelRegistry
from mqlab.broker.server.connections.closing_sockets import ClosingSockets
from mqlab.broker.server.connections.open_connection import Flushable, OpenConnection
from mqlab.broker.server.disk_threads import DiskThreads, DoneCallback
from mqlab.broker.server.logins import LoginQueue
from mqlab.broker.server.mqtt.state import MqttState
from mqlab.broker.server.native.unfinished_frames import UnfinishedFrames
from mqlab.broker.server.refusal_log import RefusalLog
from mqlab.broker.server.scheduler import Scheduler
from mqlab.broker.server.trace.activity_trace import ActivityTrace
from mqlab.broker.server.trace.api_trace import ApiTrace
from mqlab.broker.server.trace.isolation import ObserverErrors
from mqlab.broker.server.wall_clock import wall_ahead_ns
from mqlab.broker.settings import Settings
from mqlab.broker.store.files.layer import DelayedSyncs, Files, RotatingDisk, TracedFiles
from mqlab.broker.store.files.lock import FolderLock
from mqlab.broker.store.group_commit import MAX_SYNCS_IN_PROGRESS
from mqlab.broker.store.host import JournalCounters
from mqlab.broker.store.journal import Journal
from mqlab.broker.store.payloads.page_files import PageFiles
from mqlab.broker.store.recovery.recovery import recover
from mqlab.json_values import JsonObject
from mqlab.wire.native.bodies import Payload

log = logging.getLogger("mqlab.broker")

# Recovery loads payloads up to this part of the memory limit: messages that stay in the journal take memory, too, and
# producers need room.
_RECOVERY_MEMORY_SHARE: Final = 8
# Events between two syncs up to which the loop syncs by itself: a single producer that waits for each confirmation
# causes that many. With more events, a sync in the loop would delay other clients.
_INLINE_SYNC_EVENTS: Final = 4
# How long records of acknowledgements may stay in memory.
_LAZY_FLUSH_SECONDS: Final = 0.001
# The longest pause between two readings of the wall clock while the core waits for a time: timers follow the monotonic
# clock, and an operator may set the wall clock.
_MOST_TIMER_SECONDS: Final = 1.0
# The wall clock was set if wall clock and monotonic clock have moved apart by this much.
_CLOCK_STEP_NS: Final = 100_000_000
# Random bytes in the name of a temporary queue, so that no client can guess it.
_TOKEN_BYTES: Final = 16
# While the disk is full, acknowledgements wait this long to share a record.
_MERGE_SECONDS: Final = 0.05


class Broker:
    """Owns the core. Connections call commands of the core and then `run_effects()`, which calls connections back."""

    # Attributes that each frame needs: CPython finds them quickly in slots, or among at most 30 of an object.
    __slots__ = (
        "__dict__", "__weakref__", "_actions", "_busy_wait", "_context", "_effects", "_events_since_sync", "_journal",
        "_running_effects", "_timer", "_timer_due_ms", "_wakes", "_wall_ahead_ns", "now", "scheduler", "unsent",
    )  # fmt: skip
    core_class: ClassVar[type[Core]] = Core

    def __init__(self, settings: Settings) -> None:
        self.settings, self.core = settings, self.core_class(settings)
        self._context = self.core.context
        self._effects, self._wakes = self.core.effects, self.core.wake_times
        # The error that stops the broker.
        self.failure: asyncio.Future[BaseException] = asyncio.get_running_loop().create_future()
        self.connections: set[OpenConnection] = set()
        self.closing_sockets = ClosingSockets()
        # It ends: it lets no client in any more, since nothing can be stored.
        self.is_closing = False
        self.numbers = count(1)
        # When the current turn began (ns since 1970).
        self.now = 0
        # Nanoseconds by which the wall clock is ahead of the monotonic clock.
        self._wall_ahead_ns = wall_ahead_ns()
        self.guard = Guard()
        self.refusals = RefusalLog()
        self.users = UsersFile(settings.users) if settings.users is not None else None
        self.logins = LoginQueue(self.users, self.guard) if self.users is not None else None
        self.channels = ChannelRegistry(self)
        self.mqtt = MqttState(self, lambda: len(self.connections))
        # Connections with unsent frames; `run_effects` flushes them.
        self.unsent: list[Flushable] = []
        self._loop = asyncio.get_running_loop()
        self.scheduler = Scheduler(self._loop)
        self.unfinished = UnfinishedFrames(settings.memory_limit)
        self._busy_wait = BusyWait(self._loop, settings.busy_wait) if settings.busy_wait else None
        self._journal: Journal | None = None
        self._disk_threads: DiskThreads | None = None
        self._lock: FolderLock | None = None
        self._trace: TextIO | None = None
        self._pages: PageFiles | None = None
        self._temporary: tempfile.TemporaryDirectory[str] | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        # Records of acknowledgements are written with the next other record, or lazily.
        self._flush_is_due = self._lazy_flush_is_due = False
        self._running_effects = False
        # Events since the last sync began.
        self._events_since_sync = 0
        # The timer for the core's next timed event, and when that is due (ms since 1970).
        self._timer: asyncio.TimerHandle | None = None
        self._timer_due_ms = 0
        self._actions: effects.EffectActions = {
            effects.Deliver: lambda effect: effect.consumer.session.owner.deliver(effect),
            effects.Confirm: lambda effect: effect.producer.session.owner.confirm(effect),
            effects.Credit: lambda effect: effect.producer.session.owner.credit(effect),
            effects.Opened: lambda effect: effect.consumer.session.owner.opened(effect),
            effects.Finished: lambda effect: effect.producer.session.owner.finished(effect),
            effects.Committed: lambda effect: effect.session.owner.committed(effect),
            effects.RolledBack: lambda effect: effect.session.owner.rolled_back(effect),
            effects.Requeued: lambda effect: effect.consumer.session.owner.taken_back(effect),
            effects.Cancelled: lambda effect: effect.consumer.session.owner.cancelled(effect),
            effects.BrowseEnded: lambda effect: effect.consumer.session.owner.seen(effect),
            effects.Answer: lambda effect: effect.owner.answer(effect),
            effects.Continue: lambda effect: self.scheduler.defer(partial(self._run_slice, effect.work)),
            effects.Append: self._append,
        }
        self.observer_errors = ObserverErrors()
        self.activity = ActivityTrace(settings, self.core, self.connections, self.run_effects, self.observer_errors)
        self.api_trace: ApiTrace | None = None
        if settings.api_trace is not None:
            self.api_trace = ApiTrace(
                settings.api_trace, self.connections, self.observer_errors, internal=settings.api_trace_internal
            )
            self._actions = self.api_trace.traced_actions(self._actions)
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
        if self.settings.disk_delay is not None:
            files = DelayedSyncs(files, self.settings.disk_delay)
        recovered = recover(folder, files, self.settings.memory_limit // _RECOVERY_MEMORY_SHARE)
        if self.settings.file_trace is not None:
            self._trace = self.settings.file_trace.open("w")
            files = TracedFiles(files, self._trace)
        restore(self.core, recovered)
        if recovered.torn:
            log.warning(
                "the journal ends with %d bytes that cannot be read: cut off. No record proves that they had been "
                "confirmed, as after a crash while they were written; if the disk has lost them instead, messages "
                "after record %d are missing", recovered.torn, recovered.lsn,
            )  # fmt: skip
        self._disk_threads = DiskThreads(self._loop, MAX_SYNCS_IN_PROGRESS)
        self._pages = PageFiles(folder / "pages", files)
        self._journal = Journal(self.settings, folder, files, self, recovered.segments)
        self._journal.start(recovered.next_file, recovered.lsn, recovered.manifest)
        self.core.records.free_bytes, self.core.records.request_space = 0, self._journal.make_room

    def update_clock(self) -> None:
        """Tell the core the time. Each event calls this before it calls commands of the core."""
        now = time_ns()
        if not 0 <= now - self.now < _CLOCK_STEP_NS:
            # The broker was idle for a while, or the clock was set.
            self._follow_clock()
        self.now = now
        self._events_since_sync += 1
        context = self._context
        # One clock reading serves both values.
        context.monotonic_us = (now - self._wall_ahead_ns) // 1000
        context.now_ms = now // 1_000_000

    def clock_ms(self) -> int:
        """The time (ms since 1970) by which durations of clients begin, also before the core knows it."""
        return time_ns() // 1_000_000

    def _follow_clock(self) -> None:
        """Compare the wall clock with the monotonic clock, in case it was set."""
        before_ns, self._wall_ahead_ns = self._wall_ahead_ns, wall_ahead_ns()
        step_ns = self._wall_ahead_ns - before_ns
        if abs(step_ns) >= _CLOCK_STEP_NS:
            log.info("the clock was set %s by %.3f s", "forward" if step_ns > 0 else "back", abs(step_ns) / 1e9)
            if step_ns < 0:
                self.core.clock_set_back(-step_ns // 1_000_000)

    def run_effects(self) -> None:
        """Run the core's effects until there are none, then flush the connections."""
        if self._running_effects:
            return
        pending = self._effects
        if pending:
            self._running_effects, actions = True, self._actions
            # An effect may cause more effects: they are appended, and this loop reaches them.
            for effect in pending:
                try:
                    actions[type(effect)](effect)
                except Exception as error:
                    # No effect may fail. After a failure the broker could confirm what it has not done, so it stops.
                    self.on_failure(error)
            pending.clear()
            self._running_effects = False
        if self.unsent:
            unsent, self.unsent = self.unsent, []
            for connection in unsent:
                connection.flush()
        if self._busy_wait is not None:
            self._busy_wait.restart()
        if self._wakes and (self._timer is None or self._wakes[0][0] < self._timer_due_ms):
            self._set_timer(self._wakes[0][0])

    def hold_task(self, task: "asyncio.Task[None]") -> None:
        """Keep a reference to the task: the event loop has only a weak one."""
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def status(self) -> JsonObject:
        """Counters since the start, and the current depth."""
        counters = self._journal.counters if self._journal else JournalCounters()
        return {
            **totals(self.core), "syncs": counters.syncs, "sync_seconds": counters.sync_seconds,
            "journal_bytes": counters.bytes, "journal_length": self._journal.length if self._journal else 0,
            "checkpoints": counters.checkpoints, "checkpoint_seconds": counters.checkpoint_seconds,
            "checkpoint_bytes": counters.carried_bytes, "connections": len(self.connections),
            "longest_turn_ns": self.scheduler.longest_turn_ns,
        }  # fmt: skip

    async def close(self) -> None:
        self.is_closing = True
        self.scheduler.close()
        self.mqtt.close()
        for task in self._tasks:
            task.cancel()
        for connection in [*self.connections]:
            connection.drop()
        self.closing_sockets.abort_all()
        self.core.records.append_merged_removals()
        self.run_effects()
        self.activity.close()
        if self._timer is not None:
            self._timer.cancel()
        if self._journal is not None:
            self._journal.closing = True
        if self._disk_threads is not None:
            self._disk_threads.close()
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

    def _run_slice(self, work: Callable[[], None]) -> None:
        """Run the next slice of long work of the core."""
        self.update_clock()
        work()
        self.run_effects()

    def _set_timer(self, due_ms: int) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer_due_ms = due_ms
        seconds = min(_MOST_TIMER_SECONDS, max(0.0, due_ms / 1000 - time_ns() / 1e9))
        self._timer = self._loop.call_later(seconds, self._timer_due)

    def _timer_due(self) -> None:
        self._timer = None
        self._follow_clock()
        self.update_clock()
        began = self.now
        self.core.tick(self.core.context.now_ms)
        self.run_effects()
        self.scheduler.record_turn(began)

    def _page_out(self, payload: Payload) -> PayloadOnDisk | None:
        """Return None if the disk is full: the messages stay in memory, and producers wait sooner."""
        if self._pages is None:
            self._temporary = tempfile.TemporaryDirectory(prefix="mqlab-pages-")
            self._pages = PageFiles(Path(self._temporary.name), Files())
        try:
            return self._pages.write(payload)
        except OSError as error:
            log.warning("messages cannot be paged out: %s", error)
            return None

    def _append(self, effect: effects.Append) -> None:
        assert self._journal is not None
        if self._journal.append(*effect):
            if not self._flush_is_due:
                self._flush_is_due = True
                # At the end of this turn of the loop: one write for all connections of the turn.
                self._loop.call_soon(self._flush)
        elif not self._lazy_flush_is_due:
            self._lazy_flush_is_due = True
            self._loop.call_later(_LAZY_FLUSH_SECONDS, self._flush_lazily)

    def _flush_lazily(self) -> None:
        self._lazy_flush_is_due = False
        # A journal that is closing flushes by itself.
        if self._journal is not None and not (self._flush_is_due or self._journal.closing):
            self._flush()

    def _flush(self) -> None:
        self._flush_is_due = False
        assert self._journal is not None
        if self.api_trace is not None:
            self.api_trace.journal("write")
        self._journal.flush()

    # The journal's host

    def run_sync(self, work: Callable[[], None], done: DoneCallback, *, quick: bool) -> None:
        assert self._disk_threads is not None
        if self.api_trace is not None:
            self.api_trace.journal("sync")
        inline = quick and self._events_since_sync <= _INLINE_SYNC_EVENTS
        (self._disk_threads.run_inline if inline else self._disk_threads.submit)(work, done)
        self._events_since_sync = 0

    def later(self, seconds: float, action: Callable[[], None]) -> None:
        self._loop.call_later(seconds, action)

    def on_durable(self, lsn: int) -> None:
        if self.api_trace is not None:
            self.api_trace.journal("durable", lsn)
        self.update_clock()
        # The core confirms the sends first: producers prepare their next message while this one is dispatched.
        began = self.now
        self.core.on_durable(lsn, self.run_effects)
        self.run_effects()
        self.scheduler.record_turn(began)

    def on_failure(self, error: BaseException) -> None:
        """Disconnect all clients: the broker must not confirm anything any more."""
        log.critical("the broker stops: %s", error, exc_info=not isinstance(error, OSError))
        for connection in [*self.connections]:
            connection.drop()
        if not self.failure.done():
            self.failure.set_result(error)

    def on_disk_full(self, reason: str) -> None:
        """Refuse persistent sends with this reason ("": accept them again). Consumers are not affected."""
        self.core.disk_full = reason
        self.core.records.merges_removals = bool(reason)
        self._loop.call_later(_MERGE_SECONDS, self._append_consumed)

    def _append_consumed(self) -> None:
        """While the disk is full: write the acknowledgements of many messages in one record."""
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
