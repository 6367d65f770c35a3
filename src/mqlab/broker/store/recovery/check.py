"""A store examined while no broker uses it: what its files hold, and whether all of it can be read. Changes nothing."""

import dataclasses
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from mqlab.broker.store.files.layer import Files
from mqlab.broker.store.manifest import Manifest, mismatch_without_manifest
from mqlab.broker.store.payloads.stored import PayloadFile, PayloadReader
from mqlab.broker.store.recovery.damage import torn_bytes, was_durable
from mqlab.broker.store.recovery.live_ranges import extent
from mqlab.broker.store.recovery.replay import Replay, UnreadableFileError
from mqlab.broker.store.segments import segment_numbers, segment_path

State = Literal["whole", "torn", "damaged", "missing"]
Verdict = Literal["sound", "torn tail", "damaged"]


@dataclass(frozen=True)
class FileReport:
    number: int
    path: Path
    # As far as it was written.
    bytes: int
    # Records that can be read, and the numbers of the first and the last of them (0: there is none).
    records: int
    first_lsn: int
    last_lsn: int
    state: State
    # Unless it is whole: from which byte on it cannot be read, and why; what recovery would cut off.
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
    """Of a damaged store, queues and transactions are what the readable part says."""

    files: list[FileReport] = field(default_factory=list)
    queues: list[QueueReport] = field(default_factory=list)
    # Names of transactions that wait for their decision.
    prepared: list[str] = field(default_factory=list)
    # Whether the last broker stopped in good order; None: there never was one.
    stopped_in_order: bool | None = None

    @property
    def verdict(self) -> Verdict:
        states = {file.state for file in self.files}
        if states & {"damaged", "missing"}:
            return "damaged"
        return "torn tail" if "torn" in states else "sound"


def check_store(folder: Path) -> StoreReport:
    """Raises NotADirectoryError if there is no such folder."""
    if not folder.is_dir():
        raise NotADirectoryError(f"{folder}: there is no such folder")
    examiner = _StoreChecker(folder)
    manifest, numbers = examiner.manifest, segment_numbers(folder)
    listed = numbers if manifest is None else [*numbers, *manifest.missing(numbers)]
    reports: list[FileReport] = []
    for number in range(min(listed), max(listed) + 1) if listed else ():
        if number not in numbers:
            reports.append(
                FileReport(number, segment_path(folder, number), 0, 0, 0, 0, "missing", why="it is not there")
            )
            continue
        follows = bool(reports) and reports[-1].state == "whole"
        reports.append(examiner.file(number, follows=follows, last=number == max(listed)))
    replay = examiner.replay
    if manifest is not None and reports and replay.lsn < manifest.lsn and reports[-1].state in ("whole", "torn"):
        why = f"it ends with record {replay.lsn}, and records up to {manifest.lsn} were confirmed"
        reports[-1] = dataclasses.replace(reports[-1], state="damaged", at=reports[-1].bytes, why=why, torn_bytes=0)
    replay.settle()
    queues = [QueueReport(number, queue.name, *extent(queue.parts)) for number, queue in sorted(replay.queues.items())]
    in_order = replay.shut and reports[-1].state == "whole" if reports else None
    return StoreReport(reports, queues, [*replay.prepared], in_order)


class _StoreChecker:
    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._files = Files()
        self._reader = PayloadReader(self._files)
        self.replay = Replay(keep_in_memory=0)
        self.manifest = Manifest.read(folder, self._files)
        self.replay.fault = self.manifest.fault if self.manifest is not None else mismatch_without_manifest

    def file(self, number: int, *, follows: bool, last: bool) -> FileReport:
        """`follows`: the file before it was read to its end."""
        path, replay = segment_path(self._folder, number), self.replay
        try:
            data = self._files.read(path)
        except OSError as error:
            return FileReport(number, path, 0, 0, 0, 0, "damaged", why=str(error))
        state: State = "whole"
        at, why, torn, replay.head_size = 0, "", 0, 0
        try:
            size = replay.read_file(data, number, PayloadFile(path, self._reader), first=not follows)
        except UnreadableFileError as found:
            at, why, written = found.at, str(found), torn_bytes(data, found.at)
            size = at + written
            begun = self.manifest is not None and self.manifest.was_begun(number, at)
            if last and not (found.lost or begun) and not was_durable(data, at, replay.lsn + 1):
                state, torn = "torn", written
            else:
                state = "damaged"
        if not replay.head_size:
            return FileReport(number, path, size, 0, 0, 0, state, at, why, torn)
        records = replay.lsn - replay.first_lsn + 1
        first, last_lsn = (replay.first_lsn, replay.lsn) if records else (0, 0)
        return FileReport(number, path, size, records, first, last_lsn, state, at, why, torn)
