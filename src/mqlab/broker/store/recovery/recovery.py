"""What the journal says after a stop of any kind: every durable record, or a clear report of why not."""

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import groupby
from operator import attrgetter
from pathlib import Path

from mqlab.broker.core.durability.records import Prepare
from mqlab.broker.store.files.layer import Files
from mqlab.broker.store.manifest import Manifest, mismatch_without_manifest, open_manifest_file
from mqlab.broker.store.payloads.stored import PayloadFile, PayloadReader
from mqlab.broker.store.recovery.damage import torn_bytes, was_durable
from mqlab.broker.store.recovery.heap import give_back
from mqlab.broker.store.recovery.live_ranges import extent
from mqlab.broker.store.recovery.replay import RecoveredQueue, Replay, UnreadableFileError
from mqlab.broker.store.segments import Segments, segment_numbers, segment_path
from mqlab.errors import MqlabError

__all__ = ["DamagedJournalError", "RecoveredQueue", "RecoveredState", "recover"]


class DamagedJournalError(MqlabError):
    """Something that was on disk can no longer be read. The files are left as they are."""


@dataclass
class RecoveredState:
    queues: dict[int, RecoveredQueue]
    segments: Segments
    lsn: int
    next_file: int
    # Transactions that wait for their decision.
    prepared: dict[str, Prepare] = field(default_factory=dict)
    # Ids given by producers that must be known again, by the name of the destination, oldest first.
    remembered: dict[str, list[str]] = field(default_factory=dict)
    # The highest number that a queue ever had.
    last_queue: int = 0
    # Bytes at the end that cannot be read: as far as the files can tell, still on their way when the broker stopped.
    torn: int = 0
    # None: the store has had no manifest so far.
    manifest: Manifest | None = None


def recover(folder: Path, files: Files, keep_in_memory: int) -> RecoveredState:
    """Reads all files of the journal and cuts off a torn tail. Raises DamagedJournalError.

    Payloads beyond `keep_in_memory` bytes stay in the journal, and messages have a stand-in that loads them. A file
    is read at a time: so much memory is needed besides. What was read is synced: after a crash of the broker alone it
    may be in the operating system's memory only.
    """
    recovery = _Recovery(folder, files, Replay(keep_in_memory))
    numbers = segment_numbers(folder)
    recovery.check_list(numbers)
    with _garbage_collection_paused():
        for number in numbers:
            recovery.read(number, first=number == numbers[0], last=number == numbers[-1])
            # What is kept of a file lies around the memory it was read into: the next may not fit into that gap.
            give_back()
        recovery.check_end()
        found = recovery.found()
    for number in numbers:
        files.sync_path(segment_path(folder, number))
    recovery.cut()
    files.sync_folder(folder)
    return found


@contextmanager
def _garbage_collection_paused() -> Iterator[None]:
    """Millions of tuples are made and none is garbage: looking for some again and again would take half of the time."""
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
        # Of the last file: where what can be read ends.
        self._end: tuple[Path, int] | None = None
        self._manifest = Manifest.read(folder, files)
        replay.fault = self._manifest.fault if self._manifest is not None else mismatch_without_manifest

    def check_list(self, numbers: list[int]) -> None:
        manifest = self._manifest
        if manifest is not None and (missing := manifest.missing(numbers)):
            paths = ", ".join(segment_path(self._folder, number).name for number in missing)
            raise DamagedJournalError(
                f"{self._folder}: of the journal files {manifest.first} to {manifest.last}, which had all that was "
                f"confirmed up to record {manifest.lsn} or later, these are missing: {paths}. "
                "The others are left as they are."
            )

    def check_end(self) -> None:
        manifest, lsn = self._manifest, self._replay.lsn
        if manifest is not None and lsn < manifest.lsn:
            last = segment_path(self._folder, self._next_file - 1)
            raise DamagedJournalError(
                f"{last}: it ends with record {lsn}, and records up to {manifest.lsn} were confirmed. "
                "The files are left as they are."
            )

    def cut(self) -> None:
        """All that was read is on disk. Drop the unreadable end, and give back the space that was not used."""
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
        if self._is_torn:
            self._cut(path, size)
        if size:
            self._files.trim(path, size)

    def read(self, number: int, *, first: bool, last: bool) -> None:
        path = segment_path(self._folder, number)
        if not first and number != self._next_file:
            raise DamagedJournalError(f"{segment_path(self._folder, self._next_file)}: this journal file is missing")
        data = self._data(path)
        self._next_file = number + 1
        self._payload_files[number] = home = PayloadFile(path, self._reader)
        try:
            size = self._replay.read_file(data, number, home, first=first)
        except UnreadableFileError as why:
            lsn, size = self._replay.lsn + 1, why.at
            begun = self._manifest is not None and self._manifest.was_begun(number, size)
            if not last or why.lost or begun or was_durable(data, size, lsn):
                raise DamagedJournalError(
                    f"{path}: byte {why.at}: record {lsn} was on disk and cannot be read: {why}. "
                    "The files are left as they are."
                ) from why
            self._is_torn, self._torn = True, torn_bytes(data, size)
            if not size:
                self._next_file = number
        if size:
            self._sizes[number] = size - self._replay.head_size
        if last:
            self._end = path, size

    def _data(self, path: Path) -> bytes:
        try:
            return self._files.read(path)
        except OSError as error:
            raise DamagedJournalError(f"{path}: cannot be read: {error}. The files are left as they are.") from error

    def _cut(self, path: Path, at: int) -> None:
        if at:
            self._files.truncate(path, at)
        else:
            self._files.remove(path)

    def found(self) -> RecoveredState:
        replay = self._replay
        replay.settle()
        return RecoveredState(
            replay.queues, self._segments(), replay.lsn, self._next_file,
            prepared={xid: one.record for xid, one in replay.prepared.items()}, remembered=replay.remembering.found(),
            last_queue=replay.last_queue, torn=self._torn, manifest=self._manifest,
        )  # fmt: skip

    def _segments(self) -> Segments:
        """From what is left: exactly what each file is needed for."""
        segments, replay = Segments(), self._replay
        for number, size in self._sizes.items():
            segments.begin(number, size)
        for queue, recovered in replay.queues.items():
            for number, group in groupby(recovered.parts, key=attrgetter("number")):
                parts = [*group]
                segments.restore(queue, parts[0].begin, parts[-1].end, *extent(parts), number)
        for one in replay.prepared.values():
            segments.forgotten |= {queue for put in one.record.puts for queue, _ in put.targets} - replay.queues.keys()
            segments.prepare(one.record, replay.lsn, one.number)
        segments.last_queue = replay.last_queue
        segments.payload_files.update(self._payload_files)
        return segments
