"""The journal: append-only files, and the promise that a record is durable when `on_durable` says so.

Appending writes to the operating system at once; only the sync, which waits for the disk, is done elsewhere.
A failed write or sync ends it: nothing is tried again, and nothing is called durable afterwards.

A full disk is no failure. The host asks for room before it appends messages (`make_room`), and refuses what does not
fit. A part of each file is kept free for everything else: what was consumed, decided or deleted, and what a checkpoint
carries forward. Should even that be used up, or where a file system cannot reserve space, records wait in memory, in
their order, until there is room; nobody was told that they are safe. A sync that fails is a failure, whatever for.
"""

import time
from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from contextlib import suppress
from pathlib import Path
from typing import Final

from mqlab.broker.core.durability.records import Record, Remove, Shut
from mqlab.broker.settings import Settings
from mqlab.broker.store.encoding import encode_file_header, encode_into
from mqlab.broker.store.files.disk_space import RETRY_SECONDS, FileSizes, FullDiskState
from mqlab.broker.store.files.layer import Files
from mqlab.broker.store.group_commit import GroupCommit, Sync
from mqlab.broker.store.host import JournalCounters, JournalHost
from mqlab.broker.store.journal_file import DiskFullError, JournalFile
from mqlab.broker.store.manifest import Manifest, ManifestFile
from mqlab.broker.store.segments import Segments, segment_path
from mqlab.wire.native.bodies import Buffer

__all__ = ["Journal", "JournalCounters", "JournalHost"]

# More than this is written at once, and not kept until the host has appended all there was.
_MOST_UNWRITTEN: Final = 4 * 1024 * 1024
# Looks for room, one a second, after messages were refused that did not fit where less would.
_LOOKS: Final = 60


