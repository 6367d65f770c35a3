"""Group commit: one sync makes all records durable that wait for it.

A sync that starts the moment the last one ends covers only those waiters that came meanwhile: with n producers that
each wait for a confirmation, about half, so every confirmation takes two syncs. The next sync is therefore delayed
until the waiters that the last sync released wait again, but only for a part of the time that a sync takes, which on a
fast disk is next to nothing. A single producer is never delayed, and there is no fixed delay unless one is set.

On a fast disk, passing a sync to a thread and back takes longer than the sync: the sync for a single waiter then runs
in the caller's thread. One slow sync ends that.

On a slow disk a second sync may begin while the first is in progress: on a rotating disk, all syncs that were requested
before a mark complete at that mark, so a waiter that came late for one sync does not wait for its end.
"""

import time
from collections import deque
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from functools import partial
from math import inf
from pathlib import Path
from typing import Final, Protocol

from mqlab.broker.store.files.layer import Files
from mqlab.broker.store.host import JournalCounters, JournalHost

# How many recent syncs the schedule looks at. It takes the longest: a sync on a rotating disk lasts anything from
# nothing to a whole turn.
_RECENT_SYNCS: Final = 4
# The share of a sync's time by which the next one may be delayed.
_DELAY_SHARE: Final = 0.25
# A sync that lasts longer is slow: the next one does not wait for its end.
_SLOW_SECONDS: Final = 0.0005
# Each sync in progress occupies a thread.
MAX_SYNCS_IN_PROGRESS: Final = 8
_NO_DESCRIPTORS: Final[frozenset[int]] = frozenset()


class SyncSchedule:
    """Decides when the next sync begins, from the senders that wait for it. All times are seconds of one clock.

    `delay`: a fixed delay in seconds, in addition.
    """

    def __init__(self, delay: float = 0.0) -> None:
        self._delay = delay
        self.waiting: set[object] = set()
        self._waiting_since = 0.0
        self._released: set[object] = set()
        self._recent_seconds: deque[float] = deque(maxlen=_RECENT_SYNCS)
        self._is_fast = False
        # Syncs that have begun and not ended: the time, and the waiters.
        self._in_progress: deque[tuple[float, set[object]]] = deque()

    def wait(self, waiter: object, now: float) -> None:
        if not self.waiting:
            self._waiting_since = now
        self.waiting.add(waiter)

    def seconds_until_next(self, now: float) -> float | None:
        """Seconds until the next sync should begin; None: not before another one has ended."""
        if not (self._in_progress or self._delay) and self._released <= self.waiting:
            # The usual case of a single waiter.
            return 0.0
        if len(self._in_progress) >= MAX_SYNCS_IN_PROGRESS:
            return None
        delay = 0.0 if self._all_wait_again() else _DELAY_SHARE * max(self._recent_seconds, default=0.0)
        seconds = self._waiting_since + (delay + self._delay) - now
        if self._in_progress:
            seconds = max(seconds, self._in_progress[-1][0] + _SLOW_SECONDS - now)
        return max(0.0, seconds)

    @property
    def is_quick(self) -> bool:
        """There is a single waiter, and a sync that begins now is likely to be fast."""
        return self._is_fast and len(self.waiting) == 1 and not self._in_progress

    def begin(self, now: float) -> None:
        """A sync begins, for all that wait now."""
        self._in_progress.append((now, self.waiting))
        self.waiting = set()

    def end(self, seconds: float) -> None:
        """The oldest sync in progress has ended; it took so many seconds."""
        _, self._released = self._in_progress.popleft()
        self._recent_seconds.append(seconds)
        self._is_fast = len(self._recent_seconds) == _RECENT_SYNCS and max(self._recent_seconds) < _SLOW_SECONDS

    def _all_wait_again(self) -> bool:
        """All that the last sync released wait again, for this sync or for one in progress."""
        missing = self._released - self.waiting
        for _, group in self._in_progress:
            missing -= group
        return not missing


