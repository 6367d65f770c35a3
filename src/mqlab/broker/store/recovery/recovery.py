"""Recovery: reads the journal after a stop of any kind. It returns every durable record, or says why it cannot."""

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import groupby
from operator import attrgetter
from pathlib import Path

from mqlab.broker.core.durability.records import Prepare
from mqlab.broker.heap import release_free_memory
from mqlab.broker.store.files.layer import Files
from mqlab.broker.store.manifest import Manifest, mismatch_without_manifest, open_manifest_file
from mqlab.broker.store.payloads.stored import PayloadFile, PayloadReader
from mqlab.broker.store.recovery.damage import torn_bytes, was_durable
from mqlab.broker.store.recovery.live_ranges import rows_and_bytes
from mqlab.broker.store.recovery.replay import RecoveredQueue, Replay, UnreadableFileError
from mqlab.broker.store.segments import Segments, segment_numbers, segment_path
from mqlab.errors import MqlabError

__all__ = ["DamagedJournalError", "RecoveredQueue", "RecoveredState", "recover"]


class DamagedJournalError(MqlabError):
    """Something that was on disk is unreadable. Recovery has changed no file."""


@dataclass
class RecoveredState:
    queues: dict[int, RecoveredQueue]
    segments: Segments
    lsn: int
    next_file: int
    # Transactions that wait for their decision, by xid.
    prepared: dict[str, Prepare] = field(default_factory=dict)
    # Duplicate ids to recognise, by the name of the destination, oldest first.
    remembered: dict[str, list[str]] = field(default_factory=dict)
    # The highest number that a queue ever had.
    last_queue: int = 0
    # Unreadable bytes at the end that no record proves to have been durable.
    torn: int = 0
    # None: the store has had no manifest so far.
    manifest: Manifest | None = None


def recover(folder: Path, files: Files, keep_in_memory: int) -> RecoveredState:
    """Read all files of the journal and cut off a torn tail. Raises DamagedJournalError.

    Payloads beyond `keep_in_memory` bytes stay in the journal; their messages have references that load them. Recovery
    reads one file at a time, which takes that much memory in addition. It syncs what it has read: after a crash of the
    broker alone, some of it may be in the operating system's memory only.
    """
    recovery = _Recovery(folder, files, Replay(keep_in_memory))
    numbers = segment_numbers(folder)
    recovery.check_all_present(numbers)
    with _garbage_collection_paused():
        for number in numbers:
            recovery.read(number, first=number == numbers[0], last=number == numbers[-1])
            # Objects kept of a file lie around the memory that held it: the next file may not fit into that gap.
            release_free_memory()
        recovery.check_reached_manifest()
        state = recovery.state()
    for number in numbers:
        files.sync_path(segment_path(folder, number))
    recovery.cut_tail()
    files.sync_folder(folder)
    return state


@contextmanager
def _garbage_collection_paused() -> Iterator[None]:
    """Recovery makes millions of tuples and no garbage: the collector would take half of its time."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


class _Recovery:
    def __init__(self, folder: Path, files: Files, replay: Replay) -> None:
        self._folder = folder
        self._files = files
        self._replay = replay
        self._reader = PayloadReader(files)
        self._sizes: dict[int, int] = {}
        self._payload_files: dict[int, PayloadFile] = {}
        self._next_file = 1
        self._torn = 0
        self._is_torn = False
        # The last file, and the byte at which its readable part ends.
        self._end: tuple[Path, int] | None = None
        self._manifest = Manifest.read(folder, files)
        replay.mismatch = self._manifest.mismatch if self._manifest is not None else mismatch_without_manifest

    def check_all_present(self, numbers: list[int]) -> None:
        manifest = self._manifest
        if manifest is not None and (missing := manifest.missing(numbers)):
            names = ", ".join(segment_path(self._folder, number).name for number in missing)
            raise DamagedJournalError(
                f"{self._folder}: journal files are missing: {names}. The manifest lists the files {manifest.first} to "
                f"{manifest.last}, with all records up to {manifest.lsn} confirmed. The broker has changed no file."
            )

    def check_reached_manifest(self) -> None:
        manifest, lsn = self._manifest, self._replay.lsn
        if manifest is not None and lsn < manifest.lsn:
            last = segment_path(self._folder, self._next_file - 1)
            raise DamagedJournalError(
                f"{last}: it ends with record {lsn}, and records up to {manifest.lsn} were confirmed. "
                "The broker has changed no file."
            )

    def cut_tail(self) -> None:
        """Cut off the unreadable tail, and release unused space. All that was read is on disk by now."""
        if self._end is None:
            return
        path, size = self._end
        manifest = self._manifest
        if manifest is not None:
            # From now on the file may be shorter than it was.
            manifest.size, manifest.lsn = 0, max(manifest.lsn, self._replay.lsn)
            file = open_manifest_file(self._folder, self._files)
            try:
                manifest.write(file, self._files)
            finally:
                self._files.close(file)
        if self._is_torn and size:
            self._files.truncate(path, size)
        elif self._is_torn:
            self._files.remove(path)
        if size:
            self._files.trim(path, size)

    def read(self, number: int, *, first: bool, last: bool) -> None:
        path = segment_path(self._folder, number)
        if not first and number != self._next_file:
            raise DamagedJournalError(f"{segment_path(self._folder, self._next_file)}: this journal file is missing")
        data = self._read_bytes(path)
        self._next_file = number + 1
        self._payload_files[number] = file = PayloadFile(path, self._reader)
        try:
            size = self._replay.read_file(data, number, file, first=first)
        except UnreadableFileError as error:
            lsn, size = self._replay.lsn + 1, error.at
            is_in_manifest = self._manifest is not None and self._manifest.proves_durable(number, size)
            if not last or error.lost or is_in_manifest or was_durable(data, size, lsn):
                raise DamagedJournalError(
                    f"{path}: byte {error.at}: record {lsn} was on disk and cannot be read: {error}. "
                    "The broker has changed no file."
                ) from error
            self._is_torn, self._torn = True, torn_bytes(data, size)
            if not size:
                self._next_file = number
        if size:
            self._sizes[number] = size - self._replay.header_size
        if last:
            self._end = path, size

    def _read_bytes(self, path: Path) -> bytes:
        try:
            return self._files.read(path)
        except OSError as error:
            raise DamagedJournalError(f"{path}: cannot be read: {error}. The broker has changed no file.") from error

    def state(self) -> RecoveredState:
        replay = self._replay
        replay.drop_removed()
        return RecoveredState(
            replay.queues, self._segments(), replay.lsn, self._next_file,
            prepared={xid: prepared.record for xid, prepared in replay.prepared.items()},
            remembered=replay.duplicate_ids.by_destination(), last_queue=replay.last_queue, torn=self._torn,
            manifest=self._manifest,
        )  # fmt: skip

    def _segments(self) -> Segments:
        """The live messages and prepared transactions of each segment."""
        segments, replay = Segments(), self._replay
        for number, size in self._sizes.items():
            segments.begin(number, size)
        for queue, recovered in replay.queues.items():
            for number, group in groupby(recovered.live, key=attrgetter("number")):
                ranges = [*group]
                segments.restore(queue, ranges[0].begin, ranges[-1].end, *rows_and_bytes(ranges), number)
        for prepared in replay.prepared.values():
            targets = {queue for put in prepared.record.puts for queue, _ in put.targets}
            segments.deleted_queues |= targets - replay.queues.keys()
            segments.prepare(prepared.record, replay.lsn, prepared.number)
        segments.last_queue = replay.last_queue
        segments.payload_files.update(self._payload_files)
        return segments