class Journal:
    def __init__(self, settings: Settings, folder: Path, files: Files, host: JournalHost, segments: Segments) -> None:
        self._settings = settings
        self._folder = folder
        self._files = files
        self._host = host
        self._segments = segments
        self._group_commit = GroupCommit(files, folder, host, self, settings.group_delay / 1e6)
        self._room = FullDiskState()
        self._sizes = FileSizes(settings.segment_size, preallocate=settings.preallocate)
        self.counters = self._group_commit.counters
        self.failed = False
        # Set before the host stops: no new sync is begun, `close` does the last one.
        self.closing = False
        self._buffer: list[Buffer] = []
        self._unwritten = 0
        # The last record appended, the last with the operating system, the last on disk.
        self._lsn = self._written = self._durable = 0
        # The last record of the last checkpoint, and the last that the host was told is durable.
        self._carried = self._confirmed = 0
        self._file: JournalFile
        # The first record of that file.
        self._file_began_at = 0
        self._manifest: ManifestFile
        # The file that was removed last, if no sync has made that last yet: the next one does.
        self._removed = 0
        # The size of messages that were refused and may fit when something is consumed, and how often that is still
        # looked for; 0: nothing was refused, nobody looks.
        self._refused = self._looks = 0

    @property
    def full(self) -> bool:
        """There is no room on disk for another file: only what makes room, such as consumption, should be appended."""
        return self._room.reason != ""

    @property
    def length(self) -> int:
        """Bytes of the records in all files."""
        return self._segments.length

    def start(self, number: int, lsn: int, manifest: Manifest | None = None) -> None:
        """Begin file `number`; the first record will be the one after `lsn`, all before it are durable."""
        self._lsn = self._written = self._durable = self._confirmed = lsn
        new = Manifest(since=number, first=self._segments.first or number, last=number - 1, lsn=lsn)
        self._manifest = ManifestFile(self._folder, self._files, manifest or new)
        try:
            # There may be enough for what is consumed, which makes room; if not even for a head, this is an error.
            self._file = self._begin(number, (*self._sizes.reserves, self._sizes.kept_free, 0))
        except DiskFullError as error:
            raise OSError(str(error)) from error
        if self._left < self._sizes.small:
            self._has_no_room(DiskFullError("the disk has no space for another file"))

    def append(self, record: Record, lsn: int, waiter: object | None) -> bool:
        """Whether it should be flushed at once. What was consumed, if nobody waits for that, may wait for others."""
        if self.failed:
            return False
        size = encode_into(self._buffer, record, lsn, self._durable)
        self._segments.note(record, lsn, self._file.number, size)
        self._unwritten += size
        self._lsn = lsn
        if waiter is None and (self._room.reason or self._refused):
            # Nobody waits for what was consumed, but it makes room only when it is on disk.
            waiter = self
        if waiter is not None:
            self._group_commit.wait(waiter)
        if self._unwritten > _MOST_UNWRITTEN:
            self._write()
        return waiter is not None or not isinstance(record, Remove)

    def make_room(self, size: int) -> int:
        """Take space for messages: so many bytes, or more. Returns how many can be appended; if fewer, they do not fit.

        If not even a small message fits, the disk is full (`on_disk_full`), and nothing is tried for a second.
        """
        if self.failed:
            return size
        if self._left < size and self._room.may_try(time.perf_counter()):
            try:
                self._grow(max(size, self._sizes.grant))
            except DiskFullError as why:
                try:
                    self._grow(size)
                except DiskFullError:
                    # As long as less would fit, the disk is not full.
                    self._has_no_room(why, size=size if size > self._sizes.small and self._grown() else 0)
            except OSError as error:
                self.fail(error)
        if self._left >= self._refused:
            self._refused = 0
        return min(self._left, max(size, self._sizes.grant))

    def flush(self) -> None:
        """Called when the host has appended all there was: write it, and see whether a sync or a new file is due."""
        if self._write():
            self._go_on()

    def close(self) -> None:
        """In good order: everything is synced, and then the file says so. On a full disk it cannot."""
        in_order = self._write() and not self._buffer
        if in_order:
            self._file.sync()
            self._durable = self._lsn
            self.append(Shut(), self._lsn + 1, None)
            in_order = self._write() and not self._buffer
        if in_order:
            self._file.sync()
            self._files.sync_folder(self._folder)
            self._manifest.note(lsn=self._lsn, size=0, is_clean=True)
        self._file.close(in_order=in_order)
        self._manifest.close()

    def _write(self) -> bool:
        """False: the journal has failed. True: everything is with the operating system, or waits for room."""
        if self.failed:
            return False
        room = self._room
        if not self._buffer or (room.stuck and not room.may_try(time.perf_counter())):
            return True
        data = b"".join(self._buffer)
        self._buffer.clear()
        try:
            self._file.write(data)
        except DiskFullError as why:
            self._buffer.append(data)
            room.stuck = True
            self._has_no_room(why)
            return True
        except OSError as error:
            self.fail(error)
            return False
        self._unwritten = 0
        self._written = self._lsn
        self.counters.bytes += len(data)
        if room.stuck:
            # Those who wait for it may have been taken for served by a sync that did not cover it.
            room.stuck = False
            self._group_commit.wait(self)
        return True

    def _go_on(self) -> None:
        """All that can be written is. Is a new file due, or a sync?"""
        if self.closing:
            return
        is_due = self._new_file_is_due()
        # Not in the midst of a sync: should that fail, the old file must not be synced (again) by the roll. And no
        # further one begins then, or there would always be one under way.
        if is_due and self._group_commit.in_progress:
            return
        if is_due:
            self._roll()
        if self.failed:
            return
        if self._settings.sync == "off":
            # What the operating system has counts as durable.
            self._group_commit.clear_waiters()
            self._is_durable(self._written)
        else:
            self._group_commit.begin_if_due()

    # What the syncs ask and tell

    def next_sync(self, used: AbstractSet[int]) -> Sync | None:
        # A sync confirms only what was written before it began.
        if self._buffer and not self._write():
            return None
        try:
            file = self._file.descriptor(used)
        except OSError as error:
            self.fail(error)
            return None
        return None if file is None else Sync(self._written, file, self._removed)

    def synced(self, sync: Sync) -> None:
        self._durable = sync.lsn
        if sync.removed == self._removed:
            self._removed = 0
        self._is_durable(sync.lsn)
        if self._manifest.content.lsn < self._file_began_at <= sync.lsn and not self.failed:
            # The first of this file: from now on it is known that some of it was confirmed.
            try:
                self._manifest.note(lsn=sync.lsn)
            except OSError as error:
                self.fail(error)

    def after_syncs(self) -> None:
        self._go_on()

    def fail(self, error: BaseException) -> None:
        if not self.failed:
            self.failed = self._group_commit.ended = True
            self._host.on_failure(error)

    def _is_durable(self, lsn: int) -> None:
        self._confirmed = lsn
        # Who waits for it comes first.
        self._host.on_durable(lsn)
        self._segments.durable(lsn)
        # One at a time, and the next after the folder was synced: no disk can then keep a later removal only.
        number = None if self._removed else self._segments.removable
        if number is not None:
            try:
                self._remove(number)
            except OSError as error:
                self.fail(error)

    def _remove(self, number: int) -> None:
        home = self._segments.payload_files.get(number)
        if home is not None and not home.open_before_removal():
            return
        self._manifest.note(first=number + 1)
        self._files.remove(segment_path(self._folder, number))
        self._segments.removed(number)
        if self._settings.sync == "off":
            self._files.sync_folder(self._folder)
        else:
            self._removed = number
        self._room.hope()
        if self.full:
            self._group_commit.wait(self)

    # New files

    @property
    def _left(self) -> int:
        """Bytes of messages that can be appended now."""
        return self._file.room - self._unwritten - self._sizes.kept_free

    def _grow(self, size: int) -> None:
        self._file.grow(size + self._unwritten + self._sizes.kept_free)

    def _begin(self, number: int, reserves: Sequence[int]) -> JournalFile:
        host, segments = self._host, self._segments
        store = self._manifest.content.store
        head = encode_file_header(
            number, self._lsn + 1, host.declarations(), host.remembered(), segments.last_queue, store
        )
        file = JournalFile.begin(self._folder, self._files, number, head, reserves)
        segments.begin(number)
        self._file_began_at = self._lsn + 1
        # Before any record is written there: all before it are on disk.
        self._manifest.note(last=number, lsn=self._lsn, size=file.length, is_clean=False)
        return file

    def _new_file_is_due(self) -> bool:
        is_due = self.full or self._file.size > self._settings.segment_size
        return is_due and self._room.may_try(time.perf_counter())

    def _roll(self) -> None:
        """Go on in a new file. The old one is synced first, so only the last file of a journal can be torn."""
        if not self._write() or self._buffer:
            return
        try:
            if self.full and self._file.size <= self._settings.segment_size:
                if self._grown():
                    self._has_room()
                    return
                if not self._only_this_file_can_go():
                    raise DiskFullError(self._room.reason)
            self._file.sync()
            self._go_on_in_new_file()
        except DiskFullError as why:
            self._has_no_room(why)
            return
        except OSError as error:
            self.fail(error)
            return
        if self._left >= self._sizes.small:
            self._has_room()
        segments = self._segments
        if segments.length > self._settings.log_length and 2 * segments.needed_bytes <= segments.length:
            self._carry_oldest()

    def _go_on_in_new_file(self) -> None:
        old = self._file
        # What was granted to messages of the old file must fit into the new one.
        granted = min(old.room, self._sizes.grant) + self._sizes.kept_free
        reserves = [reserve for reserve in self._sizes.reserves if reserve >= granted] or [granted]
        try:
            self._file = self._begin(old.number + 1, reserves)
        except DiskFullError:
            if not self._only_this_file_can_go():
                raise
            # Its own reserve is all that is left to begin another one with, and then it can go.
            self._manifest.note(size=0)
            old.give_back()
            try:
                self._file = self._begin(old.number + 1, (self._sizes.kept_free, self._sizes.kept_free // 2, 0))
            except DiskFullError:
                with suppress(DiskFullError):
                    old.grow(self._sizes.kept_free)
                raise
        old.close(in_order=True)

    def _only_this_file_can_go(self) -> bool:
        segments, number = self._segments, self._file.number
        return segments.is_only(number) and 2 * segments.most_needed_in(number) < self._sizes.kept_free

    def _grown(self) -> bool:
        try:
            self._grow(self._sizes.small)
        except DiskFullError:
            return False
        return True

    def _carry_oldest(self) -> None:
        """A checkpoint: when what the host appends now is durable, the oldest file is no longer needed."""
        oldest = self._segments.oldest
        if oldest is None or self._carried > self._confirmed:
            return
        begin, before = time.perf_counter(), self._segments.length
        try:
            self._host.carry_forward(*self._segments.begin_checkpoint(oldest))
        except Exception as error:
            # A message that must be kept cannot be read: as a disk that fails.
            self.fail(error)
        self._segments.end_checkpoint()
        if not self._write():
            return
        self._carried = self._lsn
        self._group_commit.wait(self)
        self.counters.checkpoints += 1
        self.counters.carried_bytes += self._segments.length - before
        self.counters.checkpoint_seconds += time.perf_counter() - begin

    # No room

    def _has_room(self) -> None:
        if self.full:
            self._room.found()
            self._host.on_disk_full("")

    def _has_no_room(self, why: DiskFullError, *, size: int = 0) -> None:
        """Not for messages of this size; 0: for none."""
        was_full = self.full
        if size:
            self._refused = max(self._refused, size)
        else:
            self._room.lost(str(why), time.perf_counter())
        # What was consumed so far makes room only when it is on disk.
        self._group_commit.wait(self)
        if not self._looks:
            self._host.later(RETRY_SECONDS, self._look_again)
        self._looks = _LOOKS
        if self.full and not was_full:
            self._host.on_disk_full(self._room.reason)

    def _look_again(self) -> None:
        """Others may have made room; and so can a checkpoint, if little of the oldest file is needed."""
        self._looks -= not self.full
        if not (self.full or (self._refused and self._looks)) or self.failed or self.closing:
            self._looks = self._refused = 0
            return
        self.flush()
        if not self.failed:
            oldest = self._segments.oldest
            left = self._file.room - self._unwritten
            if oldest is not None and 2 * self._segments.most_needed_in(oldest) < left:
                self._carry_oldest()
                self._go_on()
            self._host.later(RETRY_SECONDS, self._look_again)
