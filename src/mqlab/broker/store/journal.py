"""The journal: append-only files, and the promise that a record is durable when `on_durable` says so.

Appending writes to the operating system at once; only the sync, which waits for the disk, is done elsewhere.
A failed write or sync ends it: nothing is tried again, and nothing is called durable afterwards.
"""

import time
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from math import inf
from pathlib import Path
from typing import Protocol

from mqlab.broker.core.records import Declare, Record, Shut
from mqlab.broker.settings import Settings
from mqlab.broker.store.files import Files
from mqlab.broker.store.group import Gathering
from mqlab.broker.store.records import encode, encode_head
from mqlab.broker.store.segments import Segments, path_of


class Host(Protocol):
    """What the journal needs of whoever runs it."""

    def sync_in(self, work: Callable[[], None], done: Callable[[BaseException | None], None]) -> None:
        """Do the work without blocking the caller, then call `done` where the journal is called from."""

    def later(self, seconds: float, action: Callable[[], None]) -> None:
        """Call the action after that time."""

    def on_durable(self, lsn: int) -> None: ...

    def on_failure(self, error: BaseException) -> None: ...

    def declarations(self) -> Iterable[Declare]:
        """The queues there are, for the head of a new file."""


@dataclass(slots=True)
class SyncCounters:
    count: int = 0
    seconds: float = 0.0
    bytes: int = 0


@dataclass(slots=True)
class _Sync:
    """One sync: what it covers, through which descriptor, whether the folder goes with it, and how it went."""

    lsn: int
    file: int
    folder: bool
    done: bool = False
    begin: float = 0.0
    end: float = 0.0


