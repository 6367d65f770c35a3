"""A broker without sockets or threads: the real core and the real store, and a loop that turns when it is told to."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from heapq import heappop, heappush
from itertools import count
from pathlib import Path

from broker.store.workers import Sync
from mqlab.broker.core.broker import Core
from mqlab.broker.core.durability.records import Commit, Declare, Prepare, Put, Record, Remember
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
from mqlab.broker.settings import Settings
from mqlab.broker.store.journal import Journal
from mqlab.broker.store.payloads.page_files import PageFiles
from mqlab.broker.store.recovery.recovery import RecoveredState, recover
from mqlab.wire.native.bodies import Payload

from .books import Books
from .clock import Clock
from .copies import Event
from .files import SimulatedFiles
from .messages import numbers_in


class SimulatedBroker:
    """One life of it: made by recovery, ended by a crash. It does what `server.broker.Broker` does."""

    def __init__(
        self, settings: Settings, folder: Path, files: SimulatedFiles, clock: Clock, books: Books, chance: random.Random
    ) -> None:
        self.settings = settings
        self.core = Core(settings)
        self.core.context.new_token = lambda: f"{chance.getrandbits(128):032x}"
        self.books = books
        self.files = files
        self.failure: BaseException | None = None
        self.full = False
        self.folder = folder
        self._clock = clock
        self._ahead_ms = clock.ahead_ms
        self._chance = chance
        self._syncs: list[Sync] = []
        self._timers: list[tuple[float, int, Callable[[], None]]] = []
        self._tie = count()
        self._flush_is_due = False
        self._carrying_out = False
        self._actions: dict[type, Callable[..., None]] = {
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
            Continue: lambda effect: effect.work(),
            Append: self._append,
        }

    # Its life

    def recover(self, keep_in_memory: int) -> RecoveredState:
        return recover(self.folder, self.files, keep_in_memory)

    def start(self, found: RecoveredState) -> None:
        """Raises OSError where a journal cannot begin."""
        self.core.context.now_ms, self._ahead_ms = self._clock.ms, self._clock.ahead_ms
        self.core.context.page_out = self._page_out
        restore(self.core, found)
        self.pages = PageFiles(self.folder.with_name("pages"), self.files)
        self.journal = Journal(self.settings, self.folder, self.files, self, found.segments)
        self.journal.start(found.next_file, found.lsn, found.manifest)
        self.core.records.free_bytes, self.core.records.request_space = 0, self.journal.make_room
        with self.command():
            pass

    def stop(self) -> None:
        """In good order, when everybody is gone."""
        self.journal.closing = True
        while self._syncs:
            self.do_work()
            self.end_work()
        if self.failure is None:
            self.journal.close()
            self.pages.close()

    @contextmanager
    def command(self) -> Iterator[Event]:
        """Commands of the core, and notes about them in the books; what follows from them happens at the end."""
        self._look_at_the_clock()
        event = self.books.begin(self.core.records.lsn, self._clock)
        yield event
        event.high = self.core.records.lsn
        self.books.look_at(self.core)
        self._carry_out()

    def _look_at_the_clock(self) -> None:
        clock, context = self._clock, self.core.context
        context.now_ms, context.monotonic_us = clock.ms, clock.steady_us
        step, self._ahead_ms = clock.ahead_ms - self._ahead_ms, clock.ahead_ms
        if step < 0:
            self.core.clock_set_back(-step)

    def _carry_out(self) -> None:
        if self._carrying_out:
            return
        self._carrying_out = True
        effects = self.core.effects
        while effects:
            batch = effects.copy()
            effects.clear()
            for effect in batch:
                self._actions[type(effect)](effect)
        self._carrying_out = False

    def _append(self, effect: Append) -> None:
        self.books.tell(f"  record {effect.lsn}: {_short(effect.record)}")
        self.journal.append(effect.record, effect.lsn, effect.waiter)
        self._flush_is_due = True

    def _page_out(self, payload: Payload) -> PayloadOnDisk | None:
        try:
            return self.pages.write(payload)
        except OSError:
            return None

    # What its loop and its threads do next

    def flush(self) -> None:
        if self._flush_is_due:
            self._flush_is_due = False
            self.journal.flush()

    def do_work(self) -> None:
        """A worker's thread waits for the disk, which may serve them in any order."""
        waiting = [sync for sync in self._syncs if not sync.is_worked]
        if waiting:
            self._chance.choice(waiting).do()

    def end_work(self) -> None:
        """... and the loop hears of it."""
        worked = [sync for sync in self._syncs if sync.is_worked]
        if worked:
            self._end(self._chance.choice(worked))

    def _end(self, sync: Sync) -> None:
        self._syncs.remove(sync)
        sync.done(sync.error)

    def let_time_pass(self, seconds: float) -> None:
        self._clock.seconds += seconds
        while self._timers and self._timers[0][0] <= self._clock.seconds:
            heappop(self._timers)[2]()
        if self.core.wake_times and self.core.wake_times[0][0] <= self._clock.ms:
            with self.command():
                self.core.tick(self._clock.ms)

    @property
    def is_idle(self) -> bool:
        return not self._syncs and not self._flush_is_due

    # What the journal needs of its host

    def run_sync(self, work: Callable[[], None], done: Callable[[BaseException | None], None], *, quick: bool) -> None:
        self._syncs.append(sync := Sync(work, done))
        if quick and self._chance.random() < 0.5:
            self.books.count("syncs at once")
            sync.do()
            self._end(sync)

    def later(self, seconds: float, action: Callable[[], None]) -> None:
        heappush(self._timers, (self._clock.seconds + seconds, next(self._tie), action))

    def on_durable(self, lsn: int) -> None:
        assert self.failure is None, "durable after a failure"
        self.books.tell(f"durable up to {lsn}")
        with self.command():
            self.core.on_durable(lsn)
            self.books.look_at(self.core)
            self.books.became_durable(lsn)

    def on_failure(self, error: BaseException) -> None:
        self.failure = error

    def on_disk_full(self, reason: str) -> None:
        self.full = bool(reason)
        self.core.disk_full = reason
        self.books.count("full disks", self.full)

    def declarations(self) -> Iterable[Declare]:
        return self.core.destinations.declarations()

    def remembered(self) -> Iterable[Remember]:
        return self.core.destinations.remembered_ids()

    def carry_forward(self, intervals: dict[int, list[tuple[int, int]]], xids: Sequence[str]) -> None:
        self.books.count("checkpoints")
        self.books.tell(f"checkpoint: {intervals}, {xids}")
        with self.command():
            self.core.checkpoint(intervals, xids)


def _short(record: Record) -> str:
    """With the numbers of its messages in place of their bytes."""
    if isinstance(record, Put):
        return f"Put {record.targets} {numbers_in(record.payload)} {record.origin}"
    if isinstance(record, Commit | Prepare):
        name = record.xid if isinstance(record, Prepare) else ""
        return f"{type(record).__name__} {name} {[_short(put) for put in record.puts]} {record.removes}"
    return str(record)
