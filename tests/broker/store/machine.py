"""A small core and a journal under a random schedule: the seed decides when syncs begin, end and fail."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from mqlab.broker.core.durability.records import Declare, Record, Remember
from mqlab.broker.settings import Settings
from mqlab.broker.store import journal as journal_module
from mqlab.broker.store.journal import Journal
from mqlab.broker.store.recovery.recovery import recover

from .disk import Call, RecordedFiles
from .small_core import SmallCore
from .workers import Sync

# So that most payloads are left in the journal after a restart.
KEEP_IN_MEMORY = 4000


class Clock:
    """In place of the module `time`."""

    def __init__(self) -> None:
        self.now = 1.0

    def perf_counter(self) -> float:
        return self.now


def small_settings(folder: Path, *, segment_size: int = 800, log_length: int = 3000) -> Settings:
    """Far below what a person may choose: many files from a few kilobytes."""
    settings = Settings(data=folder)
    object.__setattr__(settings, "segment_size", segment_size)
    object.__setattr__(settings, "log_length", log_length)
    return settings


class Machine:
    """A broker without sockets: the journal's host. `step` does what the host must do later."""

    def __init__(self, folder: Path, files: RecordedFiles, *, settings: Settings | None = None, seed: int = 0) -> None:
        self.settings = settings or small_settings(folder)
        self.chance = random.Random(seed)
        self.files = files
        self.recovered = recover(folder, files, KEEP_IN_MEMORY)
        self.core = SmallCore(seed, self._append)
        self.core.restore(self.recovered)
        self.core.lacks_room = self._lacks_room
        self.lsn = self.durable = self.recovered.lsn
        self.records: list[tuple[int, Record]] = []
        self.failures: list[BaseException] = []
        self.full: list[str] = []
        # Records with a waiter.
        self.unconfirmed: list[int] = []
        self.confirmations = 0
        self.syncs_begun = self.failed_at_once = 0
        self._syncs: list[Sync] = []
        self._timers: list[Callable[[], None]] = []
        self.journal = Journal(self.settings, folder, files, self, self.recovered.segments)
        self.journal.start(self.recovered.next_file, self.recovered.lsn, self.recovered.manifest)
        self.core.declare()

    def _append(self, record: Record, confirm: bool) -> None:
        self.lsn += 1
        self.records.append((self.lsn, record))
        self.files.log.append(Call("note", note=("record", self.lsn, record)))
        if confirm:
            self.unconfirmed.append(self.lsn)
        self.journal.append(record, self.lsn, self.chance.randrange(5) if confirm else None)

    def _lacks_room(self, size: int) -> bool:
        return self.journal.make_room(size) < size

    # The journal's host

    def run_sync(self, work: Callable[[], None], done: Callable[[BaseException | None], None], *, quick: bool) -> None:
        self.syncs_begun += 1
        self._syncs.append(sync := Sync(work, done))
        if quick and self.chance.random() < 0.5:
            sync.do()
            self.failed_at_once += sync.error is not None
            self._end(sync)

    def later(self, seconds: float, action: Callable[[], None]) -> None:  # noqa: ARG002 - the seed decides when
        self._timers.append(action)

    def on_durable(self, lsn: int) -> None:
        assert not self.failures, "durable after a failure"
        assert lsn >= self.durable
        self.durable = lsn
        self.files.log.append(Call("note", note=("durable", lsn)))
        self.confirmations += sum(one <= lsn for one in self.unconfirmed)
        self.unconfirmed = [one for one in self.unconfirmed if one > lsn]

    def on_failure(self, error: BaseException) -> None:
        self.failures.append(error)

    def on_disk_full(self, reason: str) -> None:
        self.full.append(reason)
        self.core.full = bool(reason)

    def declarations(self) -> Iterable[Declare]:
        return self.core.declarations()

    def remembered(self) -> Iterable[Remember]:
        return self.core.remembered()

    def carry_forward(self, intervals: dict[int, list[tuple[int, int]]], xids: Sequence[str]) -> None:
        self.core.carry_forward(intervals, xids)

    # The workload

    def step(self) -> None:
        """One thing that may happen next."""
        core = self.core
        what = self.chance.choices(
            (core.send, core.remove, core.commit, core.prepare, core.decide, core.declare, core.forget,
             self.journal.flush, self._do_work, self._end_work, self._ring),
            (5, 7, 4, 1, 1.5, 1, 0.4, 8, 12, 14, 5),
        )[0]  # fmt: skip
        self._let_time_pass()
        what()

    def drain(self) -> None:
        """Everything is consumed that can be."""
        while self.core.prepared:
            self.core.decide()
        for _ in range(1000):
            self.core.remove()

    def _let_time_pass(self, seconds: float | None = None) -> None:
        clock = vars(journal_module)["time"]
        assert isinstance(clock, Clock)
        clock.now += self.chance.choice((0.0, 0.0, 0.0001, 0.0006, 0.1)) if seconds is None else seconds

    def _do_work(self) -> None:
        """A worker thread syncs; the disk may serve the syncs in any order."""
        waiting = [sync for sync in self._syncs if not sync.is_worked]
        if waiting:
            self.chance.choice(waiting).do()

    def _end_work(self) -> None:
        """The host reports the end of a sync to the journal."""
        worked = [sync for sync in self._syncs if sync.is_worked]
        if worked:
            self._end(self.chance.choice(worked))

    def _end(self, sync: Sync) -> None:
        self._syncs.remove(sync)
        sync.done(sync.error)

    def _ring(self) -> None:
        if self._timers:
            self._timers.pop(0)()

    def leave(self) -> None:
        """End like a killed process: close the files, whatever is in them."""
        self.files.close_all()

    def finish(self) -> None:
        """Let everything that is under way come to its end."""
        for _ in range(50):
            self._let_time_pass(0.05)
            for part in (self.journal.flush, self._do_work, self._end_work, self._ring):
                part()