class Journal:
    def __init__(self, settings: Settings, folder: Path, files: Files, host: Host, segments: Segments) -> None:
        self._settings = settings
        self._folder = folder
        self._files = files
        self._host = host
        self._segments = segments
        self._gathering = Gathering()
        self.counters = SyncCounters()
        self.failed = False
        # Set before the host stops: no new sync is begun, `close` does the last one.
        self.closing = False
        self._buffer: list[bytes] = []
        self._lsn = 0
        self._durable = 0
        # Syncs begun and not ended, oldest first, and when a timer will look again whether the next one is due.
        self._under_way: deque[_Sync] = deque()
        self._timer = inf
        self._synced_until = 0.0
        # Set by the worker: after a failed sync none is tried, not even one that was asked for before.
        self._sync_failed = False
        self._file = -1
        # Descriptors of the same file for syncs that overlap: each learns of an error for itself.
        self._more_files: list[int] = []
        self._number = 0
        self._size = 0
        # A file was removed: the next sync makes that last as well.
        self._removed = False

    def start(self, number: int, lsn: int) -> None:
        """Begin file `number`; the first record will be the one after `lsn`, all before it are durable."""
        self._lsn = self._durable = lsn
        self._open(number)

    def append(self, record: Record, lsn: int, waiter: object | None) -> None:
        if self.failed:
            return
        data = encode(record, lsn, self._durable)
        # Not in the midst of a sync: should that fail, the old file must not be synced (again) by the roll.
        if self._size + len(data) > self._settings.segment_size and not self._under_way:
            self._roll()
        self._segments.note(record, lsn, self._number)
        self._buffer.append(data)
        self._size += len(data)
        self._lsn = lsn
        if waiter is not None:
            self._gathering.wait(waiter, time.perf_counter())

    def flush(self) -> None:
        """Called when the host has appended all there was: write it, and see whether a sync is due."""
        if self._write_all():
            self._consider_sync()

    def close(self) -> None:
        """In good order: everything is synced, and then the file says so."""
        if not self.failed:
            self._write()
            self._files.sync(self._file)
            self._durable = self._lsn
            self.append(Shut(), self._lsn + 1, None)
            self._write()
            self._files.sync(self._file)
            self._files.sync_folder(self._folder)
        for file in (self._file, *self._more_files):
            self._files.close(file)

    def _write_all(self) -> bool:
        """Whether everything appended is with the operating system now."""
        if self.failed:
            return False
        try:
            self._write()
        except OSError as error:
            self._fail(error)
            return False
        return True

    def _write(self) -> None:
        data = b"".join(self._buffer)
        self._buffer.clear()
        if data:
            self._files.append(self._file, data)
            self.counters.bytes += len(data)

    def _consider_sync(self) -> None:
        gathering = self._gathering
        if self.closing:
            return
        if self._settings.sync == "off":
            # What the operating system has counts as durable.
            gathering.waiting.clear()
            self._is_durable(self._lsn)
            return
        if not gathering.waiting or self._is_full_and_busy():
            return
        now = time.perf_counter()
        seconds = gathering.hold_back(now)
        if seconds == 0.0:
            self._sync()
        elif seconds is not None and now + seconds < self._timer:
            self._timer = now + seconds
            self._host.later(seconds, self._time_is_up)

    def _is_full_and_busy(self) -> bool:
        """Time for a new file, which cannot begin in the midst of syncs: so no further one begins before it."""
        return self._size > self._settings.segment_size and bool(self._under_way)

    def _time_is_up(self) -> None:
        self._timer = inf
        if not self.failed:
            self._consider_sync()

    def _is_durable(self, lsn: int) -> None:
        self._segments.durable(lsn)
        self._host.on_durable(lsn)
        # One at a time, and the next after the folder was synced: no disk can then keep a later removal only.
        number = None if self._removed else self._segments.take_unneeded()
        if number is None:
            return
        try:
            self._files.remove(path_of(self._folder, number))
            if self._settings.sync == "off":
                self._files.sync_folder(self._folder)
        except OSError as error:
            self._fail(error)
        self._removed = self._settings.sync == "on"

    def _sync(self) -> None:
        # A sync confirms only what was written before it began.
        if not self._write_all():
            return
        try:
            sync = _Sync(self._lsn, self._free_file(), self._removed)
        except OSError as error:
            self._fail(error)
            return
        self._gathering.begin(time.perf_counter())
        self._under_way.append(sync)

        def work() -> None:
            if self._sync_failed:
                raise OSError("a sync before this one failed")
            sync.begin = time.perf_counter()
            try:
                self._files.sync(sync.file)
                if sync.folder:
                    self._files.sync_folder(self._folder)
            except BaseException:
                self._sync_failed = True
                raise
            sync.end = time.perf_counter()

        def done(error: BaseException | None) -> None:
            sync.done = True
            if error is not None:
                self._fail(error)
            if not self.failed:
                self._synced()

        self._host.sync_in(work, done)

    def _free_file(self) -> int:
        """A descriptor that no sync under way uses."""
        used = {sync.file for sync in self._under_way}
        for file in (self._file, *self._more_files):
            if file not in used:
                return file
        self._more_files.append(self._files.reopen(path_of(self._folder, self._number)))
        return self._more_files[-1]

    def _synced(self) -> None:
        """Take the syncs that are done, in the order in which they began: one that fails must be heard of first."""
        while self._under_way and self._under_way[0].done and not self.failed:
            sync = self._under_way.popleft()
            self.counters.count += 1
            # Of syncs that overlap, the time counts once.
            self.counters.seconds += max(0.0, sync.end - max(sync.begin, self._synced_until))
            self._synced_until = max(self._synced_until, sync.end)
            self._gathering.end(sync.end - sync.begin)
            self._durable = sync.lsn
            self._removed = self._removed and not sync.folder
            self._is_durable(sync.lsn)
        if self._size > self._settings.segment_size and not self._under_way and not self.failed:
            self._roll()
        if not self.failed:
            self._consider_sync()

    def _roll(self) -> None:
        """Go on in a new file. The old one is synced first, so only the last file of a journal can be torn."""
        try:
            self._write()
            self._files.sync(self._file)
            old, self._more_files = (self._file, *self._more_files), []
            self._open(self._number + 1)
            for file in old:
                self._files.close(file)
        except OSError as error:
            self._fail(error)

    def _open(self, number: int) -> None:
        self._file = self._files.create(path_of(self._folder, number))
        self._number = number
        self._segments.begin(number)
        head = encode_head(number, self._lsn + 1, self._host.declarations())
        self._files.append(self._file, head)
        # Before any record: a head that cannot be read then means damage, never a torn tail.
        self._files.sync(self._file)
        self._files.sync_folder(self._folder)
        self._size = len(head)

    def _fail(self, error: BaseException) -> None:
        if not self.failed:
            self.failed = True
            self._host.on_failure(error)