@dataclass(slots=True)
class Sync:
    """A sync: the last record it covers, the descriptor, the segment whose removal it makes durable (0: none)."""

    lsn: int
    file: int
    removed: int
    done: bool = False
    begin: float = 0.0
    end: float = 0.0


class SyncTarget(Protocol):
    """The journal, as group commit sees it."""

    def next_sync(self, used: AbstractSet[int]) -> Sync | None:
        """The sync that can begin now, with a descriptor not in `used`; None: no sync can begin now."""

    def synced(self, sync: Sync) -> None: ...

    def begin_due_work(self) -> None:
        """Syncs have ended and were reported, or a delay is over: the next sync may be due."""

    def fail(self, error: BaseException) -> None: ...


class GroupCommit:
    """Begins syncs when they are due and reports them in the order in which they began."""

    def __init__(self, files: Files, folder: Path, host: JournalHost, target: SyncTarget, delay: float) -> None:
        self._files = files
        self._folder = folder
        self._host = host
        self._target = target
        self._schedule = SyncSchedule(delay)
        self.counters = JournalCounters()
        # Set when the journal fails: no sync begins any more, and none in progress counts.
        self.ended = False
        # Syncs that have begun and were not reported, oldest first.
        self._in_progress: deque[Sync] = deque()
        # When a timer will look whether the next sync is due.
        self._timer = inf
        self._synced_until = 0.0
        # Set by a worker thread: after a failed sync no other is tried, not even one that has been requested.
        self._failed = False
        # While syncs are reported, the next one never runs in this thread: that could recurse without end.
        self._reporting = False

    @property
    def in_progress(self) -> bool:
        return bool(self._in_progress)

    def wait(self, waiter: object) -> None:
        """The waiter needs the next sync."""
        self._schedule.wait(waiter, time.perf_counter())

    def clear_waiters(self) -> None:
        self._schedule.waiting.clear()

    def begin_if_due(self) -> None:
        """Begin a sync if it is due, else set a timer for when it may be."""
        if not self._schedule.waiting or self.ended:
            return
        now = time.perf_counter()
        seconds = self._schedule.seconds_until_next(now)
        if seconds == 0.0:
            self._begin()
        elif seconds is not None and now + seconds < self._timer:
            self._timer = now + seconds
            self._host.later(seconds, self._on_timer)

    def _on_timer(self) -> None:
        self._timer = inf
        if not self.ended:
            self._target.begin_due_work()

    def _begin(self) -> None:
        in_progress, schedule = self._in_progress, self._schedule
        sync = self._target.next_sync({sync.file for sync in in_progress} if in_progress else _NO_DESCRIPTORS)
        if sync is None:
            return
        quick = schedule.is_quick and not (sync.removed or self._reporting)
        schedule.begin(time.perf_counter())
        in_progress.append(sync)
        self._host.run_sync(partial(self._run, sync), partial(self._on_done, sync), quick=quick)

    def _run(self, sync: Sync) -> None:
        """Wait for the disk. A worker's thread calls this."""
        if self._failed:
            raise OSError("an earlier sync failed")
        sync.begin = time.perf_counter()
        try:
            self._files.sync(sync.file)
            if sync.removed:
                self._files.sync_folder(self._folder)
        except BaseException:
            self._failed = True
            raise
        sync.end = time.perf_counter()

    def _on_done(self, sync: Sync, error: BaseException | None) -> None:
        sync.done = True
        if error is not None:
            self._target.fail(error)
        self._reporting = True
        self._report()
        self._reporting = False

    def _report(self) -> None:
        """Report the syncs that have ended, in the order in which they began: a failed one must be known first."""
        while self._in_progress and self._in_progress[0].done and not self.ended:
            sync = self._in_progress.popleft()
            begin, end, counters = sync.begin, sync.end, self.counters
            counters.syncs += 1
            self._schedule.end(end - begin)
            if end > self._synced_until:
                # The time of overlapping syncs counts once.
                counters.sync_seconds += end - (begin if begin > self._synced_until else self._synced_until)
                self._synced_until = end
            self._target.synced(sync)
        if not self.ended:
            self._target.begin_due_work()
