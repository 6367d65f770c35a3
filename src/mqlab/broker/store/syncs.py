"""Syncs: when the next one begins, those under way, and that none counts before the one that began before it."""

import time
from collections import deque
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from functools import partial
from math import inf
from pathlib import Path
from typing import Final, Protocol

from mqlab.broker.store.files.layer import Files
from mqlab.broker.store.group_commit import Gathering
from mqlab.broker.store.host import Host, SyncCounters

_NONE: Final[frozenset[int]] = frozenset()


@dataclass(slots=True)
class Sync:
    """One sync: what it covers, through which descriptor, which file's removal it makes last (0: none), how it went."""

    lsn: int
    file: int
    removed: int
    done: bool = False
    begin: float = 0.0
    end: float = 0.0


class Owner(Protocol):
    """Whose records are synced."""

    def next_sync(self, used: AbstractSet[int]) -> Sync | None:
        """What a sync that begins now covers, through a descriptor other than those; None: it cannot begin now."""

    def synced(self, sync: Sync) -> None: ...

    def after_syncs(self) -> None:
        """All that are done have been taken."""

    def fail(self, error: BaseException) -> None: ...


class Syncs:
    def __init__(self, files: Files, folder: Path, host: Host, owner: Owner, delay: float) -> None:
        self._files = files
        self._folder = folder
        self._host = host
        self._owner = owner
        self._gathering = Gathering(delay)
        self.counters = SyncCounters()
        # No more is begun, and nothing of those under way counts.
        self.ended = False
        # Begun and not ended, oldest first, and when a timer will look again whether the next one is due.
        self._under_way: deque[Sync] = deque()
        self._timer = inf
        self._synced_until = 0.0
        # Set by the worker: after a failed sync none is tried, not even one that was asked for before.
        self._failed = False
        # Those that are done are being taken. What follows from that may need a sync, too, which is then never done at
        # once: it could go on like this for ever.
        self._taking = False

    @property
    def under_way(self) -> bool:
        return bool(self._under_way)

    def wait(self, waiter: object) -> None:
        """Somebody waits for the next one."""
        self._gathering.wait(waiter, time.perf_counter())

    def nobody_waits(self) -> None:
        self._gathering.waiting.clear()

    def consider(self) -> None:
        """Begin one if it is due, or look again when it may be."""
        if not self._gathering.waiting or self.ended:
            return
        now = time.perf_counter()
        seconds = self._gathering.hold_back(now)
        if seconds == 0.0:
            self._begin()
        elif seconds is not None and now + seconds < self._timer:
            self._timer = now + seconds
            self._host.later(seconds, self._time_is_up)

    def _time_is_up(self) -> None:
        self._timer = inf
        if not self.ended:
            self._owner.after_syncs()

    def _begin(self) -> None:
        under_way, gathering = self._under_way, self._gathering
        sync = self._owner.next_sync({one.file for one in under_way} if under_way else _NONE)
        if sync is None:
            return
        quick = gathering.is_quick and not (sync.removed or self._taking)
        gathering.begin(time.perf_counter())
        under_way.append(sync)
        self._host.sync_in(partial(self._do, sync), partial(self._done, sync), quick=quick)

    def _do(self, sync: Sync) -> None:
        """What a worker does, in its thread."""
        if self._failed:
            raise OSError("a sync before this one failed")
        sync.begin = time.perf_counter()
        try:
            self._files.sync(sync.file)
            if sync.removed:
                self._files.sync_folder(self._folder)
        except BaseException:
            self._failed = True
            raise
        sync.end = time.perf_counter()

    def _done(self, sync: Sync, error: BaseException | None) -> None:
        sync.done = True
        if error is not None:
            self._owner.fail(error)
        self._taking = True
        self._take()
        self._taking = False

    def _take(self) -> None:
        """Those that are done, in the order in which they began: one that fails must be heard of first."""
        while self._under_way and self._under_way[0].done and not self.ended:
            sync = self._under_way.popleft()
            begin, end, counters = sync.begin, sync.end, self.counters
            counters.count += 1
            self._gathering.end(end - begin)
            if end > self._synced_until:
                # Of syncs that overlap, the time counts once.
                counters.seconds += end - (begin if begin > self._synced_until else self._synced_until)
                self._synced_until = end
            self._owner.synced(sync)
        if not self.ended:
            self._owner.after_syncs()
