"""The check of a store that no broker uses: what its files hold, and whether all of it can be read. Changes nothing."""

import dataclasses
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from mqlab.broker.store.files.layer import Files
from mqlab.broker.store.manifest import Manifest, mismatch_without_manifest
from mqlab.broker.store.payloads.stored import PayloadFile, PayloadReader
from mqlab.broker.store.recovery.damage import torn_bytes, was_durable
from mqlab.broker.store.recovery.live_ranges import rows_and_bytes
from mqlab.broker.store.recovery.replay import Replay, UnreadableFileError
from mqlab.broker.store.segments import segment_numbers, segment_path

State = Literal["whole", "torn", "damaged", "missing"]
Verdict = Literal["sound", "torn tail", "damaged"]


@dataclass(frozen=True)
class FileReport:
    number: int
    path: Path
    # Without unused space.
    bytes: int
    # Readable records, and the numbers of the first and the last of them (0: there is none).
    records: int
    first_lsn: int
    last_lsn: int
    state: State
    # Unless it is whole: the byte from which on it is unreadable, why, and how many bytes recovery would cut off.
    at: int = 0
    why: str = ""
    torn_bytes: int = 0


@dataclass(frozen=True)
class QueueReport:
    number: int
    name: str
    messages: int
    bytes: int


@dataclass(frozen=True)
class StoreReport:
    """Of a damaged store, queues and transactions are those of the readable part."""

    files: list[FileReport] = field(default_factory=list)
    queues: list[QueueReport] = field(default_factory=list)
    # Xids of transactions that wait for their decision.
    prepared: list[str] = field(default_factory=list)
    # Whether the last broker stopped in good order; None: no broker has used the store.
    stopped_in_order: bool | None = None

    @property
    def verdict(self) -> Verdict:
        states = {file.state for file in self.files}
        if states & {"damaged", "missing"}:
            return "damaged"
        return "torn tail" if "torn" in states else "sound"


def check_store(folder: Path) -> StoreReport:
    """Raises NotADirectoryError if the folder does not exist."""
    if not folder.is_dir():
        raise NotADirectoryError(f"{folder}: there is no such folder")
    checker = _StoreChecker(folder)
    manifest, numbers = checker.manifest, segment_numbers(folder)
    expected = numbers if manifest is None else [*numbers, *manifest.missing(numbers)]
    reports: list[FileReport] = []
    for number in range(min(expected), max(expected) + 1) if expected else ():
        if number not in numbers:
            path = segment_path(folder, number)
            reports.append(FileReport(number, path, 0, 0, 0, 0, "missing", why="the file does not exist"))
            continue
        follows = bool(reports) and reports[-1].state == "whole"
        reports.append(checker.check_file(number, follows=follows, last=number == max(expected)))
    replay = checker.replay
    if manifest is not None and reports and replay.lsn < manifest.lsn and reports[-1].state in ("whole", "torn"):
        why = f"it ends with record {replay.lsn}, and records up to {manifest.lsn} were confirmed"
        reports[-1] = dataclasses.replace(reports[-1], state="damaged", at=reports[-1].bytes, why=why, torn_bytes=0)
    replay.drop_removed()
    queues = [
        QueueReport(number, queue.name, *rows_and_bytes(queue.live)) for number, queue in sorted(replay.queues.items())
    ]
    in_order = replay.is_shut and reports[-1].state == "whole" if reports else None
    return StoreReport(reports, queues, [*replay.prepared], in_order)


class _StoreChecker:
    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._files = Files()
        self._reader = PayloadReader(self._files)
        self.replay = Replay(keep_in_memory=0)
        self.manifest = Manifest.read(folder, self._files)
        self.replay.mismatch = self.manifest.mismatch if self.manifest is not None else mismatch_without_manifest

    def check_file(self, number: int, *, follows: bool, last: bool) -> FileReport:
        """`follows`: the file before it was read to its end."""
        path, replay = segment_path(self._folder, number), self.replay
        try:
            data = self._files.read(path)
        except OSError as error:
            return FileReport(number, path, 0, 0, 0, 0, "damaged", why=str(error))
        state: State = "whole"
        at, why, torn, replay.header_size = 0, "", 0, 0
        try:
            size = replay.read_file(data, number, PayloadFile(path, self._reader), first=not follows)
        except UnreadableFileError as error:
            at, why, written = error.at, str(error), torn_bytes(data, error.at)
            size = at + written
            is_in_manifest = self.manifest is not None and self.manifest.proves_durable(number, at)
            if last and not (error.lost or is_in_manifest) and not was_durable(data, at, replay.lsn + 1):
                state, torn = "torn", written
            else:
                state = "damaged"
        if not replay.header_size:
            return FileReport(number, path, size, 0, 0, 0, state, at, why, torn)
        records = replay.lsn - replay.first_lsn + 1
        first, last_lsn = (replay.first_lsn, replay.lsn) if records else (0, 0)
        return FileReport(number, path, size, records, first, last_lsn, state, at, why, torn)
