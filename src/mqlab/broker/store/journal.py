"""The journal: append-only files. A record is durable when the host's `on_durable` says so.

An append writes to the operating system at once; only the sync, which waits for the disk, runs in another thread.
A failed write or sync ends the journal: it tries nothing again, and nothing becomes durable afterwards.

A full disk is no failure. The host asks for room before it appends messages (`make_room`), and refuses those that do
not fit. A part of each file is kept free for all other records: removes, decisions, deleted queues, and what a
checkpoint writes. If even that is used up, or the file system cannot reserve space, records wait in memory, in their
order, until there is room. A failed sync is a failure, whatever its reason.
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
from mqlab.broker.store.host import JournalHost
from mqlab.broker.store.journal_file import DiskFullError, JournalFile
from mqlab.broker.store.manifest import Manifest, ManifestFile
from mqlab.broker.store.segments import Segments, segment_path
from mqlab.wire.native.bodies import Buffer

# More bytes than this are written at once, before the host has appended all it has.
_MAX_BUFFERED_BYTES: Final = 4 * 1024 * 1024
# How often, once a second, the journal tries again to fit messages that were refused for their size.
_MAX_RETRIES: Final = 60
# A failed assertion ends the journal like a failed disk.
_FAILURES: Final = (OSError, AssertionError)


class Journal:
    def __init__(self, settings: Settings, folder: Path, files: Files, host: JournalHost, segments: Segments) -> None:
        self._settings = settings
        self._folder = folder
        self._files = files
        self._host = host
        self._segments = segments
        self._group_commit = GroupCommit(files, folder, host, self, settings.group_delay / 1e6)
        self._full_disk = FullDiskState()
        self._sizes = FileSizes(settings.segment_size, preallocate=settings.preallocate)
        self.counters = self._group_commit.counters
        self.failed = False
        # Set before the host stops: no new sync begins, `close` does the last one.
        self.closing = False
        self._buffer: list[Buffer] = []
        self._buffered_bytes = 0
        # The last record appended, the last with the operating system, the last on disk.
        self._lsn = self._written = self._durable = 0
        # The last record of the last checkpoint, and the last that the host knows to be durable.
        self._checkpoint_lsn = self._confirmed = 0
        self._file: JournalFile
        # The first record of that file.
        self._file_first_lsn = 0
        self._manifest: ManifestFile
        # The segment that was removed last, until a sync makes the removal durable.
        self._removed = 0
        # The size of messages that were refused and may fit later, and how often the journal will still try.
        self._refused_bytes = self._retries_left = 0

    @property
    def full(self) -> bool:
        """The disk has no room for another file: the host should append only removes and the like."""
        return self._full_disk.reason != ""

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
            # Room for removes may be enough, since they free space; no room even for a header is an error.
            self._file = self._begin_file(number, (*self._sizes.reserves, self._sizes.kept_free, 0))
        except DiskFullError as error:
            raise OSError(str(error)) from error
        if self._free_bytes < self._sizes.small:
            self._on_no_room(DiskFullError("the disk has no space for another file"))

    def append(self, record: Record, lsn: int, waiter: object | None) -> bool:
        """Append a record. Return whether to flush at once: a remove that has no waiter may wait for other records."""
        if self.failed:
            return False
        if lsn != self._lsn + 1:
            self.fail(AssertionError(f"record {lsn} does not follow record {self._lsn}"))
            return False
        size = encode_into(self._buffer, record, lsn, self._durable)
        self._segments.append(record, lsn, self._file.number, size)
        self._buffered_bytes += size
        self._lsn = lsn
        if waiter is None and (self._full_disk.reason or self._refused_bytes):
            # A remove frees space only when it is on disk.
            waiter = self
        if waiter is not None:
            self._group_commit.wait(waiter)
        if self._buffered_bytes > _MAX_BUFFERED_BYTES:
            self._write()
        return waiter is not None or not isinstance(record, Remove)

    def make_room(self, size: int) -> int:
        """Reserve space for messages of so many bytes, or more. Return how many fit; fewer than `size`: they do not.

        If not even a small message fits, the disk is full (`on_disk_full`), and the journal tries nothing for a second.
        """
        if self.failed:
            return size
        if self._free_bytes < size and self._full_disk.may_try(time.perf_counter()):
            try:
                self._grow(max(size, self._sizes.grant))
            except DiskFullError as error:
                try:
                    self._grow(size)
                except DiskFullError:
                    # As long as smaller messages fit, the disk is not full.
                    self._on_no_room(error, size=size if size > self._sizes.small and self._can_grow() else 0)
            except OSError as error:
                self.fail(error)
        if self._free_bytes >= self._refused_bytes:
            self._refused_bytes = 0
        return min(self._free_bytes, max(size, self._sizes.grant))

    def flush(self) -> None:
        """The host has appended all it has: write it, and begin a sync or a new file if one is due."""
        if self._write():
            self.begin_due_work()

    def close(self) -> None:
        """Stop in good order: sync everything, then write a record that says so, unless the disk is full."""
        in_order = self._write() and not self._buffer
        if in_order:
            self._file.sync()
            self._durable = self._lsn
            self.append(Shut(), self._lsn + 1, None)
            in_order = self._write() and not self._buffer
        if in_order:
            self._file.sync()
            self._files.sync_folder(self._folder)
            self._manifest.update(lsn=self._lsn, size=0, is_clean=True)
        self._file.close(in_order=in_order)
        self._manifest.close()

    def _write(self) -> bool:
        """False: the journal has failed. True: everything is with the operating system, or waits for room."""
        if self.failed:
            return False
        full_disk = self._full_disk
        if not self._buffer or (full_disk.write_blocked and not full_disk.may_try(time.perf_counter())):
            return True
        data = b"".join(self._buffer)
        self._buffer.clear()
        try:
            self._file.write(data)
        except DiskFullError as error:
            self._buffer.append(data)
            full_disk.write_blocked = True
            self._on_no_room(error)
            return True
        except OSError as error:
            self.fail(error)
            return False
        self._buffered_bytes = 0
        self._written = self._lsn
        self.counters.bytes += len(data)
        if full_disk.write_blocked:
            # A sync that did not cover these records may have released their waiters: another sync is needed.
            full_disk.write_blocked = False
            self._group_commit.wait(self)
        return True

    # Calls from group commit

    def begin_due_work(self) -> None:
        """All that can be written is written: begin a new file or a sync if one is due."""
        if self.closing:
            return
        is_due = self.full or self._file.size > self._settings.segment_size
        is_due = is_due and self._full_disk.may_try(time.perf_counter())
        # Not during a sync: if it failed, the roll must not sync the old file again. And no further sync begins then,
        # or there would always be one in progress.
        if is_due and self._group_commit.in_progress:
            return
        if is_due:
            self._roll()
        if self.failed:
            return
        if self._settings.sync == "off":
            # Without syncs, written records count as durable.
            self._group_commit.clear_waiters()
            self._on_durable(self._written)
        else:
            self._group_commit.begin_if_due()

    def next_sync(self, used: AbstractSet[int]) -> Sync | None:
        # A sync covers only what was written before it began.
        if self._buffer and not self._write():
            return None
        try:
            file = self._file.descriptor(used)
        except OSError as error:
            self.fail(error)
            return None
        return None if file is None else Sync(self._written, file, self._removed)

    def synced(self, sync: Sync) -> None:
        if not self._durable <= sync.lsn <= self._written:
            self.fail(AssertionError(f"a sync up to record {sync.lsn} after one up to record {self._durable}"))
            return
        self._durable = sync.lsn
        if sync.removed == self._removed:
            self._removed = 0
        self._on_durable(sync.lsn)
        if self._manifest.content.lsn < self._file_first_lsn <= sync.lsn and not self.failed:
            # The first sync of this file: from now on the manifest says that some of it was confirmed.
            try:
                self._manifest.update(lsn=sync.lsn)
            except _FAILURES as error:
                self.fail(error)

    def fail(self, error: BaseException) -> None:
        if not self.failed:
            self.failed = self._group_commit.ended = True
            self._host.on_failure(error)

    def _on_durable(self, lsn: int) -> None:
        self._confirmed = lsn
        # Confirmations come first.
        self._host.on_durable(lsn)
        try:
            self._segments.on_durable(lsn)
            # The next segment goes after a sync of the folder: no disk then keeps a later removal without an earlier.
            number = None if self._removed else self._segments.removable
            if number is not None:
                self._remove(number)
        except _FAILURES as error:
            self.fail(error)

    def _remove(self, number: int) -> None:
        file = self._segments.payload_files.get(number)
        if file is not None and not file.open_before_removal():
            return
        self._manifest.update(first=number + 1)
        self._files.remove(segment_path(self._folder, number))
        self._segments.remove(number)
        if self._settings.sync == "off":
            self._files.sync_folder(self._folder)
        else:
            self._removed = number
        self._full_disk.retry_soon()
        if self.full:
            self._group_commit.wait(self)

    # New files

    @property
    def _free_bytes(self) -> int:
        """Bytes of messages that can be appended now."""
        return self._file.room - self._buffered_bytes - self._sizes.kept_free

    def _grow(self, size: int) -> None:
        self._file.grow(size + self._buffered_bytes + self._sizes.kept_free)

    def _begin_file(self, number: int, reserves: Sequence[int]) -> JournalFile:
        host, segments = self._host, self._segments
        header = encode_file_header(
            number, self._lsn + 1, host.declarations(), host.remembered(), segments.last_queue,
            self._manifest.content.store,
        )  # fmt: skip
        file = JournalFile.begin(self._folder, self._files, number, header, reserves)
        segments.begin(number)
        self._file_first_lsn = self._lsn + 1
        # Before any record is written there: all records before it are on disk.
        self._manifest.update(last=number, lsn=self._lsn, size=file.length, is_clean=False)
        return file

    def _roll(self) -> None:
        """Continue in a new file. The old one is synced first, so only the last file of a journal can be torn."""
        if not self._write() or self._buffer:
            return
        try:
            if self.full and self._file.size <= self._settings.segment_size:
                if self._can_grow():
                    self._on_room()
                    return
                if not self._can_replace_only_file():
                    raise DiskFullError(self._full_disk.reason)
            self._file.sync()
            self._replace_file()
        except DiskFullError as error:
            self._on_no_room(error)
            return
        except _FAILURES as error:
            self.fail(error)
            return
        if self._free_bytes >= self._sizes.small:
            self._on_room()
        segments = self._segments
        if segments.length > self._settings.log_length and 2 * segments.needed_bytes <= segments.length:
            self._checkpoint()

    def _replace_file(self) -> None:
        old = self._file
        # The space granted to messages in the old file must fit into the new one.
        granted = min(old.room, self._sizes.grant) + self._sizes.kept_free
        reserves = [reserve for reserve in self._sizes.reserves if reserve >= granted] or [granted]
        try:
            self._file = self._begin_file(old.number + 1, reserves)
        except DiskFullError:
            if not self._can_replace_only_file():
                raise
            # Only the old file's own reserve is left to begin a new one, after which the old one can go.
            self._manifest.update(size=0)
            old.give_back()
            try:
                self._file = self._begin_file(old.number + 1, (self._sizes.kept_free, self._sizes.kept_free // 2, 0))
            except DiskFullError:
                with suppress(DiskFullError):
                    old.grow(self._sizes.kept_free)
                raise
        old.close(in_order=True)

    def _can_replace_only_file(self) -> bool:
        """There is one file only, and its reserve has room for a checkpoint of it."""
        segments, number = self._segments, self._file.number
        return segments.is_only(number) and 2 * segments.max_checkpoint_bytes(number) < self._sizes.kept_free

    def _can_grow(self) -> bool:
        """Reserve space for a small message, if the disk has it."""
        try:
            self._grow(self._sizes.small)
        except DiskFullError:
            return False
        return True

    def _checkpoint(self) -> None:
        """Write again what is needed of the oldest file: when that is durable, the file can go."""
        oldest = self._segments.oldest_needed
        if oldest is None or self._checkpoint_lsn > self._confirmed:
            return
        begin, before = time.perf_counter(), self._segments.length
        try:
            self._host.carry_forward(*self._segments.begin_checkpoint(oldest))
        except Exception as error:
            # A message that must be kept cannot be read: a failure, like a failed disk.
            self.fail(error)
        self._segments.end_checkpoint()
        if not self._write():
            return
        self._checkpoint_lsn = self._lsn
        self._group_commit.wait(self)
        self.counters.checkpoints += 1
        self.counters.carried_bytes += self._segments.length - before
        self.counters.checkpoint_seconds += time.perf_counter() - begin

    # Full disk

    def _on_room(self) -> None:
        if self.full:
            self._full_disk.clear()
            self._host.on_disk_full("")

    def _on_no_room(self, error: DiskFullError, *, size: int = 0) -> None:
        """The disk has no room for messages of this size; 0: for none."""
        was_full = self.full
        if size:
            self._refused_bytes = max(self._refused_bytes, size)
        else:
            self._full_disk.set_full(str(error), time.perf_counter())
        # Removes so far free space only when they are on disk.
        self._group_commit.wait(self)
        if not self._retries_left:
            self._host.later(RETRY_SECONDS, self._retry_room)
        self._retries_left = _MAX_RETRIES
        if self.full and not was_full:
            self._host.on_disk_full(self._full_disk.reason)

    def _retry_room(self) -> None:
        """Other programs may have freed space; a checkpoint can, too, if little of the oldest file is needed."""
        self._retries_left -= not self.full
        if not (self.full or (self._refused_bytes and self._retries_left)) or self.failed or self.closing:
            self._retries_left = self._refused_bytes = 0
            return
        self.flush()
        if not self.failed:
            oldest = self._segments.oldest_needed
            room = self._file.room - self._buffered_bytes
            if oldest is not None and 2 * self._segments.max_checkpoint_bytes(oldest) < room:
                self._checkpoint()
                self.begin_due_work()
            self._host.later(RETRY_SECONDS, self._retry_room)
