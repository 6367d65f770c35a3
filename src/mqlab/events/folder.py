"""The run folder: everything that one `mqlab run` recorded and measured."""

import fcntl
import json
import os
import re
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq

from mqlab.errors import MqlabError
from mqlab.events.checksums import SUFFIX, file_name
from mqlab.events.compacted import COMPACTED_PREFIX
from mqlab.events.schema import SCHEMA_VERSION, TABLES
from mqlab.json_values import JsonObject
from mqlab.regular_file import read_regular

# Some kilobytes for each system, and a line for each point that a system cannot play.
_MAX_META_BYTES: Final = 64_000_000
# The pipeline reads row groups, and large runs in blocks of some million rows: it skips what a block does not need.
ROW_GROUP_ROWS: Final = 1 << 17
# A folder with such a name is there while `mqlab measure --follow` works.
FOLLOW_PREFIX: Final = ".follow-"


def run_name(run: int) -> str:
    """How the names of the event files of a run begin."""
    return f"run-{run:05d}"


def run_folders(parent: Path) -> list[Path]:
    """The run folders in a folder, in the order of their names: that of their times."""
    return sorted(path.parent for path in parent.glob("*/meta.json"))


class NotARunFolderError(MqlabError, ValueError):
    """The path is not a run folder, or this version cannot read its events."""


class RunFolderBusyError(MqlabError):
    """Another process writes to the run folder."""


class RunFolder:
    """`meta.json`, `study/` (a copy of the study), `events/`, `measures/`, `files/` and `report/`."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.meta_file = path / "meta.json"
        self.study = path / "study"
        self.events = path / "events"
        self.measures = path / "measures"
        # Files that systems write by settings of the study, such as traces. It exists only if there are some.
        self.files = path / "files"
        self.report = path / "report"

    @classmethod
    def create(cls, parent: Path, name: str, now: datetime | None = None) -> "RunFolder":
        """Create a folder under `parent`. Its name is the time and `name`, with a number if it exists already."""
        stamp = (now or datetime.now(UTC)).strftime("%Y%m%d-%H%M%S")
        base = f"{stamp}-{re.sub(r'[^A-Za-z0-9._-]+', '-', name).strip('-.') or 'run'}"
        parent.mkdir(parents=True, exist_ok=True)
        for suffix in ("", *(f"-{n}" for n in range(2, 100))):
            path = parent / (base + suffix)
            try:
                path.mkdir()
            except FileExistsError:
                continue
            folder = cls(path)
            for part in (folder.events, folder.measures, folder.report, folder.study):
                part.mkdir()
            return folder
        raise FileExistsError(f"{parent / base}: a hundred runs began in this second")

    @classmethod
    def open(cls, path: Path) -> "RunFolder":
        """Raises NotARunFolderError."""
        folder = cls(path)
        if not folder.meta_file.exists():
            raise NotARunFolderError(f"{path}: not a run folder (it has no meta.json)")
        try:
            version = folder.meta().get("schema_version")
        except OSError as error:
            raise NotARunFolderError(f"{path}: its meta.json cannot be read: {error.strerror}") from error
        except (ValueError, AttributeError, RecursionError) as error:
            raise NotARunFolderError(f"{path}: its meta.json cannot be read ({error})") from error
        if version != SCHEMA_VERSION:
            raise NotARunFolderError(f"{path}: events of schema version {version}, this mqlab reads {SCHEMA_VERSION}")
        return folder

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Keep other processes from writing to it. Raises RunFolderBusyError."""
        with _flock(self.path, fcntl.LOCK_EX | fcntl.LOCK_NB, "another mqlab is running it"):
            yield

    @contextmanager
    def events_locked(self, *, exclusive: bool = False) -> Iterator[None]:
        """Keep compaction from replacing the event files that are read; waits for its end.

        `exclusive`: for compaction itself. Raises RunFolderBusyError if another process reads them.
        """
        operation = fcntl.LOCK_EX | fcntl.LOCK_NB if exclusive else fcntl.LOCK_SH
        with ExitStack() as stack:
            try:
                stack.enter_context(_flock(self.events, operation, "another mqlab reads its events"))
            except OSError:
                # Where files cannot be locked, and where there are no events, nothing is compacted.
                if exclusive:
                    raise
            yield

    @contextmanager
    def measures_locked(self) -> Iterator[None]:
        """Let one process after the other write measures: who runs a study and who follows it end together."""
        self.measures.mkdir(exist_ok=True)
        with ExitStack() as stack:
            with suppress(OSError):  # where files cannot be locked
                stack.enter_context(_flock(self.measures, fcntl.LOCK_EX, "another mqlab writes its measures"))
            yield

    @property
    def is_followed(self) -> bool:
        """Whether somebody reads the events while runs go on: agents then write them every few seconds."""
        return any(self.path.glob(f"{FOLLOW_PREFIX}*"))

    @property
    def is_compacted(self) -> bool:
        """Whether it has compacted files: it was complete then."""
        return any(self.events.glob(f"*/{COMPACTED_PREFIX}*{SUFFIX}"))

    def meta(self) -> JsonObject:
        meta: JsonObject = json.loads(read_regular(self.meta_file, _MAX_META_BYTES))
        return meta

    def write_meta(self, meta: JsonObject) -> None:
        """Replace meta.json atomically."""
        text = json.dumps({"schema_version": SCHEMA_VERSION, **meta}, indent=2, sort_keys=False)
        temporary = self.meta_file.with_suffix(".new")
        temporary.write_text(text + "\n")
        temporary.replace(self.meta_file)

    def write_events(self, table: str, name: str, rows: pa.Table) -> None:
        """Write a new Parquet file of a table. `name` must be unique in the table.

        The checksum is computed in memory, so it also detects errors on the way to the disk.
        """
        output = pa.BufferOutputStream()
        pq.write_table(rows.cast(TABLES[table]), output, row_group_size=ROW_GROUP_ROWS)
        content = memoryview(output.getvalue())
        folder = self.events / table
        folder.mkdir(exist_ok=True)
        # Renamed when it is complete: a partial file would void its run. Spark ignores names with a leading dot.
        unfinished = folder / f".{name}.unfinished"
        unfinished.write_bytes(content)
        unfinished.replace(folder / file_name(name, content))

    def remove_events(self, run: int) -> None:
        for file in self.events.glob(f"*/{run_name(run)}[-.]*"):
            file.unlink()

    def event_files(self, table: str) -> list[Path]:
        return sorted((self.events / table).glob(f"*{SUFFIX}"))


@contextmanager
def _flock(path: Path, operation: int, reason: str) -> Iterator[None]:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        try:
            fcntl.flock(descriptor, operation)
        except BlockingIOError:
            raise RunFolderBusyError(f"{path}: {reason}") from None
        yield
    finally:
        os.close(descriptor)
